"""Tasklets that can be joined: spawn(), and what it returns."""

import sys
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Generic, TypeVar

from roamlet.core import Cancelled, TaskletExit, getcurrent, tasklet, thread_ends
from roamlet.sync._outcome import Outcome

T = TypeVar("T")


class Spawned(tasklet[[]], Generic[T]):
    """A tasklet whose end can be waited for: what spawn() returns."""

    __slots__ = ("_outcome",)

    _outcome: Outcome[T]

    def join(self, timeout: float | None = None) -> T:
        """Block this tasklet until the function has ended; return what it returned, or raise what it raised.

        Any number of tasklets of any thread may join, before or after the end. The first gets the error itself, the others
        each an error like it, with a note where it came from. Raises TaskletKilled when the tasklet was ended before it had
        a result, TimeoutError when it has not ended within `timeout` seconds, RuntimeError when it would join itself.
        """
        outcome = self._outcome
        if not outcome.ended.is_set():
            if getcurrent() is self:
                raise RuntimeError(f"{self!r} cannot join itself: it would wait for its own end")
            if not outcome.ended.wait(timeout):
                raise TimeoutError(f"{self!r} has not ended within {timeout} seconds")
        return outcome.get()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this tasklet until the function has ended, in whatever way; return whether it has within `timeout` seconds.

        Raises nothing of the function's: its error stays for join() and `result`. RuntimeError when it would wait for itself.
        """
        outcome = self._outcome
        if not outcome.ended.is_set() and getcurrent() is self:
            raise RuntimeError(f"{self!r} cannot wait for its own end")
        return outcome.ended.wait(timeout)

    def kill(self, pending: bool = False) -> None:
        """As that of other tasklets. One that has moved to a context ends there, at its next wait; this does not wait for that."""
        ends = None if self.alive else away.get(self)
        if ends is None:
            super().kill(pending)
        else:
            ends()

    @property
    def done(self) -> bool:
        """Whether the function has ended, in whatever way."""
        return self._outcome.ended.is_set()

    @property
    def result(self) -> T:
        """What join() returns or raises, without waiting: RuntimeError while the function has not ended."""
        if not self._outcome.ended.is_set():
            raise RuntimeError(f"{self!r} has no result yet: join() waits for it")
        return self._outcome.get()


away: "weakref.WeakKeyDictionary[tasklet[...], Callable[[], None]]" = weakref.WeakKeyDictionary()
"""Of those that live in another process at present: what ends them there."""

COROUTINES = 0x80 | 0x200  # inspect.CO_COROUTINE and CO_ASYNC_GENERATOR, whose module takes milliseconds to import
REFERENCES_OF_NOBODY = 2  # to the current tasklet, where it is counted: the run queue's, and the call's own


def spawn(function: Callable[..., T], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Spawned[T]:
    """Run function(*args, **kwargs) in a tasklet of its own, put at the end of this thread's run queue; return the tasklet.

    Its join() returns the result or raises the error. An error is kept for join(); when no join() can come any more, because
    the last reference to the tasklet has gone, it is raised in the main tasklet of its thread, as that of a plain tasklet
    is. KeyboardInterrupt and SystemExit are raised there at once. Does not switch.
    """
    outcome: Outcome[T] = Outcome()
    return launch(Spawned(Body(outcome, function, args, kwargs, "spawn")), outcome)


def launch(spawned: Spawned[T], outcome: Outcome[T]) -> Spawned[T]:
    """Start a tasklet whose Body settles `outcome`."""
    spawned._outcome = outcome
    spawned.setup()
    return spawned


def arguments(args: Sequence[Any], caller: str) -> tuple[Any, ...]:
    """The arguments as a tuple. TypeError for what is rather one of them."""
    if not isinstance(args, (str, bytes)):
        try:
            iterator = iter(args)
        except TypeError:
            pass
        else:
            return tuple(iterator)
    raise TypeError(
        f"{caller}() takes the function's arguments apart, as a tuple: {caller}(function, ({args!r},)), not {args!r}"
    ) from None


def with_its_thread() -> str:
    """For messages about a tasklet that ends here: why, when it is because its thread does."""
    return ": its thread has ended" if thread_ends() else ""


class Body(Generic[T]):
    """The function of a tasklet. It settles an Outcome, also when it is dropped without having been called."""

    # The core finds the slot `function` by its name: core/c/switch/chunks.c.
    __slots__ = ("__qualname__", "args", "function", "kwargs", "outcome")

    def __init__(
        self,
        outcome: Outcome[T],
        function: Callable[..., T],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
        caller: str,
    ) -> None:
        if not callable(function):
            raise TypeError(
                f"{caller}() takes a callable, and its arguments apart: {caller}(function, (1, 2)), not {function!r}"
            )
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType) and code.co_flags & COROUTINES:
            raise TypeError(
                f"{caller}() takes a plain function, which may block; {function!r} is async: write it with `def` and without "
                "`await`, or wait for its coroutine in a function: roamlet.aio.await_(function())"
            )
        self.function: Callable[..., T] = function
        self.args: tuple[Any, ...] = args if type(args) is tuple else arguments(args, caller)
        self.kwargs: dict[str, Any] = kwargs or {}
        self.__qualname__ = getattr(function, "__qualname__", None) or repr(function)
        self.outcome: Outcome[T] = outcome  # last: __del__ settles it

    def __call__(self) -> None:
        try:
            self.outcome.succeed(self.function(*self.args, **self.kwargs))
        except BaseException as error:
            if not self.keeps(error):
                raise
        finally:
            del self  # the frame is reached from the error's traceback

    def keeps(self, error: BaseException) -> bool:
        """Settle the outcome; whether join() gets the error, or nothing has to get it. Else it is an uncaught one."""
        if isinstance(error, TaskletExit):
            how = "cancelled" if isinstance(error, Cancelled) else "killed"
            self.outcome.give_up(f"{self.__qualname__} was {how} before it had a result{with_its_thread()}")
            return True
        if isinstance(error, Exception) and sys.getrefcount(getcurrent()) > REFERENCES_OF_NOBODY:
            self.outcome.fail(without_first_frame(error))
            return True
        self.outcome.give_up(f"{self.__qualname__} had no result: it raised {error!r}, which went to the main tasklet")
        return False

    def dropped(self) -> None:
        """The tasklet has ended without having begun."""
        self.outcome.give_up(f"{self.__qualname__} was ended before it began{with_its_thread()}")

    def __del__(self) -> None:
        outcome = getattr(self, "outcome", None)  # missing when the arguments were refused
        if outcome is not None and not outcome.ended.is_set():
            self.dropped()


def without_first_frame(error: BaseException) -> BaseException:
    """The same error; its traceback begins where the function does."""
    traceback = error.__traceback__
    error.__traceback__ = traceback and traceback.tb_next
    return error
