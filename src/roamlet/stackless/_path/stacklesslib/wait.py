"""Waiting for whatever can be waited for: what has add_done_callback() and remove_done_callback(), as futures and events have.

WaitSite is the base of such things; iwait(), wait(), swait(), any() and all() wait for them.
"""

import itertools
import sys
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from roamlet import TaskletExit, channel, getcurrent, tasklet
from roamlet.sync._outcome import alike

from . import util
from .base import atomic
from .errors import CancelledError, TimeoutError

__all__ = [
    "Observer",
    "Receivable",
    "Sendable",
    "ValueTasklet",
    "WaitChannel",
    "WaitChannelMixin",
    "WaitSite",
    "WaitableTasklet",
    "all",
    "any",
    "iwait",
    "iwait_no_raise",
    "swait",
    "wait",
]

Callback = Callable[[Any], object]
ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class WaitSite:
    """Something to wait for. A subclass with a state says in waitsite_signalled() whether there is nothing to wait for."""

    def __init__(self) -> None:
        self._callbacks: list[Callback] = []

    def waitsite_signalled(self) -> Any:
        """Whether a callback that is added now is called at once."""
        return False

    def waitsite_signal(self) -> None:
        """Call all callbacks, each for the last time."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback)

    def add_done_callback(self, cb: Callback) -> None:
        """Call cb(self) when this is signalled, or now if it is."""
        self._callbacks.append(cb)
        if self.waitsite_signalled():
            self._call(cb)

    def remove_done_callback(self, cb: Callback) -> None:
        """Undo add_done_callback; nothing when it was called already."""
        if cb in self._callbacks:
            self._callbacks.remove(cb)

    def handle_exception(self, ei: ExcInfo) -> None:
        """What becomes of the error of a callback: it is printed."""
        traceback.print_exception(*ei)

    def _call(self, callback: Callback) -> None:
        try:
            callback(self)
        except Exception:
            self.handle_exception(sys.exc_info())


class Observer(WaitSite):
    """Passes on what another one signals when filter() says so. Is freed when nothing else holds it: the other one does not."""

    observed: Any = None

    def __init__(self, observed: Any) -> None:
        super().__init__()
        self.got_callback = False
        method = weakref.WeakMethod(self.callback)

        def callback(target: Any) -> None:
            bound = method()
            if bound is not None:
                bound(target)

        self.cb = callback
        self.observed = observed
        observed.add_done_callback(callback)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Observe no longer."""
        observed, self.observed = self.observed, None
        if observed is not None:
            observed.remove_done_callback(self.cb)

    def callback(self, target: Any) -> None:
        """The observed one was signalled."""
        del target
        self.got_callback = True
        if self.observed is not None and self.filter():
            self.waitsite_signal()

    def waitsite_signalled(self) -> bool:
        """It was, and filter() says so."""
        return self.got_callback and self.filter()

    def filter(self) -> bool:
        """For subclasses: whether to pass it on."""
        return True


