"""The selector of an event loop in a tasklet: select() blocks that tasklet, and other tasklets of the thread can end it."""

import asyncio
import os
import select
import selectors
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Protocol, cast
from weakref import WeakSet

from roamlet.core import Cancelled, TaskletExit, os_threads, schedule, thread_ends
from roamlet.io._native import Watch
from roamlet.sync._timeout import shield

Found = list[tuple[selectors.SelectorKey, int]]

WOKEN = 2  # what Watch.wait() returns after wake()
END_SECONDS = 10.0  # so long a loop may take to end with its thread
LAST_LOOK_SECONDS = 0.001  # between two looks at the descriptors then
END_TURNS = 16  # so many turns a loop that has work goes on at the end of its thread before its tasklet is ended
TURNS_UNSEEN = 16  # so many turns in a row a loop that others keep waking goes without a look at its descriptors


class SelectorLoop(Protocol):
    """What is used of a loop. `_ready` has that name in every asyncio since 3.4: callbacks of the next turn are appended to it."""

    _ready: "deque[asyncio.Handle] | Bell"

    def _write_to_self(self) -> None: ...


class Bell:
    """In the place of a loop's queue of callbacks while its tasklet waits: what is appended wakes that.

    It keeps nothing itself: a thread that has read the attribute may append to it when the loop runs again.
    """

    __slots__ = ("ready", "wake")

    def __init__(self, ready: "deque[asyncio.Handle]", wake: Callable[[], object]) -> None:
        self.ready = ready
        self.wake = wake

    def append(self, handle: asyncio.Handle) -> None:
        self.ready.append(handle)
        self.wake()

    def __len__(self) -> int:
        return len(self.ready)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ready, name)


