"""Stackless Python's own module for old programs: what `import stackless` gave on Stackless 3.7 and 3.8, on roamlet's core.

`python -m roamlet.stackless SCRIPT` runs a program that says `import stackless`, unchanged. New programs use `roamlet` itself.
"""

from __future__ import annotations

import builtins
import sys
from types import ModuleType
from typing import Any

from roamlet.core import (
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
    os_threads,
    schedule,
    schedule_remove,
    set_channel_callback,
    set_error_handler,
    set_schedule_callback,
    started,
    switch_trap,
    tasklet,
)
from roamlet.core import run_queue as run
from roamlet.core import threads as getthreads

__all__ = [
    "atomic",
    "channel",
    "enable_softswitch",
    "get_channel_callback",
    "get_schedule_callback",
    "get_thread_info",
    "getcurrent",
    "getcurrentid",
    "getdebug",
    "getmain",
    "getruncount",
    "getthreads",
    "getuncollectables",
    "pickle_with_tracing_state",
    "run",
    "schedule",
    "schedule_remove",
    "set_channel_callback",
    "set_error_handler",
    "set_schedule_callback",
    "stackless",
    "switch_trap",
    "tasklet",
]

PICKLEFLAGS_PRESERVE_TRACING_STATE = 1
PICKLEFLAGS_PRESERVE_AG_FINALIZER = 2
PICKLEFLAGS_RESET_AG_FINALIZER = 4
_ALL_PICKLEFLAGS = 7

# Attributes of the module that are computed when they are read: _StacklessModule has them.
current: tasklet[...]
main: tasklet[...]
runcount: int
threads: list[int]
debug: bool
uncollectables: list[tasklet[...]]
pickle_with_tracing_state: bool
stackless: ModuleType

# Stackless has it among the builtins from the start; here, from the first import.
setattr(builtins, "TaskletExit", TaskletExit)  # noqa: B010 - typeshed's builtins have no such name


def enable_softswitch(flag: object) -> bool:
    """Return False: switching always keeps the C stack, as Stackless did with soft switching disabled.

    `flag` is accepted, None for inquiry included, and changes nothing.
    """
    del flag
    return False


def getdebug() -> bool:
    """Whether this is a debug build of Python."""
    return hasattr(sys, "gettotalrefcount")


def getuncollectables() -> list[tasklet[...]]:
    """This thread's tasklets that keep a C stack: all that have started and not ended, main excepted."""
    return started()


class _ThreadsFlags(os_threads.thread_local):
    """The pickle flags of the thread that looks; the default of the moment when it first does."""

    def __init__(self) -> None:
        self.value = _default_pickle_flags


_default_pickle_flags = 0
_pickle_flags = _ThreadsFlags()


def _replaced(old: int, new: int, mask: int) -> int:
    if new < -1 or new & mask > _ALL_PICKLEFLAGS:
        raise ValueError("you must not set an undefined pickle-flag: the flags are the three PICKLEFLAGS_ constants")
    return old if new == -1 else (old & ~mask) | (new & mask)


def pickle_flags(new_flags: int = -1, mask: int = -1) -> int:
    """Return this thread's pickle flags, and replace those within `mask` unless new_flags is -1.

    They are kept, and nothing reads them: frames of stock CPython have no tracing state that could be pickled.
    """
    old = _pickle_flags.value
    _pickle_flags.value = _replaced(old, new_flags, mask)
    return old


def pickle_flags_default(new_default: int = -1, mask: int = -1) -> int:
    """Like pickle_flags, for the flags that new threads start with."""
    global _default_pickle_flags  # noqa: PLW0603 - one value for the process is what it is
    old = _default_pickle_flags
    _default_pickle_flags = _replaced(old, new_default, mask)
    return old


class _StacklessModule(ModuleType):
    """A module with computed attributes, as Stackless's is."""

    current = property(lambda _: getcurrent())
    main = property(lambda _: getmain())
    runcount = property(lambda _: getruncount())
    threads = property(lambda _: getthreads())
    debug = property(lambda _: getdebug())
    uncollectables = property(lambda _: getuncollectables())

    @property
    def pickle_with_tracing_state(self) -> bool:
        return bool(pickle_flags() & PICKLEFLAGS_PRESERVE_TRACING_STATE)

    @pickle_with_tracing_state.setter
    def pickle_with_tracing_state(self, wanted: object) -> None:
        flag = PICKLEFLAGS_PRESERVE_TRACING_STATE if wanted else 0
        pickle_flags(flag, PICKLEFLAGS_PRESERVE_TRACING_STATE)
        pickle_flags_default(flag, PICKLEFLAGS_PRESERVE_TRACING_STATE)

    def __reduce__(self) -> tuple[Any, ...]:
        return __import__, (self.__name__, None, None, ["stackless"])


# An old curiosity: the module contains itself.
stackless = sys.modules[__name__]
stackless.__class__ = _StacklessModule
