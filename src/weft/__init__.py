"""weft: Stackless Python for today's CPython. The public names of tasklets and channels.

`weft.remote` has the contexts on other machines, `weft.io` the calls that wait for descriptors and processes,
`weft.stackless` the module for programs that were written for Stackless. Its live attributes (`stackless.current`) are
functions here: a module with a __getattr__ of its own makes each `weft.name` 25 ns slower.
"""

from weft._at import at
from weft._checkpoint import checkpoint
from weft._generator import generator, yield_
from weft._move import NotMoved, home, move_to
from weft.core import (
    Cancelled,
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
    select,
    set_channel_callback,
    set_error_handler,
    set_schedule_callback,
    sleep,
    switch_trap,
    tasklet,
    trim,
)
from weft.io import call_async, responsive
from weft.sync._outcome import TaskletKilled
from weft.sync._scope import scope
from weft.sync._spawn import spawn
from weft.sync._timeout import shield, timeout

__version__ = "0.1.0"

__all__ = [
    "Cancelled",
    "ChannelClosed",
    "Deadlock",
    "NoCore",
    "NotMoved",
    "TaskletExit",
    "TaskletKilled",
    "WeftError",
    "at",
    "atomic",
    "call_async",
    "channel",
    "checkpoint",
    "generator",
    "get_channel_callback",
    "get_schedule_callback",
    "get_thread_info",
    "getcurrent",
    "getcurrentid",
    "getmain",
    "getruncount",
    "home",
    "move_to",
    "responsive",
    "run",
    "schedule",
    "schedule_remove",
    "scope",
    "select",
    "set_channel_callback",
    "set_error_handler",
    "set_schedule_callback",
    "shield",
    "sleep",
    "spawn",
    "switch_trap",
    "tasklet",
    "timeout",
    "trim",
    "yield_",
]
