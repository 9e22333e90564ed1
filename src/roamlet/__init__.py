"""roamlet: Stackless Python for today's CPython. The public names of tasklets and channels.

`roamlet.remote` has the contexts on other machines, `roamlet.io` the calls that wait for descriptors and processes,
`roamlet.stackless` the module for programs that were written for Stackless. Its live attributes (`stackless.current`) are
functions here: a module with a __getattr__ of its own makes each `roamlet.name` 25 ns slower.

PYTEST_DONT_REWRITE
"""

# The last line is for pytest, under `python -m roamlet.patch -m pytest`: it would warn that the package of a plugin,
# --roamlet-patch, is there already and cannot be rewritten; an error, where a project's filterwarnings says `error`.

import os as _os

from roamlet._checkpoint import checkpoint
from roamlet._generator import generator, yield_
from roamlet._migration import NotMoved, at, home, move_to
from roamlet._version import VERSION
from roamlet.core import (
    Cancelled,
    ChannelClosed,
    Deadlock,
    NoCore,
    RoamletError,
    TaskletExit,
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
    set_deadlock_mode,
    set_error_handler,
    set_schedule_callback,
    sleep,
    switch_trap,
    tasklet,
    trim,
)
from roamlet.core import published as _published
from roamlet.io import call_async, responsive
from roamlet.sync._outcome import TaskletKilled
from roamlet.sync._scope import scope
from roamlet.sync._spawn import spawn
from roamlet.sync._timeout import shield, timeout

__version__ = VERSION
_published["roamlet"] = (
    VERSION  # for `roamlet ps` of another process, and by which folder frames are known to be roamlet's own
)
_published["folder"] = __file__[: __file__.rfind("/") + 1]

__all__ = [
    "Cancelled",
    "ChannelClosed",
    "Deadlock",
    "NoCore",
    "NotMoved",
    "RoamletError",
    "TaskletExit",
    "TaskletKilled",
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
    "set_deadlock_mode",
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

if _dump := _os.environ.get("ROAMLET_DUMP"):
    # A program that was not prepared: here, because it takes milliseconds that others need not spend.
    from roamlet.diagnose.dumping import from_environment as _from_environment

    _from_environment(_dump)
