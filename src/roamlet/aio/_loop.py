"""Event loops that block their tasklet only: what differs from the standard library's, as a class and as functions for a patch."""

import asyncio
import os
import selectors
import signal
from asyncio import selector_events, unix_events
from collections.abc import Callable
from types import FrameType, MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from roamlet.aio._selector import LoopSelector, all_selectors
from roamlet.core import Cancelled, os_threads, sleep

Method = Callable[..., Any]


def selector_of(loop: Any) -> LoopSelector | None:
    """The loop's selector, where it is one that lets other tasklets run; else the loop blocks its thread."""
    selector = getattr(loop, "_selector", None)
    return selector if isinstance(selector, LoopSelector) else None


def init(original: Method, waits: bool = False) -> Method:
    """`__init__`: the selector is wrapped."""

    def __init__(self: Any, selector: Any = None) -> None:
        if not isinstance(selector, LoopSelector):
            self._closed = True  # for its __del__, should the selector be refused
            selector = LoopSelector(selectors.DefaultSelector() if selector is None else selector, self, waits=waits)
        try:
            original(self, selector)
        except BaseException:
            selector.close()
            raise

    return __init__


def call_at(original: Method) -> Method:
    """`call_at`: from another tasklet, while the loop waits for a later time, it wakes the loop. Callbacks do by their queue."""

    def call_at(self: Any, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        timer: asyncio.TimerHandle = original(self, when, callback, *args, context=context)
        if source := getattr(timer, "_source_traceback", None):  # in debug mode: without this function
            del source[-1]
        selector = self._selector
        if getattr(selector, "asleep", False):
            selector.wake()
        return timer

    return call_at


def stop(original: Method) -> Method:
    """`stop`: from another tasklet it wakes the loop."""

    def stop(self: Any) -> None:
        original(self)
        selector = selector_of(self)
        if selector is not None and selector.asleep:
            selector.wake()

    return stop


def run_forever(original: Method) -> Method:
    """`run_forever`: a loop that a scope has interrupted runs on under a shield for as long as that scope is not left."""

    def run_forever(self: Any) -> None:
        selector = selector_of(self)
        if selector is not None and selector.over:
            try:
                sleep(0)  # raises what a wait would
            except Cancelled:
                pass
            else:
                selector.over = False
        original(self)

    return run_forever


# Loops with handlers of signals, and the descriptors that wake them. The interpreter writes to one of these descriptors.
_listening: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def add_signal_handler(original: Method) -> Method:
    """`add_signal_handler`: by a handler in Python, because a process has one descriptor for signals and a thread many loops.

    That descriptor is a loop's all the same, so that a signal that another thread receives ends the wait of this one, in which
    the handlers run. One that the program has set itself stays.
    """

    def add_signal_handler(self: Any, sig: int, callback: Any, *args: Any) -> None:
        before = signal.set_wakeup_fd(-1) if _in_main_thread() else -1
        try:
            original(self, sig, callback, *args)
            if before == -1:
                before = self._csock.fileno()
            _listening[self] = self._csock.fileno()
        finally:
            if _in_main_thread():
                signal.set_wakeup_fd(before)
        signal.signal(sig, _Told(self))
        signal.siginterrupt(sig, False)

    return add_signal_handler


def remove_signal_handler(original: Method) -> Method:
    """`remove_signal_handler`: leaves alone what another loop has registered since. The loop may be closed, and its descriptors."""

    def remove_signal_handler(self: Any, sig: int) -> bool:
        now = signal.getsignal(sig) if sig in self._signal_handlers else None
        before = signal.set_wakeup_fd(-1) if _in_main_thread() else -1
        try:
            removed: bool = original(self, sig)
            closed = self._csock is None
            if (closed or not self._signal_handlers) and _listening.pop(self, None) == before:
                before = next(iter(_listening.values()), -1)
        finally:
            if _in_main_thread():
                signal.set_wakeup_fd(before)
        if removed and isinstance(now, _Told) and now.loop is not self:
            signal.signal(sig, now)
        return removed

    return remove_signal_handler


def process_self_data(original: Method) -> Method:
    """`_process_self_data`: leaves out the signals that have a handler in Python, which tells each loop of its own."""

    def _process_self_data(self: Any, data: bytes) -> None:
        original(self, bytes(each for each in data if each and not isinstance(signal.getsignal(each), _Told)))

    return _process_self_data


def _forked() -> None:
    """In a forked child: the descriptors are its parent's too, which would be told of the child's signals."""
    if _listening:
        before = signal.set_wakeup_fd(-1)
        if before not in _listening.values():
            signal.set_wakeup_fd(before)
        _listening.clear()


os.register_at_fork(after_in_child=_forked)


class _Told:
    """The handler of a signal that a loop listens to."""

    __slots__ = ("loop",)

    def __init__(self, loop: Any) -> None:
        self.loop = loop

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.loop._handle_signal(number)


def _in_main_thread() -> bool:
    return os_threads.in_main_thread()


OF_SELECTOR_LOOPS = {"call_at": call_at, "stop": stop, "run_forever": run_forever}
OF_UNIX_LOOPS = {
    "add_signal_handler": add_signal_handler,
    "remove_signal_handler": remove_signal_handler,
    "_process_self_data": process_self_data,
}
SELECTOR_LOOP: Any = selector_events.BaseSelectorEventLoop
UNIX_LOOP: Any = unix_events._UnixSelectorEventLoop


class Loop(asyncio.SelectorEventLoop):
    """asyncio's event loop, whose waits block their tasklet only. Other tasklets of its thread may use it as callbacks do.

    With `selector`, that has to be an epoll's or a kqueue's (TypeError otherwise). For asyncio.Runner(loop_factory=...).
    """

    if not TYPE_CHECKING:
        __init__ = init(UNIX_LOOP.__init__)
        call_at = call_at(UNIX_LOOP.call_at)
        stop = stop(UNIX_LOOP.stop)
        run_forever = run_forever(UNIX_LOOP.run_forever)
        add_signal_handler = add_signal_handler(UNIX_LOOP.add_signal_handler)
        remove_signal_handler = remove_signal_handler(UNIX_LOOP.remove_signal_handler)
        _process_self_data = process_self_data(UNIX_LOOP._process_self_data)


def keep_methods() -> None:
    """Give the methods above to loops that outlive a patch, each for itself: other tasklets still have to wake them."""
    for selector in list(all_selectors):
        loop = selector.loop
        if loop is not None and not isinstance(loop, Loop):
            for name, make in {**OF_SELECTOR_LOOPS, **OF_UNIX_LOOPS}.items():
                setattr(loop, name, MethodType(make(getattr(type(loop), name)), loop))
