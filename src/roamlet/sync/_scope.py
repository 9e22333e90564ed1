"""Structured concurrency: scope(), whose tasklets have all ended when it is left, however it is left."""

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar, cast

from roamlet.core import Cancelled, CancelScope, TaskletExit, atomic, os_threads, sleep, thread_ends
from roamlet.sync._native import Event
from roamlet.sync._outcome import Outcome, TaskletKilled
from roamlet.sync._spawn import Body, Spawned, launch, without_first_frame

T = TypeVar("T")

MESSAGE = "errors in roamlet.scope()"
KILL_ROUNDS = 10  # so often children that nothing can wake are killed before they are given up


class scope:
    """A context manager: the tasklets that are spawned in it have ended when it is left.

    Leaving it waits for them. The first error, of one of them or of the body of the `with`, cancels the others and the
    body: whatever blocks there raises roamlet.Cancelled, each time anew, until they have ended. All errors are raised together
    when the scope is left, as an ExceptionGroup: also a single one, and also the body's own. KeyboardInterrupt and
    SystemExit are raised as they are; the others are their cause.

    A tasklet that is killed in it, or cancelled from outside, cancels its children, and waits for them before it goes on
    ending. A single child that is killed ends quietly, and the others go on.
    """

    __slots__ = ("__weakref__", "_children", "_cut", "_errors", "_idle", "_limit", "_services", "_state", "_thread")

    def __init__(self) -> None:
        self._limit = CancelScope(name="roamlet.scope")
        self._children: dict[Outcome[Any], Spawned[Any]] = {}
        self._services: dict[Outcome[Any], tuple[Spawned[Any], CancelScope]] = {}
        self._errors: list[BaseException] = []  # of children
        self._idle = Event()
        self._state = "not entered"
        self._thread = 0  # its owner's
        self._cut = False  # a child was cancelled from outside

    def spawn(
        self, function: Callable[..., T], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Spawned[T]:
        """Run function(*args, **kwargs) in a tasklet of its own, put at the end of this thread's run queue; return the tasklet.

        Its join() is for results: an error cancels the scope, and is raised where that is left. May be called by anybody, in
        any thread, until the last child has ended. The child lives in the thread of the caller, which has to wait for it:
        one that its thread's end has ended is an error of the scope's, TaskletKilled. Does not switch. RuntimeError when the
        scope is not entered, or over, and in the function of another thread's call_async().
        """
        outcome: Outcome[T] = Outcome()
        return self._launch(_Child(self, outcome, function, args, kwargs, "scope.spawn"))

    def service(
        self, function: Callable[..., T], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Spawned[T | None]:
        """Like spawn, for what serves the others: it is cancelled when all others, and the body, are done.

        Leaving the scope waits until its finally blocks have run. Its error is the scope's, as anybody's is; its result None
        when it was cancelled.
        """
        outcome: Outcome[T | None] = Outcome()
        child: _Child[T | None] = _Child(self, outcome, function, args, kwargs, "scope.service")
        child.limit = CancelScope()
        return self._launch(child)

    def cancel(self) -> None:
        """Cancel the children and the body. Leaving the scope raises nothing because of that. Thread-safe; never switches."""
        self._limit.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled: by cancel(), an error, or the end of its owner."""
        return self._limit.cancelled

    def __enter__(self) -> "scope":
        if self._state != "not entered":
            raise RuntimeError(
                f"this scope is {self._state}: make a new one, `with roamlet.scope() as s:` enters it once"
            )
        self._limit.__enter__()
        self._thread = os_threads.get_ident()
        self._state = "entered"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        leaving = self._leave(error)
        try:
            if leaving is None:
                self._limit.__exit__(None, None, None)
                return False
            if self._limit.__exit__(type(leaving), leaving, None):
                return True
            if leaving is not error:
                raise leaving from leaving.__cause__  # the body's error is in it, and no context of it
            return False
        finally:
            del self, kind, error, traceback, leaving  # the frame is reached from their tracebacks

    def __repr__(self) -> str:
        return f"<roamlet.scope, {self._state}, {len(self._children) + len(self._services)} children, at {id(self):#x}>"

    def _launch(self, child: "_Child[T]") -> Spawned[T]:
        outcome = child.outcome
        if self._thread and os_threads.get_ident() != self._thread:
            child.thread = self._name_thread()
        spawned: Spawned[T] = Spawned(child)
        with atomic():
            if self._state not in ("entered", "being left"):
                raise RuntimeError(
                    f"this scope is {self._state}, and takes no more tasklets: "
                    "`with roamlet.scope() as s:` takes them until the last has ended"
                )
            if child.limit is None:
                self._children[outcome] = spawned
            else:
                self._services[outcome] = (spawned, child.limit)
        self._limit.adopt(spawned)
        return launch(spawned, outcome)

    def _name_thread(self) -> str:
        """The name of this thread, another than the scope's. RuntimeError where it is a worker."""
        thread = os_threads.current_thread() or threading.current_thread()
        if getattr(thread, "runs_calls_only", False):
            raise RuntimeError(
                f"{self!r} takes no tasklets in {thread.name}: a worker thread runs a function for call_async(), and no "
                "tasklets when that has returned; spawn before call_async(), or after it"
            )
        return thread.name

    def _leave(self, error: BaseException | None) -> BaseException | None:
        """Wait until all have ended. Returns what is to be raised then."""
        if error is None and self._over() and not self._errors and not self._cut:
            return None  # most often: nothing was left to wait for
        end = _End(self._limit)
        if error is not None:
            end.add(error)
        with atomic():
            if self._state != "over":
                self._state = "being left"
                self._look()
        while not self._over():
            try:
                if end.early:
                    self._limit.cancel()
                    with CancelScope(shield=True):
                        self._idle.wait()
                else:
                    self._idle.wait()
            except RuntimeError as refused:  # Deadlock is one; in some places waiting is refused
                if end.early:
                    self._kill_all(end)
                else:
                    end.add(refused)
            except BaseException as interruption:
                end.add(interruption)
        if self._cut and not end.early:
            try:
                sleep(0)  # raises here what it has raised in the children
            except BaseException as interruption:
                end.add(interruption)
        try:
            return end.what_to_raise(self._errors)
        finally:
            self._errors = []
            del end, error  # this frame is in the traceback of what interrupted it

    def _over(self) -> bool:
        with atomic():
            if self._children or self._services:
                self._idle.clear()
                return False
            self._state = "over"
            return True

    def _look(self) -> None:
        """The body or a child has ended: see what that leaves. Atomic."""
        if self._state == "being left" and not self._children:
            for _, limit in self._services.values():
                limit.cancel()
            if not self._services:
                self._idle.set()

    def _kill_all(self, end: "_End") -> None:
        """The children, cancelled as they are, wait in shields and nothing can wake them, or waiting for them is refused here."""
        for spawned in [*self._children.values(), *(spawned for spawned, _ in self._services.values())]:
            spawned.kill(pending=True)
        end.killed += 1
        if end.killed > KILL_ROUNDS:
            left = [*self._children.values(), *(spawned for spawned, _ in self._services.values())]
            end.add(
                RuntimeError(
                    f"a scope was left without waiting for its tasklets, which did not end when killed: {left}"
                )
            )
            self._children.clear()
            self._services.clear()

    def _child_failed(self, error: BaseException) -> None:
        """For children: one has raised an error."""
        self._errors.append(error)
        self._limit.cancel()

    def _child_ended(self, outcome: Outcome[Any]) -> None:
        """For children: one has ended, in whatever way. Idempotent."""
        with atomic():
            if self._children.pop(outcome, None) or self._services.pop(outcome, None):
                self._look()

    def _child_cut(self, error: TaskletExit) -> None:
        """For children: one was killed or cancelled."""
        if isinstance(error, Cancelled) and error.scope is not self._limit:
            self._cut = True

    def _child_lost(self, child: "_Child[Any]") -> None:
        """For children: one was ended without a result. That is an error if its thread's end has done it, and not this one's."""
        if not thread_ends() or os_threads.get_ident() == self._thread or self.cancelled or child.cancelled:
            return
        if child.outcome in self._children or child.outcome in self._services:
            self._child_failed(
                TaskletKilled(
                    f"{child.__qualname__} was ended before it was done, because its thread, {child.thread}, has ended: "
                    "a thread that spawns into a scope has to wait for its children, for example with spawn(...).join()"
                )
            )


class _Child(Body[T]):
    """The function of a scope's tasklet: the scope gets its error, and learns of its end."""

    __slots__ = ("limit", "scope", "thread")

    limit: CancelScope | None
    thread: str

    def __init__(
        self,
        owner: scope,
        outcome: Outcome[T],
        function: Callable[..., T],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
        caller: str,
    ) -> None:
        self.scope = owner
        self.limit = None
        self.thread = "which it was bound to"
        super().__init__(outcome, function, args, kwargs, caller)

    def __call__(self) -> None:
        try:
            if self.limit is None:
                super().__call__()
            else:
                with self.limit:
                    super().__call__()
        finally:
            self.scope._child_ended(self.outcome)
            del self

    def keeps(self, error: BaseException) -> bool:
        if isinstance(error, Cancelled) and self.limit is not None and error.scope is self.limit:
            self.outcome.succeed(cast(T, None))
            return True
        if isinstance(error, TaskletExit):
            self.scope._child_cut(error)
            self.scope._child_lost(self)
            return super().keeps(error)
        self.scope._child_failed(without_first_frame(error))
        self.outcome.fail(error, taken=True)
        return True

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled alone, as services are."""
        return self.limit is not None and self.limit.cancelled

    def dropped(self) -> None:
        super().dropped()
        self.scope._child_lost(self)
        self.scope._child_ended(self.outcome)


class _End:
    """Why a scope is left, and what comes of that."""

    def __init__(self, limit: CancelScope) -> None:
        self.killed = 0  # how often its children were
        self._limit = limit
        self._errors: list[BaseException] = []
        self._exit: TaskletExit | None = None
        self._cancelled: Cancelled | None = None

    @property
    def early(self) -> bool:
        """Whether the scope is left before its children are done."""
        return bool(self._errors or self._exit or self._cancelled)

    def add(self, error: BaseException) -> None:
        """The body or the wait for the children has ended with it."""
        if isinstance(error, Cancelled):
            if self._cancelled is None or error.scope is not self._limit:  # one from outside counts
                self._cancelled = error
        elif isinstance(error, TaskletExit):
            self._exit = self._exit or error
        else:
            self._errors.append(error)

    def what_to_raise(self, errors_of_children: list[BaseException]) -> BaseException | None:
        """All errors as one; or else what ends the tasklet, or is for a scope around this one, or ends this one."""
        errors = list({id(error): error for error in [*errors_of_children, *self._errors]}.values())
        stops = [error for error in errors if not isinstance(error, Exception)]
        if stops:
            first = stops[0]
            others = [error for error in errors if error is not first]
            if others:
                first.__cause__ = BaseExceptionGroup(MESSAGE, others)
            return first
        if errors:
            return BaseExceptionGroup(MESSAGE, errors)
        return self._exit or self._cancelled
