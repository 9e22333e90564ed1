"""The contract of the C core. At run time this name stands for the backend that was loaded."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType, GenericAlias, TracebackType
from typing import Any, Generic, Literal, ParamSpec, TypeVar, final, overload

T = TypeVar("T")
P = ParamSpec("P")

class WeftError(Exception):
    """The base of all errors of weft's own."""

class TaskletExit(SystemExit):
    """Ends the tasklet it is raised in; not an error."""

class Deadlock(WeftError, RuntimeError):
    """The main tasklet waits and nothing can ever wake it."""

class ChannelClosed(WeftError, ValueError):
    """Send or receive on a closed channel."""

class NoCore(WeftError, RuntimeError):
    """The call needs weft's C core, which is not there."""

backend: str
"""Which switching backend this is: "sliced" or "greenlet"."""

class tasklet(Generic[P]):
    """A microthread of this OS thread: tasklet(func)(*args, **kwargs) puts func at the end of the run queue.

    With args or kwargs given here the tasklet is bound but not scheduled: insert() or run() it. It runs in a copy of the
    contextvars context of its creator. An exception that it does not catch is raised in the main tasklet, TaskletExit
    excepted. A tasklet that is suspended when the last reference to it goes is ended with TaskletExit.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> tasklet[P]: ...
    def __init__(
        self,
        func: Callable[P, object] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tasklet[P]: ...
    def bind(
        self,
        func: Callable[..., object] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> tasklet[P]:
        """Bind to a function; with args or kwargs also to its arguments, which makes it alive, paused.

        Without any, unbind. Raises RuntimeError for the current, a scheduled or a started tasklet. Returns the tasklet.
        """
    def setup(self, *args: P.args, **kwargs: P.kwargs) -> tasklet[P]:
        """Give a bound tasklet its arguments and put it at the end of the run queue, as calling it does."""
    def insert(self) -> tasklet[P]:
        """Put a paused tasklet at the end of its thread's run queue. Thread-safe; does not switch."""
    def remove(self) -> tasklet[P]:
        """Take a scheduled tasklet out of the run queue. RuntimeError for a blocked one and for the current."""
    def run(self) -> None:
        """Let the tasklet run at once; the caller follows it in the queue. Of another thread: insert() there."""
    def switch(self) -> None:
        """Let the tasklet run at once and take the caller out of the run queue until it is inserted again."""
    def kill(self, pending: bool = False) -> None:
        """Raise TaskletExit in the tasklet, at once or, if pending, when it runs next.

        The caller follows it in the queue. A dead tasklet stays dead; one that never ran never will. In another
        thread's tasklet: pending.
        """
    def raise_exception(self, exception: type[BaseException] | BaseException, /, *args: Any) -> None:
        """Raise exception(*args) in the tasklet at once. RuntimeError when it is dead."""
    def throw(
        self,
        exc: type[BaseException] | BaseException,
        val: Any = None,
        tb: TracebackType | None = None,
        pending: bool = False,
    ) -> None:
        """Raise the exception of this triple in the tasklet, at once or when it runs next."""
    @property
    def frame(self) -> FrameType | None:
        """Its innermost frame, None before it starts and after its end. f_back leads to its first."""
    @property
    def alive(self) -> bool:
        """Whether it has arguments and has not ended."""
    @property
    def blocked(self) -> bool:
        """Whether it waits: for a channel, a wake-up, a timer, or in run()."""
    @property
    def scheduled(self) -> bool:
        """Whether it is in the run queue or blocked."""
    @property
    def paused(self) -> bool:
        """Whether it is alive, neither in the run queue nor blocked."""
    @property
    def is_main(self) -> bool:
        """Whether it is its thread's main tasklet."""
    @property
    def is_current(self) -> bool:
        """Whether it runs now, in its thread."""
    @property
    def thread_id(self) -> int:
        """threading.get_ident() of its thread; -1 after that ended."""
    @property
    def next(self) -> tasklet[...] | None:
        """The neighbour behind it in the run queue or a channel's queue, or None."""
    @property
    def prev(self) -> tasklet[...] | None:
        """The neighbour before it, or None."""

