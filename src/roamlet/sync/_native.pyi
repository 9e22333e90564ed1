"""The contract of the locks and queues in C. roamlet.sync re-exports them."""

from collections.abc import Callable
from types import GenericAlias, TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, final

_T = TypeVar("_T")

class _AnyLock(Protocol):
    """What a Condition can stand on."""

    def acquire(self) -> object: ...
    def release(self) -> object: ...

class ShutDown(Exception):
    """Raised by put() and get() of a queue that was shut down: queue.ShutDown where the standard library has it (3.13)."""

@final
class Lock:
    """Mutual exclusion between tasklets and threads, as threading.Lock: any tasklet or thread may release it.

    release() frees it and wakes the longest waiter, which may find that another one has taken it meanwhile and then
    waits on in the first place. With fair=True it is handed over: no other waiter overtakes, at the price of a switch for each
    hand-over. Thread-safe.
    """

    fair: bool
    """Whether it is handed over to the longest waiter."""

    def __new__(cls, *, fair: bool = False) -> Self: ...
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; True when it was taken.

        Blocks this tasklet while it is held, at most `timeout` seconds; -1: no limit. False when time is up, or at
        once with blocking=False. Does not switch when it is free. ValueError for other negative time-outs and for one in a
        call that does not block, OverflowError for more than threading.TIMEOUT_MAX.
        """
    def release(self) -> None:
        """Give the lock back, whoever took it. Never switches. RuntimeError when it is free."""
    def locked(self) -> bool:
        """Whether it is held."""
    def __enter__(self) -> bool: ...
    def __exit__(self, *args: object) -> None: ...
    def _at_fork_reinit(self) -> None:
        """In a forked child: free it, whichever thread of the parent holds it."""

class RLock:
    """A lock that the tasklet which holds it may take again, as threading.RLock: it is free after as many release().

    Belongs to the tasklet, not to the thread: two tasklets of one thread exclude each other. Thread-safe.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, or take it once more; True when it was taken.

        Blocks this tasklet while another one holds it, at most `timeout` seconds; -1: no limit. False when time is up, or
        at once with blocking=False. Raises as Lock.acquire does.
        """
    def release(self) -> None:
        """Undo one acquire(). Never switches. RuntimeError in any tasklet but the one that holds it."""
    def locked(self) -> bool:
        """Whether it is held."""
    def __enter__(self) -> bool: ...
    def __exit__(self, *args: object) -> None: ...
    def _is_owned(self) -> bool:
        """Whether the current tasklet holds it."""
    def _recursion_count(self) -> int:
        """How many release() the current tasklet owes."""
    def _release_save(self) -> int:
        """Release it however often it was taken; return what _acquire_restore() takes."""
    def _acquire_restore(self, state: int, /) -> None:
        """Take it as often as it had been before _release_save()."""
    def _at_fork_reinit(self) -> None:
        """In a forked child: free it, whichever thread of the parent holds it."""

class Condition:
    """Wait until another tasklet says that something has changed, as threading.Condition.

    Stands on `lock`, by default an RLock of its own: a lock of roamlet.sync, or anything with acquire() and release(), which
    then blocks as it does. TypeError for what is no lock. Thread-safe.
    """

    _lock: Any
    """The lock that it stands on."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def __init__(self, lock: _AnyLock | None = None) -> None: ...
    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        """The lock's acquire()."""
    def release(self) -> None:
        """The lock's release()."""
    def locked(self) -> bool:
        """The lock's locked()."""
    def wait(self, timeout: float | None = None) -> bool:
        """Give the lock back, wait to be notified, at most `timeout` seconds, take the lock again; False when time was up.

        Blocks this tasklet. Whatever is raised in it, TaskletExit too, is raised when it holds the lock again, but
        a Deadlock: no tasklet can give the lock back then. A notification that it got and can make no use of passes to the
        next of those who waited by then. RuntimeError when the caller does not hold the lock.
        """
    def wait_for(self, predicate: Callable[[], _T], timeout: float | None = None) -> _T:
        """wait() until predicate() is true, or `timeout` seconds have passed in all; return what it returned last."""
    def notify(self, n: int = 1) -> None:
        """Wake up to `n` of those who wait now, the first first. Never switches.

        RuntimeError when the caller does not hold the lock.
        """
    def notify_all(self) -> None:
        """Wake all who wait now. Otherwise like notify."""
    def notifyAll(self) -> None:
        """Deprecated: notify_all()."""
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
    def _is_owned(self) -> bool:
        """Whether the current tasklet holds the lock."""
    def _release_save(self) -> Any:
        """The lock's _release_save()."""
    def _acquire_restore(self, state: Any, /) -> None:
        """The lock's _acquire_restore()."""
    def _at_fork_reinit(self) -> None:
        """In a forked child: free the lock."""

class Semaphore:
    """So many tasklets may pass at once, in any threads, as threading.Semaphore: acquire() takes one, release() gives one back.

    ValueError for a negative value. Thread-safe.
    """

    _value: int
    """How many may pass now."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def __init__(self, value: int = 1) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one; True when it was taken.

        Blocks this tasklet while the count is 0, at most `timeout` seconds. False when time is up, or at once with
        blocking=False or a time-out that has passed. Does not switch when there is one. ValueError for a time-out in a
        call that does not block.
        """
    def release(self, n: int = 1) -> None:
        """Give back `n` and wake as many tasklets. Never switches; thread-safe. ValueError for n < 1."""
    def __enter__(self) -> bool: ...
    def __exit__(self, *args: object) -> None: ...

