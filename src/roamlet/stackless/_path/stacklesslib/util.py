"""Helpers for tasklets: time-outs and cancelling, calls in other tasklets, channels with a queue, tasklet-local values."""

import importlib
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Self

from roamlet import TaskletExit, channel, getcurrent, sleep, tasklet
from roamlet.core import CancelScope, Waiter

from .base import atomic, time
from .errors import CancelledError, TimeoutError

__all__ = [
    "ChannelSequenceMixin",
    "QueueChannel",
    "Timeouts",
    "WaitTimeoutError",
    "atomic",
    "call_async",
    "cancellable",
    "channel_wait",
    "dummy_dispatcher",
    "local",
    "qchannel",
    "send_throw",
    "tasklet_call",
    "tasklet_dispatcher",
    "tasklet_new",
    "tasklet_run",
    "tasklet_throw",
    "time",
    "timeout",
    "timeout_call",
    "timeout_function",
]

WaitTimeoutError = TimeoutError

# Where older versions had what newer ones have elsewhere. Looked up when asked for: those modules import this one.
_MOVED = {"ValueEvent": "locks", "call_on_thread": "threadpool", "released": "locks"}


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        return getattr(importlib.import_module(f".{_MOVED[name]}", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class local:
    """Values of the current tasklet's own, as threading.local has them of the thread's. They go with the tasklet."""

    def __init__(self) -> None:
        object.__setattr__(self, "_tasklets", weakref.WeakKeyDictionary())

    def get_dict(self) -> dict[str, Any]:
        """The current tasklet's values by name."""
        own: dict[str, Any] = object.__getattribute__(self, "_tasklets").setdefault(getcurrent(), {})
        return own

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "get_dict")()
        if name == "__dict__":
            return own
        return own[name] if name in own else object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__getattribute__(self, "get_dict")()[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del object.__getattribute__(self, "get_dict")()[name]
        except KeyError:
            raise AttributeError(name) from None


def channel_wait(chan: Any, timeout: float | None = None, exc: Any = None) -> Any:
    """chan.receive() that raises TimeoutError, or `exc`, after so many seconds."""
    with _timeout(timeout, blocked=True, exc=exc):
        return chan.receive()


def send_throw(channel: Any, exc: Any, val: Any = None, tb: TracebackType | None = None) -> None:
    """channel.send_throw(exc, val, tb)"""
    channel.send_throw(exc, val, tb)


def tasklet_throw(
    tasklet: Any, exc: Any, val: Any = None, tb: TracebackType | None = None, pending: bool = False
) -> None:
    """tasklet.throw(exc, val, tb, pending)"""
    tasklet.throw(exc, val, tb, pending)


class ChannelSequenceMixin:
    """send_sequence() and iteration for channels that have a send() and a receive() of their own."""

    def send_sequence(self, values: Iterable[Any], /) -> int:
        """Send each value; return how many there were."""
        count = 0
        for count, value in enumerate(values, 1):  # noqa: B007 - it is what is returned
            self.send(value)  # type: ignore[attr-defined]
        return count

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self.receive()  # type: ignore[attr-defined]
        except ValueError as error:
            if "closed channel" in str(error):
                raise StopIteration from None
            raise


class QueueChannel(ChannelSequenceMixin, channel[Any]):
    """A channel with a queue of at most `max_len` values; negative: any number. send() blocks only when the queue is full."""

    def __init__(self, max_len: int = -1) -> None:
        self.value_queue: deque[tuple[bool, Any]] = deque()
        self.max_len = max_len

    @property
    def balance(self) -> int:
        """Values in the queue and tasklets that wait to send; negative: how many wait to receive."""
        return len(self.value_queue) + super().balance

    def send(self, data: Any) -> None:
        """Pass `data` on: to a waiting tasklet, else into the queue if there is room."""
        self._send((True, data))

    def send_exception(self, exc: Any, *args: Any) -> None:
        """Like send; the receiver raises exc(*args)."""
        self.send_throw(exc, args)

    def send_throw(self, exc: Any, value: Any = None, tb: TracebackType | None = None) -> None:
        """Like send; the receiver raises this exception."""
        self._send((False, (exc, value, tb)))

    def receive(self) -> Any:
        """The next value of the queue, or of the sender that has waited longest."""
        waiting: Any = super()
        with atomic():
            if waiting.balance > 0:
                self.value_queue.append(self._receive_at_once(waiting))
            good, data = self.value_queue.popleft() if self.value_queue else waiting.receive()
        if good:
            return data
        exc, value, tb = data
        try:
            raise _exception(exc, value).with_traceback(tb)
        finally:
            del exc, value, tb, data

    def _send(self, value: tuple[bool, Any]) -> None:
        waiting: Any = super()
        with atomic():
            room = self.max_len < 0 or len(self.value_queue) < self.max_len
            if room and not waiting.closing and waiting.balance == 0:
                self.value_queue.append(value)
            else:
                waiting.send(value)

    def _receive_at_once(self, waiting: Any) -> Any:
        """What a sender that waits has, without letting it run first."""
        before = self.preference, self.schedule_all
        self.preference, self.schedule_all = -1, False
        try:
            return waiting.receive()
        finally:
            self.preference, self.schedule_all = before


qchannel = QueueChannel


def _exception(exc: Any, value: Any = None) -> BaseException:
    """The exception that `raise exc, value` of Python 2 would raise."""
    if isinstance(exc, BaseException):
        return exc
    if isinstance(value, BaseException):
        return value
    made: BaseException = exc(*(value if isinstance(value, tuple) else () if value is None else (value,)))
    return made


def tasklet_new(
    function: Callable[..., object], args: Sequence[Any] = (), kwargs: Mapping[str, Any] = {}
) -> tasklet[...]:
    """A dispatcher: a new tasklet, which runs in its turn."""
    return tasklet(function)(*args, **kwargs)


def tasklet_run(
    function: Callable[..., object], args: Sequence[Any] = (), kwargs: Mapping[str, Any] = {}
) -> tasklet[...]:
    """A dispatcher: a new tasklet, which runs at once."""
    made = tasklet(function)(*args, **kwargs)
    made.run()
    return made


tasklet_dispatcher = tasklet_new


def dummy_dispatcher(function: Callable[[], object]) -> None:
    """A dispatcher: a plain call."""
    function()


def tasklet_call(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = {},
    dispatcher: Callable[[Callable[[], None]], object] = tasklet_run,
    timeout: float | None = None,
    on_abandoned: Callable[[], object] | None = None,
) -> Any:
    """function(*args, **kwargs), wherever the dispatcher has it run: its result, or its exception raised here.

    Blocks this tasklet. TimeoutError after `timeout` seconds, CancelledError when what runs it is killed. When this tasklet does
    not wait to the end, on_abandoned() is called in it.
    """
    outcome: Waiter[Any] = Waiter()
    begun_and_ended: list[bool] = []

    def run() -> None:
        try:
            result = function(*args, **kwargs)
        except TaskletExit as killed:
            begun_and_ended.append(True)
            outcome.fail(CancelledError(*killed.args))
        except BaseException as error:
            begun_and_ended.append(True)
            outcome.fail(error)
        else:
            begun_and_ended.append(True)
            outcome.succeed(result)

    dispatcher(run)
    try:
        with _timeout(timeout):
            return outcome.wait()
    finally:
        outcome.succeed(None)  # no tasklet is listening any more
        if on_abandoned is not None and not begun_and_ended:
            on_abandoned()


def call_async(
    function: Callable[[], Any],
    dispatcher: Callable[[Callable[[], None]], object] = tasklet_dispatcher,
    timeout: float | None = None,
    onOrphaned: Callable[[], object] | None = None,
) -> Any:
    """tasklet_call() as older versions had it: function() in a new tasklet, or wherever the dispatcher has it run."""
    return tasklet_call(function, dispatcher=dispatcher, timeout=timeout, on_abandoned=onOrphaned)


class timeout:
    """A context manager: TimeoutError, or `exc`, when its body is not done within `delay` seconds; None and less than 0: no limit.

    What blocks inside is ended with roamlet.Cancelled, each time anew until the body is left. A body that never blocks is not
    interrupted, whatever `blocked` says.
    """

    def __init__(self, delay: float | None, blocked: bool = False, exc: Any = None) -> None:
        del blocked
        self._delay = delay if delay is not None and delay >= 0 else None
        self._exc = exc
        self._scope = CancelScope(self._delay)

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, exc: type[BaseException] | None, val: BaseException | None, tb: TracebackType | None) -> None:
        if not self._scope.__exit__(exc, val, tb):
            return
        try:
            raise _exception(self._exc or TimeoutError(f"timed out after {self._delay}s"))
        finally:
            del self, val, tb  # the traceback leads here


_timeout = timeout


def timeout_call(function: Callable[[], Any], delay: float | None) -> tuple[bool, Any]:
    """(True, function()), or (False, the TimeoutError) after `delay` seconds."""
    try:
        with timeout(delay):
            return True, function()
    except TimeoutError as error:
        error.__traceback__ = error.__context__ = None  # they lead to the frame that keeps the result
        return False, error


def timeout_function(delay: float | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: each call may take so many seconds."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def limited(*args: Any, **kwargs: Any) -> Any:
            with timeout(delay):
                return function(*args, **kwargs)

        return limited

    return decorate


class Timeouts:
    """Several `with timeout()` that share one deadline, `delay` seconds from now."""

    def __init__(self, delay: float | None, blocked: bool = False, exc: Any = None) -> None:
        self.blocked = blocked
        self.exc = exc
        self.deadline = time() + delay if delay is not None and delay >= 0 else None

    def delay(self) -> float | None:
        """Seconds that are left, negative when the time is over; None: no limit."""
        return None if self.deadline is None else self.deadline - time()

    def timeout(self) -> timeout:
        """A timeout() for what is left. TimeoutError, or `exc`, at once when nothing is, unless `blocked`."""
        left = self.delay()
        if left is not None and left <= 0:
            if not self.blocked:
                raise _exception(self.exc or TimeoutError)
            left = 0.0
        return _timeout(left, self.blocked, self.exc)


class cancellable:
    """A context manager that others can cancel: what blocks inside is ended, and CancelledError is raised where it is left."""

    def __init__(self) -> None:
        self.tasklet: tasklet[...] | bool | None = None
        self._raised: weakref.ref[CancelledError] | None = None  # weakly: it leads to the frames that hold this object
        self._scope: CancelScope | None = None
        self._args: tuple[Any, ...] = ()

    def __enter__(self) -> Self:
        if self.tasklet is not None:
            raise RuntimeError("this cancellable() is in use already: each `with` needs its own")
        self.tasklet = getcurrent()
        self._scope = CancelScope()
        self._scope.__enter__()
        return self

    def __exit__(self, exc: type[BaseException] | None, val: BaseException | None, tb: TracebackType | None) -> None:
        scope, self._scope = self._scope, None
        assert scope is not None
        cancelled = scope.__exit__(exc, val, tb)
        if not cancelled:
            self.tasklet = None
            return
        error = CancelledError(*self._args)
        self._raised = weakref.ref(error)
        try:
            raise error from None
        finally:
            del self, val, tb, error  # its traceback leads here

    def cancel(self, *args: Any) -> None:
        """End it with CancelledError(*args); nothing happens when no tasklet is in it. Thread-safe."""
        with atomic():
            inside, scope = self.tasklet, self._scope
            if not inside or scope is None:
                return
            self.tasklet = False
            self._args = args
            scope.cancel()
        if inside is getcurrent():
            sleep(0)

    def cancelled(self) -> bool:
        """Whether it was cancelled while somebody was in it."""
        return self.tasklet is False

    def match(self, val: object) -> bool:
        """Whether `val` is the exception that it has raised."""
        return self.exception is not None and self.exception is val

    @property
    def exception(self) -> CancelledError | None:
        """What it has raised, as long as somebody else refers to that."""
        return None if self._raised is None else self._raised()