class channel(Generic[T]):
    """A meeting place of tasklets: send and receive pass one value each, without a buffer.

    Iterating receives until the channel is closed. Thread-safe.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> channel[T]: ...
    def send(self, value: T, /) -> None:
        """Pass `value` to the receiver that has waited longest; wait for one when there is none.

        Blocks this tasklet only, until the value was received. Switches: with preference -1 (the default) a waiting
        receiver runs at once and this tasklet after it. The receiver may live in another thread. Raises ChannelClosed on
        a closed channel, Deadlock (in main) when nobody can ever receive.
        """
    def receive(self) -> T:
        """Take the value of the sender that has waited longest; wait for one when there is none.

        Blocks this tasklet only. Switches to the sender when preference is 1. Raises what was sent with send_exception,
        ChannelClosed when the channel is closed and empty, Deadlock (in main) when nobody can ever send. First come,
        first served among receivers, which may live in several threads.
        """
    def send_exception(self, exception: type[BaseException] | BaseException, /, *args: Any) -> None:
        """Like send, but the receiver raises exception(*args). `exception` is a class, or an instance without args."""
    def send_throw(
        self, exc: type[BaseException] | BaseException, val: Any = None, tb: TracebackType | None = None, /
    ) -> None:
        """Like send, but the receiver raises the exception of this (type, value, traceback) triple."""
    def send_sequence(self, values: Iterable[T], /) -> int:
        """Send each of an iterable's values; return how many there were. Blocks as send does."""
    def close(self) -> None:
        """Let nobody new wait here: what waits already may still be met.

        `for` loops over the channel end now, or when they have taken what waits. Does not switch.
        """
    def open(self) -> None:
        """Undo close."""
    def __iter__(self) -> Iterator[T]: ...
    def __next__(self) -> T: ...
    @property
    def balance(self) -> int:
        """How many tasklets wait here: senders count up, receivers down."""
    @property
    def queue(self) -> tasklet[...] | None:
        """The tasklet that has waited longest, or None."""
    @property
    def closing(self) -> bool:
        """Whether close() was called."""
    @property
    def closed(self) -> bool:
        """Whether it is closing and nobody waits here any more."""
    preference: Literal[-1, 0, 1]
    """Who runs when two meet: -1 the receiver (default), 1 the sender, 0 whoever ran already."""
    schedule_all: bool
    """When true, every operation lets the next tasklet run, whatever the preference."""
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

@final
class Waiter(Generic[T]):
    """A one-shot wake-up: one tasklet waits, anybody in any thread settles it, before or after the wait began."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Waiter[T]: ...
    def wait(self, timeout: float | None = None, daemon: bool = False) -> T:
        """Block this tasklet until the waiter is settled; return the value of succeed, raise the exception of fail.

        Raises TimeoutError when `timeout` seconds (float, >= 0) passed first. A `daemon` wait neither keeps weft.run()
        going nor hides a deadlock. RuntimeError for a second wait.
        """
    def succeed(self, value: T = ..., /) -> bool:
        """Settle with a value. True, or False when it was settled before or its wait has ended.

        Thread-safe; never switches.
        """
    def fail(self, exception: BaseException, /) -> bool:
        """Settle with an exception instance, which wait raises. Otherwise like succeed."""
    @property
    def done(self) -> bool:
        """Whether it was settled, or its wait has ended without that."""
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

@overload
def schedule() -> tasklet[...]: ...
@overload
def schedule(retval: T) -> T:
    """Let the next tasklet of the run queue run; this one goes to its end.

    Returns retval, by default the current tasklet. Switches; raises what is thrown into this tasklet meanwhile.
    """

@overload
def schedule_remove() -> tasklet[...]: ...
@overload
def schedule_remove(retval: T) -> T:
    """Like schedule, but take this tasklet out of the run queue until it is inserted again."""

def run(*, hub: bool = True) -> None:
    """Run until nothing is runnable and nothing waits in the hub: no sleep, descriptor, child process, job or remote reply.

    Called from the main tasklet, which raises what a tasklet did not catch; then run() may be called again. Tasklets that
    are blocked on channels do not keep it. With hub=False it returns as soon as the run queue is empty.
    """

def getcurrent() -> tasklet[...]:
    """The tasklet that runs."""

def getmain() -> tasklet[...]:
    """This thread's main tasklet."""

def getruncount() -> int:
    """How many tasklets of this thread are runnable, the current one included."""

def sleep(seconds: float, /) -> None:
    """Block this tasklet for at least `seconds` (float, >= 0); others run meanwhile."""

def started() -> list[tasklet[...]]:
    """This thread's tasklets that have started and not ended, main excepted; the oldest first."""

def install_hub(poll: Callable[[float | None], object] | None, wake_fd: int, /) -> None:
    """Let this thread wait through poll(timeout), a float of seconds or None, which wakes tasklets by their Waiters.

    Another thread that makes a tasklet runnable here while poll sleeps writes 8 bytes to the eventfd wake_fd. poll may
    not block in weft. install_hub(None, -1) undoes it.
    """

def set_clock(now: Callable[[], float] | None = None, advance: Callable[[float], object] | None = None, /) -> None:
    """For tests: timers of all threads follow now() (seconds), and waiting for one calls advance(seconds).

    Without arguments the monotonic clock is back.
    """

def mark_service_thread() -> None:
    """Declare this thread one of weft's own, which by itself wakes nobody: it does not hide a deadlock."""

def end_thread() -> None:
    """End this thread's tasklets, the oldest first, by TaskletExit. Done by itself when a thread ends."""

def trim() -> None:
    """Give back the memory of this thread's pools."""