class BoundedSemaphore(Semaphore):
    """A Semaphore that refuses to be given back more than was taken, with ValueError."""

    _initial_value: int
    """What it was made with."""

class Event:
    """A flag that tasklets of any thread wait for, as threading.Event. Thread-safe."""

    _flag: bool
    """Whether the flag is set."""

    def __init__(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set, at most `timeout` seconds; True, or False when time is up.

        Blocks this tasklet. True also when the flag was set and cleared again before this tasklet ran. Does not switch when
        it is set, or when the time-out is 0 or has passed.
        """
    def set(self) -> None:
        """Set the flag and wake all who wait for it. Never switches."""
    def clear(self) -> None:
        """Take the flag back: wait() blocks again."""
    def is_set(self) -> bool:
        """Whether the flag is set."""
    def isSet(self) -> bool:
        """Deprecated: is_set()."""
    def _at_fork_reinit(self) -> None:
        """Does nothing: an event holds no lock that could be lost in a fork."""

class SimpleQueue(Generic[_T]):
    """An unbounded queue between tasklets and threads, first in, first out, as queue.SimpleQueue.

    put() may be called from signal handlers and __del__ methods, also inside another put() of the same queue. Thread-safe.
    """

    _idle: bool
    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Take the first item, waiting for one at most `timeout` seconds.

        Blocks this tasklet; lets others run now and then also when it need not wait. Raises queue.Empty when time is up, or
        at once with block=False. An item that was put for a tasklet that is killed stays in the queue, and another one is
        woken. ValueError for a negative time-out.
        """
    def get_nowait(self) -> _T:
        """get(block=False)"""
    def put(self, item: _T, block: bool = True, timeout: float | None = None) -> None:
        """Append an item. Never blocks, never switches; block and timeout are there for queue.Queue's sake."""
    def put_nowait(self, item: _T) -> None:
        """put(item)"""
    def empty(self) -> bool:
        """Whether there is no item now."""
    def qsize(self) -> int:
        """How many items there are now."""
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias:
        """The generic alias of the type of items, for annotations."""

class Queue(Generic[_T]):
    """A queue between tasklets and threads, first in, first out, as queue.Queue: put() waits while there are `maxsize` items.

    maxsize 0 or less: no limit. Subclasses may override _init, _qsize, _put and _get, which are called with `mutex` held.
    Thread-safe.
    """

    maxsize: int
    """How many items may be there at once; 0 or less: any number."""
    queue: Any
    """The items: a deque, of the other classes a list."""
    mutex: Lock
    """The Lock that is held while the queue changes."""
    not_empty: Condition
    """The Condition that get() waits for."""
    not_full: Condition
    """The Condition that put() waits for."""
    all_tasks_done: Condition
    """The Condition that join() waits for."""
    unfinished_tasks: int
    """How many items were put and not reported by task_done()."""
    is_shutdown: bool
    """Whether shutdown() was called."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def __init__(self, maxsize: int = 0) -> None: ...
    def put(self, item: _T, block: bool = True, timeout: float | None = None) -> None:
        """Put an item into the queue, waiting for room at most `timeout` seconds.

        Blocks this tasklet while the queue is full. Raises queue.Full when time is up, or at once with block=False;
        ShutDown after shutdown(); ValueError for a negative time-out. What is raised leaves the queue as it was.
        """
    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Take the next item, waiting for one at most `timeout` seconds.

        Blocks this tasklet while the queue is empty; lets others run now and then also when it need not wait. Raises
        queue.Empty when time is up, or at once with block=False; ShutDown when the queue is shut down and empty; ValueError
        for a negative time-out. An item that was put for a tasklet that is killed stays in the queue, and another one is
        woken.
        """
    def put_nowait(self, item: _T) -> None:
        """put(item, block=False)"""
    def get_nowait(self) -> _T:
        """get(block=False)"""
    def task_done(self) -> None:
        """Say that the work on an item that was taken is done. ValueError when it is said more often than items were put."""
    def join(self) -> None:
        """Wait until task_done() was called for each item that was put. Blocks this tasklet."""
    def shutdown(self, immediate: bool = False) -> None:
        """Let put() raise ShutDown from now on, and get() when the queue is empty; all who wait are woken.

        With immediate=True the items are dropped, and join() returns.
        """
    def qsize(self) -> int:
        """How many items there are now."""
    def empty(self) -> bool:
        """Whether there is no item now."""
    def full(self) -> bool:
        """Whether there are maxsize items now."""
    def _init(self, maxsize: int, /) -> None:
        """For subclasses: make what holds the items."""
    def _qsize(self) -> int:
        """For subclasses: how many items there are."""
    def _put(self, item: _T, /) -> None:
        """For subclasses: put an item where it belongs."""
    def _get(self) -> _T:
        """For subclasses: take the next item out."""
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias:
        """The generic alias of the type of items, for annotations."""

class LifoQueue(Queue[_T]):
    """A Queue from which the youngest item is taken first."""

class PriorityQueue(Queue[_T]):
    """A Queue from which the least item is taken first."""

def wait_for_signals(on: bool, /) -> None:
    """Let waits of all threads end by signal handlers too: never take them for a deadlock. For `python -m roamlet.threads`."""