class LoopSelector:
    """A selector of `selectors`, for one event loop. All but select() and close() is the original's.

    An epoll and a kqueue are descriptors themselves, for which the hub waits. Of a selector without one, select() itself must
    block no more than its tasklet (`waits`), as it does under roamlet.patch; TypeError otherwise.
    """

    register: Callable[..., selectors.SelectorKey]
    modify: Callable[..., selectors.SelectorKey]
    unregister: Callable[[Any], selectors.SelectorKey]
    get_map: Callable[[], Mapping[Any, selectors.SelectorKey]]
    get_key: Callable[[Any], selectors.SelectorKey]

    def __init__(self, inner: selectors.BaseSelector, loop: SelectorLoop, *, waits: bool = False) -> None:
        fileno = getattr(inner, "fileno", None)
        number = fileno() if fileno is not None else None
        if not isinstance(number, int) and not waits:
            raise TypeError(
                f"a loop in a tasklet waits for the descriptor of its selector, and {inner!r} has none: give it a "
                "selectors.DefaultSelector(), which has one on Linux and macOS, or no selector at all"
            )
        self.inner = inner
        self.loop: SelectorLoop | None = loop
        self.daemon = False  # whether its waits keep roamlet.run() from returning, and hide a deadlock
        self.asleep = False
        self.over = False  # a scope around the loop is over: what is left to do is done under a shield
        self.ends_at: float | None = None  # the thread ends: until then
        self._turns_to_end = 0  # what is left of END_TURNS; after that TaskletExit is raised, once
        self._watch = Watch(number) if isinstance(number, int) else None
        self._unseen = 0
        self._bell: Bell | None = None
        self._look: Callable[[float | None], Found] = inner.select
        self._keys: dict[int, selectors.SelectorKey] | None = None
        if type(inner) is getattr(selectors, "EpollSelector", None):
            self._keys = getattr(inner, "_fd_to_key", None)  # by them what an epoll has found is told in C
        self.register = inner.register
        self.modify = inner.modify
        self.unregister = inner.unregister
        self.get_map = inner.get_map
        self.get_key = inner.get_key
        all_selectors.add(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.inner!r}>"

    def wake(self) -> None:
        """End the select() that is under way. Thread-safe; does not switch."""
        if self._watch is not None:
            self._watch.wake()
        elif self.loop is not None:
            self.loop._write_to_self()

    def select(self, timeout: float | None = None) -> Found:
        """What is ready, waiting `timeout` seconds (None: as long as it takes) for the first. Blocks this tasklet only.

        Returns nothing when another tasklet has given the loop something to do. With nothing to wait for it lets the other
        tasklets run first.
        """
        if self.ends_at is not None:
            return self._last_look(timeout, self.ends_at)
        try:
            if timeout is not None and timeout <= 0:
                schedule()
                self._unseen = 0
                return self._look(0) if self._keys is None else self._watch.select(self._keys, 0) or []  # type: ignore[union-attr]
            if self.over:
                with shield():
                    return self._wait(timeout)
            return self._wait(timeout)
        except TaskletExit as error:
            if thread_ends():  # its tasklets are killed one after the other, again and again, where they switch
                self.ends_at, self._turns_to_end = monotonic() + END_SECONDS, END_TURNS
                return self._last_look(timeout, self.ends_at)
            self.over = self.over or isinstance(error, Cancelled)
            raise

    def _last_look(self, timeout: float | None, ends_at: float) -> Found:
        """select() for what is left to do at the end of the thread: it blocks that."""
        # A task that was made just now is to begin, or its coroutine would never have been awaited; a loop that ends is to end.
        if self._turns_to_end > 0 and not self._is_ending():
            has_work = timeout is not None and timeout <= 0
            self._turns_to_end = self._turns_to_end - 1 if has_work else 0
            if self._turns_to_end == 0:
                raise TaskletExit
        left = ends_at - monotonic()
        if left <= 0:
            raise TaskletExit(
                f"the tasks of an event loop have not ended within {END_SECONDS} seconds after their thread"
            )
        if timeout is not None:
            left = min(timeout, left)
        if self._keys is None or self._watch is None:
            return self._look(left)
        # A lock of the operating system's: under roamlet.patch the epoll itself lets other tasklets run.
        end, pause = monotonic() + left, os_threads.allocate_lock()
        pause.acquire()
        while not (found := self._watch.select(self._keys, 0)) and (left := end - monotonic()) > 0:
            pause.acquire(timeout=min(left, LAST_LOOK_SECONDS))
        return found or []

    def _is_ending(self) -> bool:
        """Whether the loop runs the ends of what it has, before it is closed: of tasks that are cancelled, of generators."""
        tasks = asyncio.all_tasks(cast("asyncio.AbstractEventLoop", self.loop))
        return getattr(self.loop, "_asyncgens_shutdown_called", False) or (
            len(tasks) > 0 and all(getattr(each, "cancelling", int)() for each in tasks)
        )

    def _wait(self, timeout: float | None) -> Found:
        loop = self.loop
        assert loop is not None
        ready, watch, bell = cast("deque[asyncio.Handle]", loop._ready), self._watch, self._bell
        if bell is None or bell.ready is not ready:
            bell = self._bell = Bell(ready, watch.wake if watch is not None else self.wake)
        loop._ready = bell
        self.asleep = True
        try:
            if watch is None:
                return self._look(timeout)
            if self._keys is not None:
                found = watch.select(self._keys, timeout, self.daemon)
            else:
                found = None if watch.wait(timeout, self.daemon) == WOKEN else self._look(0)
        finally:
            self.asleep = False
            loop._ready = ready
        if found is not None:
            self._unseen = 0
            return found
        if self._unseen < TURNS_UNSEEN:
            self._unseen += 1
            return []
        self._unseen = 0
        return self._look(0)

    def close(self) -> None:
        """Close the selector. Does not block."""
        if self._watch is not None:
            self._watch.close()
        self._bell = self.loop = None
        self.inner.close()


all_selectors: WeakSet[LoopSelector] = WeakSet()


def _forked() -> None:
    """In a forked child: an epoll is shared with the parent, and what is taken out of it here would be missing there.

    The loops of the parent's tasklets get an empty one each. They hear nothing more of their descriptors in this process.
    """
    for selector in list(all_selectors):
        if selector._keys is not None and selector.loop is not None:
            with select.epoll() as empty:
                os.dup2(empty.fileno(), cast("selectors.EpollSelector", selector.inner).fileno(), inheritable=False)


if hasattr(select, "epoll"):
    os.register_at_fork(after_in_child=_forked)