class WaitableTasklet(tasklet[...], WaitSite):
    """A tasklet to wait for: signalled when its function has ended, however that was."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "WaitableTasklet":
        """A tasklet; the arguments are __init__'s."""
        made = super().__new__(cls)
        assert isinstance(made, WaitableTasklet)
        return made

    def __init__(
        self,
        func: Callable[..., object] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        WaitSite.__init__(self)
        self._done = False
        if func or args or kwargs:
            self.bind(func, args, kwargs)

    def bind(self, func: Any = None, args: Any = None, kwargs: Any = None) -> Any:
        """As tasklet.bind()."""
        bound = func
        if func:

            def bound(*args: Any, **kwargs: Any) -> None:
                current: Any = getcurrent()  # not `self`: a tasklet that never runs would be a reference cycle
                try:
                    current._run(func, args, kwargs)
                finally:
                    current._done = True
                    current.waitsite_signal()
                    del current, args, kwargs  # the frames of an error that it keeps lead back to this one

        if args or kwargs:
            return super().bind(bound, args or (), kwargs or {})
        return super().bind(bound)

    def _run(self, func: Callable[..., object], args: Any, kwargs: Any) -> None:
        func(*args, **kwargs)

    def waitsite_signalled(self) -> bool:
        """Whether its function has ended."""
        return self._done

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of its function, at most `timeout` seconds: whether it has ended."""
        return bool(wait([self], timeout))


class ValueTasklet(WaitableTasklet):
    """A WaitableTasklet that keeps what its function returned or raised."""

    _value: Any = None
    _error: BaseException | None = None

    def _run(self, func: Callable[..., object], args: Any, kwargs: Any) -> None:
        try:
            self._value = func(*args, **kwargs)
        except TaskletExit as killed:
            self._error = CancelledError(killed)
        except BaseException as error:
            self._error = error
        finally:
            del self, func, args, kwargs  # the error's traceback holds this frame

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """What the function returned; raises what it raised, CancelledError when it was killed, TimeoutError before."""
        if not self._done and block:
            self.join(timeout)
        if not self._done:
            raise TimeoutError("the tasklet is not done")
        if self._error is not None:
            try:
                raise alike(self._error) or self._error
            finally:
                del self
        return self._value

    def result(self, timeout: float | None = None) -> Any:
        """get(), under the name that futures have for it."""
        return self.get(timeout=timeout)


class WaitChannelMixin(WaitSite, util.ChannelSequenceMixin):
    """For channels: signalled when a first tasklet begins to wait on one of them, to send or to receive."""

    def __init__(self) -> None:
        super().__init__()
        self._adjust = 0  # while callbacks are called the balance is said to be what it is about to be

    @property
    def balance(self) -> int:
        """As channel.balance."""
        balance: int = super().balance  # type: ignore[misc]
        return balance + self._adjust

    def send(self, value: Any) -> None:
        """As channel.send()."""
        with atomic():
            self._signal(1)
            super().send(value)  # type: ignore[misc]

    def send_exception(self, exc: Any, *args: Any) -> None:
        """As channel.send_exception()."""
        with atomic():
            self._signal(1)
            super().send_exception(exc, *args)  # type: ignore[misc]

    def send_throw(self, exc: Any, value: Any = None, tb: TracebackType | None = None) -> None:
        """As channel.send_throw()."""
        with atomic():
            self._signal(1)
            super().send_throw(exc, value, tb)  # type: ignore[misc]

    def receive(self) -> Any:
        """As channel.receive()."""
        with atomic():
            self._signal(-1)
            return super().receive()  # type: ignore[misc]

    def _signal(self, change: int) -> None:
        if super().balance == 0:  # type: ignore[misc]
            self._adjust += change
            try:
                self.waitsite_signal()
            finally:
                self._adjust -= change


class WaitChannel(WaitChannelMixin, channel[Any]):
    """A channel to wait for."""


class Receivable(Observer):
    """Signalled when somebody sends on the observed channel."""

    def filter(self) -> bool:
        """Whether somebody does."""
        return bool(self.observed.balance > 0)


class Sendable(Observer):
    """Signalled when somebody receives from the observed channel."""

    def filter(self) -> bool:
        """Whether somebody does."""
        return bool(self.observed.balance < 0)


def iwait(objects: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
    """Yield each of the objects when it is ready, first come first. TimeoutError when `timeout` seconds have passed in all.

    With a time-out of 0 it takes those that are ready and blocks never.
    """
    ready = util.QueueChannel()
    callbacks: dict[Any, Callback] = {}

    def listen(thing: Any) -> None:
        def callback(waitable: Any) -> None:
            waitable.remove_done_callback(callbacks.pop(waitable))
            ready.send(waitable)

        callbacks[thing] = callback
        thing.add_done_callback(callback)

    try:
        count = 0
        with atomic():
            for thing in objects:
                listen(thing)
                count += 1
        limits = util.Timeouts(timeout)
        for _ in range(count):
            if ready.balance > 0:  # taken whatever the time is
                found = ready.receive()
            else:
                # The limit is left before the value is given out: what the caller does with it is not limited.
                with limits.timeout():
                    found = ready.receive()
            yield found
    finally:
        for thing, callback in list(callbacks.items()):
            thing.remove_done_callback(callback)
        callbacks.clear()  # each of them refers to it


def iwait_no_raise(objects: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
    """iwait() that ends when the time is over."""
    try:
        yield from iwait(objects, timeout)
    except TimeoutError:
        return


def wait(objects: Iterable[Any], timeout: float | None = None, count: int | None = None) -> list[Any]:
    """Those that were ready within `timeout` seconds, at most `count` of them, in the order in which they became ready."""
    return list(itertools.islice(iwait_no_raise(objects, timeout), count))


def swait(waitable: Any, timeout: float | None = None) -> Any:
    """Wait for one and return it. TimeoutError after `timeout` seconds."""
    ready = util.QueueChannel()
    waitable.add_done_callback(ready.send)
    try:
        with util.timeout(timeout):
            return ready.receive()
    finally:
        waitable.remove_done_callback(ready.send)


def any(iterable: Iterable[Any]) -> ValueTasklet:
    """A waitable that is ready when the first of these is; its result() is that one, None without any."""
    return _run(lambda: next(iwait(iterable), None))


def all(iterable: Iterable[Any]) -> ValueTasklet:
    """A waitable that is ready when all of these are; its result() is a list of them in the order in which they were."""
    return _run(lambda: list(iwait(iterable)))


def _run(function: Callable[[], object]) -> ValueTasklet:
    made = ValueTasklet(function)
    made()
    made.run()
    return made
