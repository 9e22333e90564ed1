"""Forked children that begin with the tasklet that has forked alone: of multiprocessing, or where threads are tasklets."""

import os
import sys
from contextlib import suppress

from roamlet.core import getcurrent, getmain, keep_current, tasklet
from roamlet.sync import local

# How many areas ask for it now; a list, as it is changed in place.
_wanted = [0]

# Of the tasklet that has forked.
_own = local()

# That tasklet, in such a child.
_kept: list[tasklet[...]] = []


def main_tasklet() -> tasklet[...]:
    """Return the tasklet of the main program: main, or in such a child the one that has forked."""
    return _kept[0] if _kept else getmain()


def want() -> None:
    """Let children that are forked from now on begin so, until as many unwant()."""
    _wanted[0] += 1


def unwant() -> None:
    """Undo one want()."""
    _wanted[0] -= 1


class _EndsProcess:
    """Ends the child when the tasklet that it began with ends: with the end of its only thread a process ends."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def __del__(self) -> None:
        if os.getpid() == self._process:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            os._exit(0)


def _in_child() -> None:
    if _wanted[0]:
        keep_current()
        _kept[:] = [getcurrent()]
        if not getcurrent().is_main:
            _own.end = _EndsProcess()


os.register_at_fork(after_in_child=_in_child)
