"""Signal handlers where threads are tasklets: what one raises is raised in the main program, whichever thread runs.

Without the patch handlers run in the main thread. Here they run in the tasklet that runs, which may be any thread; an error there,
that of a limit of time or SystemExit, would end that thread and not reach the program.
"""

import functools
import signal
from collections.abc import Callable
from typing import Any

from roamlet.core import os_threads
from roamlet.patch.changes import Changes

_signal, _getsignal = signal.signal, signal.getsignal


class _InMain:
    """A handler of the program's, as it is set."""

    __slots__ = ("_raises_in_main", "handler")

    def __init__(self, handler: Any, raises_in_main: Callable[[BaseException], bool]) -> None:
        self.handler = handler
        self._raises_in_main = raises_in_main

    def __call__(self, number: int, frame: Any) -> None:
        try:
            self.handler(number, frame)
        except BaseException as error:
            if not self._raises_in_main(error):
                raise


def _plain(handler: Any) -> Any:
    return handler.handler if isinstance(handler, _InMain) else handler


def apply(changes: Changes, raises_in_main: Callable[[BaseException], bool]) -> None:
    """Have `raises_in_main` called with what a handler raises; where that returns False it is raised where the handler runs."""

    def wrapped(handler: Any) -> Any:
        # Ctrl-C has a way of its own, and programs ask whether this is the handler.
        return (
            _InMain(handler, raises_in_main)
            if callable(handler) and handler is not signal.default_int_handler
            else handler
        )

    @functools.wraps(_signal)
    def set_handler(signalnum: int, handler: Any) -> Any:
        return _plain(_signal(signalnum, wrapped(handler)))

    @functools.wraps(_getsignal)
    def getsignal(signalnum: int) -> Any:
        return _plain(_getsignal(signalnum))

    _set_all(wrapped)
    changes.replace(signal, "signal", set_handler)
    changes.replace(signal, "getsignal", getsignal)
    changes.on_undo(lambda: _set_all(_plain))


def _set_all(changed: Callable[[Any], Any]) -> None:
    """Change all handlers that are set; only the main thread may."""
    if not os_threads.in_main_thread():
        return
    for number in signal.valid_signals():
        before = _getsignal(number)
        after = changed(before)
        if after is not before:
            _signal(number, after)
