"""weft: Stackless Python for today's CPython. The public names of tasklets and channels.

`weft.remote` has the contexts on other machines, `weft.io` the calls that wait for descriptors and processes,
`weft.stackless` the module for programs that were written for Stackless.

Live attributes of the module, as in Stackless:
    current: the tasklet that runs. main: its thread's main tasklet. runcount: how many tasklets of the thread are
    runnable, the current one included. threads: a list of the ids of all threads, the oldest first.
"""

from typing import TYPE_CHECKING, Any

from weft import core
from weft.core import (
    ChannelClosed,
    Deadlock,
    NoCore,
    TaskletExit,
    WeftError,
    atomic,
    channel,
    get_channel_callback,
    get_schedule_callback,
    get_thread_info,
    getcurrent,
    getcurrentid,
    getmain,
    getruncount,
    run,
    schedule,
    schedule_remove,
    set_channel_callback,
    set_error_handler,
    set_schedule_callback,
    sleep,
    switch_trap,
    tasklet,
    trim,
)

__version__ = "0.1.0"

__all__ = [
    "ChannelClosed",
    "Deadlock",
    "NoCore",
    "TaskletExit",
    "WeftError",
    "atomic",
    "channel",
    "get_channel_callback",
    "get_schedule_callback",
    "get_thread_info",
    "getcurrent",
    "getcurrentid",
    "getmain",
    "getruncount",
    "run",
    "schedule",
    "schedule_remove",
    "set_channel_callback",
    "set_error_handler",
    "set_schedule_callback",
    "sleep",
    "switch_trap",
    "tasklet",
    "trim",
]

if TYPE_CHECKING:
    current: tasklet[...]
    main: tasklet[...]
    runcount: int
    threads: list[int]

_LIVE = {"current": core.getcurrent, "main": core.getmain, "runcount": core.getruncount, "threads": core.threads}


def __getattr__(name: str) -> Any:
    if name in _LIVE:
        return _LIVE[name]()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LIVE])
