"""`concurrent.futures` over contexts: an Executor whose calls run on other machines, or in other processes of this one.

    with Executor(["alpha", "beta"], each=2) as executor:
        for result in executor.map(measure, range(100)):
            print(result)

It starts no scheduler: it has as many calls under way in each context as it was told, and gives the next one to the place that
has become free.
"""

import atexit
import itertools
import logging
import os
import textwrap
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import BrokenExecutor
from functools import partial
from typing import Any, TypeVar, cast

from roamlet import io
from roamlet.core.os_threads import RLock
from roamlet.remote import Context, ContextClosed, ContextDied, ForkedContext, Opened, RemoteCall, local, open_all, ssh
from roamlet.remote.base.deadlines import EVER
from roamlet.remote.base.threads import TaskletThread
from roamlet.remote.calls.engine import calls_of
from roamlet.remote.modules.main_script import name_on_target
from roamlet.sync import Condition, Event
from roamlet.sync._outcome import alike
from roamlet.wire.calls import executor as on_target

__all__ = ["BrokenExecutor", "Executor", "Future"]

T = TypeVar("T")

LOCAL = "local"

_log = logging.getLogger("roamlet.executor")


class Future(futures.Future[T]):
    """A Future whose `result()` and `exception()` block their tasklet alone, and decode the answer in the thread that asks.

    Functions that were given to `add_done_callback` are called in a thread of roamlet's that users' callbacks have to themselves.
    `concurrent.futures.wait()` and `as_completed()` block the whole thread, unless roamlet.patch is in place.
    """

    _call: RemoteCall[T] | None = None  # it has ended, and its answer is not decoded yet
    _pickled: str | None = None  # the name of the function whose answer comes as a pickle

    def __init__(self) -> None:
        super().__init__()
        # On a lock of the system: a tasklet that waits for one that a thread of roamlet's holds would look like a deadlock.
        self._condition = cast(Any, Condition(RLock()))

    def result(self, timeout: float | None = None) -> T:
        """What the call returned; raises what it raised. TimeoutError after `timeout` seconds, CancelledError when cancelled."""
        error = self.exception(timeout)
        if error is None:
            return cast(T, self._result)
        try:
            raise alike(error) or error  # the one that is kept would get a traceback, with frames that hold this future
        finally:
            del error, self

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call raised, None if it returned. Raises as `result` does where there is neither."""
        if timeout is None:
            timeout = EVER  # a thread of roamlet's ends the wait: that is no deadlock, and run() waits for it, too
        super().exception(timeout)
        self._decode()
        return self._exception

    def _finish(self, call: RemoteCall[T] | None, error: BaseException | None) -> bool:
        """It has its answer, or an error in place of one. Returns whether functions wait to be called."""
        if self._pickled is not None and self._waiters:
            self._call, call = call, None  # wait() asks now whether it has failed, and only the pickle says that
            self._decode()
        with self._condition:
            if call is not None:
                self._call = call
            elif error is not None:
                self._exception = error
            failed = self._exception is not None or (call is not None and call.failed)
            self._state = "FINISHED"
            for waiter in self._waiters:
                (waiter.add_exception if failed else waiter.add_result)(self)
            self._condition.notify_all()
            return bool(self._done_callbacks)  # type: ignore[attr-defined]

    def _decode(self) -> None:
        call = self._call
        if call is None:
            return
        result = error = None
        try:
            result = call.join()
            if self._pickled is not None:
                result, error = _unpickled(result, self._pickled)
        except Exception as raised:  # anything else interrupts this tasklet: the next caller decodes it again
            error = raised.with_traceback(None)
        with self._condition:
            if self._call is not None:  # else another thread was quicker
                self._result, self._exception, self._call = result, error, None
        del error

    def __repr__(self) -> str:
        return f"<roamlet.executor.Future at {id(self):#x} state={self._state.lower()}>"


def _unpickled(data: Any, name: str) -> tuple[Any, BaseException | None]:
    import io as streams  # roamlet never loads a pickle that comes from a target, but where Executor(pickle=True) grants it
    import pickle

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            """Classes of the main script have another name on targets."""
            return super().find_class("__main__" if module == name_on_target() else module, name)

    good, value, *trace = Unpickler(streams.BytesIO(data)).load()
    if good:
        return value, None
    value.add_note(f"On the target, called as {name}:\n{textwrap.indent(''.join(trace), '    ')}".rstrip())
    return None, value


class _Task:
    __slots__ = ("args", "before", "function", "future", "kwargs")

    def __init__(
        self,
        future: Future[Any],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        before: Callable[[Context], object] | None = None,
    ) -> None:
        self.before = before  # is called with the context that the task is about to be sent to
        self.future = future
        self.function = function
        self.args = args
        self.kwargs = kwargs


class _Pool:
    """What an Executor is, but for the object that users hold: the calls go on after that one has gone."""

    def __init__(self, contexts: list[Context], opened: Opened | None, each: int, idempotent: bool) -> None:
        self.lock = RLock()  # the collector may end an executor in the middle of anything
        self.contexts = contexts
        self.alive = set(contexts)
        self.tasks: deque[_Task] = deque()
        self.free: deque[Context] = deque()  # a place for a call, each
        self.each = each
        self.idempotent = idempotent
        self.left = 0  # futures that have neither a result nor an error
        self.idle = Event()
        self.idle.set()
        self.ended = False
        self.broken: str | None = None
        self.process = os.getpid()
        self._opened = opened
        self._closing = False
        self._closed = Event()
        self._callbacks: TaskletThread | None = None  # runs what users gave to add_done_callback()
        self._waiting = 0  # callers that wait in shutdown(), of which the first closes them

    def begin(self, initializer: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
        """Let calls go to the contexts, after their initializers."""
        if initializer is None:
            self.free.extend(self.contexts * self.each)
            return
        for context in self.alive:
            call = context.spawn(initializer, arguments)
            call.then(partial(self._initialized, context, call))

    def _initialized(self, context: Context, call: RemoteCall[Any]) -> None:
        try:
            call.join()
        except Exception as error:
            if isinstance(call.unanswered, (ContextDied, ContextClosed)):
                self._lost(context, error)
                return
            _log.error("the initializer failed in %r", context.name, exc_info=error)
            self._break(f"the initializer failed in {context.name!r}: {error!r}", error)
            return
        with self.lock:
            self.free.extend([context] * (self.each * self.contexts.count(context)))
        self.dispatch()

    def add(self, task: _Task) -> None:
        if self.process != os.getpid():  # where another thread may have had the lock
            raise ForkedContext(
                "this executor belongs to the process that this one was forked from, and cannot be used here.\n"
                "    Make an executor of your own in the child."
            )
        with self.lock:
            if self.broken is not None:
                raise BrokenExecutor(self.broken)
            if self.ended:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self.left += 1
            self.idle.clear()
            self.tasks.append(task)
        self.dispatch()

    def dispatch(self) -> None:
        """Send tasks for as long as there is a place for one."""
        while True:
            with self.lock:
                if not self.tasks or not self.free:
                    return
                context = self.free.popleft()
                if context not in self.alive:
                    continue
                task = self.tasks.popleft()
            future = task.future
            if not future.running() and not future.set_running_or_notify_cancel():
                self._give(context)
                self._settled()
                continue
            try:
                if task.before is not None:
                    task.before(context)
                call = context.spawn(task.function, task.args, task.kwargs)
            except BaseException as error:
                if isinstance(error, (ContextDied, ContextClosed)):
                    self._lost(context, error, task)
                    continue
                self._give(context)
                self._fail(task, error)
                if not isinstance(error, Exception):
                    raise
            else:
                call.then(partial(self._answered, context, task, call))

    def _answered(self, context: Context, task: _Task, call: RemoteCall[Any]) -> None:
        """In a thread of roamlet's."""
        error = call.unanswered
        if isinstance(error, (ContextDied, ContextClosed)):
            self._lost(context, error, task)
        else:
            self._give(context)
            self._finish(task.future, call, None)
        del error, task, call
        self.dispatch()

    def _finish(self, future: Future[Any], call: RemoteCall[Any] | None, error: BaseException | None) -> None:
        """The future has ended. It counts as ended when what waits for it was called, in a thread for that: it may block."""
        if not future._finish(call, error):
            self._settled()
            return
        try:
            with self.lock:
                if self._callbacks is None:
                    self._callbacks = TaskletThread("roamlet-executor-callbacks")
                thread = self._callbacks
        except RuntimeError:  # Python ends, and from 3.12 on it starts no threads then
            self._call_back(future)
        else:
            thread.post(partial(self._call_back, future))

    def _call_back(self, future: Future[Any]) -> None:
        try:
            future._invoke_callbacks()  # type: ignore[attr-defined]
        except BaseException:  # SystemExit, say: it must not end this thread
            _log.exception("a function given to add_done_callback() has raised")
        finally:
            self._settled()

    def _give(self, context: Context) -> None:
        with self.lock:
            self.free.append(context)

    def _settled(self) -> None:
        """A future has ended."""
        with self.lock:
            self.left -= 1
            if self.left:
                return
            self.idle.set()
            if not self.ended or self._waiting:
                return
        self._close_in_background()

    def _fail(self, task: _Task, error: BaseException) -> None:
        self._finish(task.future, None, error.with_traceback(None))  # which has frames that hold the future

    def _lost(self, context: Context, error: BaseException, task: _Task | None = None) -> None:
        """The context has ended; `task` was to run there."""
        with self.lock:
            self.alive.discard(context)
            again = bool(self.alive) and (self.idempotent or getattr(error, "sent", None) is False)
            if task is not None and again:
                self.tasks.appendleft(task)
        if task is not None and not again:
            broken = BrokenExecutor(f"{context.name!r} ended while it ran the call, or before: {error}")
            broken.__cause__ = error.with_traceback(None)
            self._fail(task, broken)
        if not self.alive:
            self._break(f"no context is left; the last one was {context.name!r}: {error}", error)

    def _break(self, why: str, error: BaseException) -> None:
        with self.lock:
            self.broken = self.broken or why
            self.alive.clear()
            tasks = list(self.tasks)
            self.tasks.clear()
        for task in tasks:
            if task.future.running() or task.future.set_running_or_notify_cancel():
                broken = BrokenExecutor(why)
                broken.__cause__ = error.with_traceback(None)
                self._fail(task, broken)
            else:
                self._settled()

    def end(self, wait: bool, cancel: bool) -> None:
        """See Executor.shutdown."""
        if self.process != os.getpid():
            return
        with self.lock:
            self.ended = True
            tasks = list(self.tasks) if cancel else []
            if cancel:
                self.tasks.clear()
        for task in tasks:
            if task.future.cancel():
                task.future.set_running_or_notify_cancel()
                self._settled()
            else:  # it had run in a context that has died
                self._fail(task, BrokenExecutor("the executor was shut down before the call was made again"))
        if wait and not (self._callbacks is not None and self._callbacks.is_current()):  # which is waited for itself
            with self.lock:
                self._waiting += 1
            try:
                self.idle.wait(EVER)
                self._close()
                self._closed.wait(EVER)
            finally:
                with self.lock:
                    self._waiting -= 1
                if self.idle.is_set():  # this one may be killed before it has closed anything
                    self._close_in_background()
        elif self.idle.is_set():
            self._close_in_background()

    def _close(self) -> None:
        """Everything is over. The first who comes closes what was opened here."""
        with self.lock:
            if self._closing:
                return
            self._closing = True
            callbacks = self._callbacks
        try:
            if callbacks is not None:
                callbacks.stop()
                callbacks.join()
            if self._opened is not None:
                self._opened.close()
        finally:
            self._closed.set()

    def _close_in_background(self) -> None:
        """In a thread of its own: the caller may be one that is waited for here."""
        if self._opened is None and self._callbacks is None:
            self._close()
        elif not self._closing:
            try:
                io.start_thread(self._close, "roamlet-executor-close")
            except RuntimeError:  # Python ends
                self._close()


