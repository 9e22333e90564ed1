"""weft: Stackless Python for today's CPython. The public names of tasklets and channels.

`weft.remote` has the contexts on other machines, `weft.io` the calls that wait for descriptors and processes.
"""

from weft.core import (
    ChannelClosed,
    Deadlock,
    NoCore,
    TaskletExit,
    WeftError,
    channel,
    getcurrent,
    getmain,
    getruncount,
    run,
    schedule,
    schedule_remove,
    sleep,
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
    "channel",
    "getcurrent",
    "getmain",
    "getruncount",
    "run",
    "schedule",
    "schedule_remove",
    "sleep",
    "tasklet",
    "trim",
]