_pools: "weakref.WeakSet[_Pool]" = weakref.WeakSet()


@atexit.register  # after that of the contexts, so it is called before theirs: they are open still
def _wait_at_exit() -> None:
    """As the executors of the standard library do: what was submitted runs, unless it was cancelled."""
    for pool in list(_pools):
        pool.end(wait=True, cancel=False)


class Executor(futures.Executor):
    """Calls in contexts, as a `concurrent.futures.Executor`: submit, map, shutdown, `with`.

    `targets`: the places for calls, each an open context, the name of a host for `open` (remote.ssh by default), "local" for a
    process of this machine, or a function that opens a context. What was opened here is closed by shutdown(). `each`: how many
    calls at a time one context has; in it they are threads of one process, so that calls that compute want more contexts.
    `initializer(*initargs)` is called once in each context, before anything else.

    What travels is said in docs/reference/remote-calls.md; results are data. **`pickle=True` is a grant of rights**: results and
    errors come as pickles, so that objects of any class come back, and whoever controls a target can run code in this process.

    When a context ends, the calls that it had raise BrokenExecutor, and the other contexts go on; when none is left, so does
    everything else. What had not been sent goes to another context; with `idempotent=True`, which says that a call may be made
    twice, so does what had been.

    Making one blocks this tasklet until all targets are open; raises what remote.open_all's results have if one cannot be
    opened, and closes the others. Thread-safe: tasklets, threads and coroutines (`loop.run_in_executor`) may use it at once.
    """

    def __init__(
        self,
        targets: Iterable[Context | str | Callable[[], Context]],
        *,
        each: int = 1,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        pickle: bool = False,
        idempotent: bool = False,
        open: Callable[[str], Context] = ssh,
    ) -> None:
        if isinstance(targets, (str, Context)):
            one = repr(targets) if isinstance(targets, str) else targets.name
            raise TypeError(f"Executor() takes a list of targets, even for a single one: [{one}], not {one}")
        if isinstance(each, bool) or not isinstance(each, int) or each < 1:
            raise ValueError(f"each must be a number of calls, 1 or more, not {each!r}")
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be a function, not {initializer!r}")
        places = list(targets)
        if not places:
            raise ValueError("Executor() needs a target at least: a context, the name of a host, or 'local'")
        contexts, opened = _open(places, open)
        self._pickle = pickle
        self._pool = pool = _Pool(contexts, opened, each, idempotent)
        try:
            for context in contexts:
                calls_of(context).shipping.need("calls.executor")
            pool.begin(initializer, tuple(initargs))
        except BaseException:
            pool.end(wait=True, cancel=True)
            raise
        _pools.add(pool)
        self._finalizer = weakref.finalize(self, pool.end, False, False)
        self._finalizer.atexit = False

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The contexts that are alive."""
        return tuple(context for context in self._pool.contexts if context in self._pool.alive)

    @property
    def places(self) -> int:
        """How many calls can run at a time in the contexts that are alive."""
        return len(self._pool.alive) * self._pool.each

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have fn(*args, **kwargs) called in a context that is free, or becomes so; return its Future. Never blocks.

        Arguments are copied when the call is sent. Raises RuntimeError after shutdown(), BrokenExecutor when no context is left or
        an initializer has failed, ForkedContext in a forked child. What cannot travel is an error of the future.
        """
        if not callable(fn):
            raise TypeError(f"{fn!r} cannot be called: give the function itself, as in os.getpid, without ()")
        return self._submit(fn, args, kwargs)

    def _submit(
        self,
        fn: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        before: Callable[[Context], object] | None = None,
    ) -> Future[T]:
        """As submit(). `before(context)` is called right before the call is sent there; what it raises, the future does."""
        future: Future[T] = Future()
        if self._pickle:
            future._pickled = getattr(fn, "__qualname__", repr(fn))
            task = _Task(future, on_target.pickled, (fn, args, kwargs), {}, before)
        else:
            task = _Task(future, fn, args, kwargs, before)
        self._pool.add(task)
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """The results of fn over the items of the iterables, in their order, as `concurrent.futures.Executor.map` has it.

        `chunksize`: so many items go in one call. `buffersize`: so many items at most are taken ahead of the results that were
        asked for; without it all are taken at once. Asking for a result blocks this tasklet; TimeoutError when it has not come
        `timeout` seconds after map() was called. Leaving the iterator cancels what has not begun.
        """
        for name, value in (("chunksize", chunksize), ("buffersize", buffersize)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise TypeError(f"{name} must be a number of items, not {value!r}")
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, not {value}")
        deadline = None if timeout is None else time.monotonic() + timeout
        items = zip(*iterables, strict=False)
        if chunksize == 1:
            submit: Callable[[Any], Future[Any]] = lambda arguments: self.submit(fn, *arguments)  # noqa: E731
            return _results(submit, items, buffersize, deadline)
        chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
        ahead = None if buffersize is None else max(1, buffersize // chunksize)
        whole = _results(lambda chunk: self.submit(on_target.each, fn, chunk), chunks, ahead, deadline)
        return _flat(whole)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; with `cancel_futures` cancel those that have not begun. The others run to their end.

        With `wait` it blocks this tasklet until all have ended and what was opened here is closed. Otherwise that happens later.
        May be called again.
        """
        self._pool.end(wait, cancel_futures)

    def __repr__(self) -> str:
        pool = self._pool
        state = "broken" if pool.broken else "shut down" if pool.ended else f"{pool.left} under way"
        return f"<roamlet.executor.Executor over {len(pool.alive)} contexts, {state}>"


def _open(
    places: list[Context | str | Callable[[], Context]], open: Callable[[str], Context]
) -> tuple[list[Context], Opened | None]:
    """All places as contexts, in their order, and those of them that were opened here."""
    closed = [place.name for place in places if isinstance(place, Context) and place.closed]
    if closed:
        raise ContextClosed(f"{closed[0]!r} is closed, and runs no calls for an executor", context=closed[0])
    closed_ones = [local if place == LOCAL else place for place in places if not isinstance(place, Context)]
    if not closed_ones:
        return [place for place in places if isinstance(place, Context)], None
    opened = open_all(closed_ones, open=open)
    if opened.failed:
        opened.close()
        try:
            opened.failed[0].get()
        finally:
            del opened  # it has the error, whose traceback has this frame
    new = iter(opened.contexts)
    return [place if isinstance(place, Context) else next(new) for place in places], opened


def _results(
    submit: Callable[[Any], Future[Any]], items: Iterator[Any], ahead: int | None, deadline: float | None
) -> Iterator[Any]:
    """Submit the items, `ahead` of them or all, now; the rest as results are asked for."""
    begun = deque(map(submit, items if ahead is None else itertools.islice(items, ahead)))

    def next_one() -> Any:
        future = begun.popleft()
        try:
            result = future.result(None if deadline is None else max(0, deadline - time.monotonic()))
        finally:
            future.cancel()
            del future
        if ahead is not None:
            begun.extend(map(submit, itertools.islice(items, 1)))
        return result

    def results() -> Iterator[Any]:
        try:
            while begun:
                yield next_one()  # in no variable here: the caller may let go of it while this waits
        finally:
            for future in begun:
                future.cancel()

    return results()


def _flat(lists: Iterator[list[T]]) -> Iterator[T]:
    """As itertools.chain.from_iterable, but keeps no result that was yielded, and passes on that it was left."""
    for each in lists:
        each.reverse()
        while each:
            yield each.pop()
