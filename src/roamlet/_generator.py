"""Generators whose nested calls may yield: each runs in a tasklet of its own, while a caller asks it for a value."""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Generator
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from roamlet.core import TaskletExit, Waiter, getcurrent, schedule_remove, tasklet

P = ParamSpec("P")
R = TypeVar("R")

# A body is new, waits for a request, has one that it has not seen yet, works for the caller, and has answered until the answer is
# taken. It may also work while no caller waits for it: it was killed, or the caller has gone. In the end it has ended.
_NEW, _IDLE, _ASKED, _WORKS, _ANSWERED, _LEFT, _ENDED = range(7)
_STATES = ("not started", "suspended", "running", "running", "suspended", "running", "ended")

# Flags of code whose call runs nothing of it yet: a generator's, a coroutine's, an asynchronous generator's. The module
# inspect has names for them and takes 10 ms to import.
_NOT_PLAIN = 0x20 | 0x80 | 0x200

# So often is what interrupts a wait for the body passed on to it before it is left to itself: as often as the core tries.
_ROUNDS = 10


class _Body(tasklet[...]):
    """The tasklet that runs a generator's function, and what passes between it and the caller.

    The caller sets `state` and runs the body, and is next in the run queue: when the body suspends itself the caller goes on, and
    finds the answer. If the body blocks on the way, or is interrupted, it waits for `answered`. A suspended body refers
    neither to who asked nor to the NestedGenerator, nor do its frames refer to it: there is no cycle.

    Any of them may be interrupted between two bytecodes. So `del free` is what gives the right to ask: it succeeds once.
    """

    __slots__ = ("answered", "call", "error", "free", "function", "state", "value")

    answered: Waiter[None] | None
    call: tuple[Callable[..., object], tuple[object, ...], dict[str, object]] | None
    error: BaseException | None
    free: bool
    function: Callable[..., object]
    state: int
    value: Any

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", None) or repr(self.function)
        return f"<roamlet.generator {name}, {_STATES[self.state]}, at {id(self):#x}>"

    def release(self) -> None:
        """Let the next one ask."""
        self.state = _IDLE
        self.free = True


# ---- in the body ----

_current = cast(Callable[[], _Body], getcurrent)


def yield_(value: Any = None) -> Any:
    """Deliver `value` from the generator in which this is called, from whatever depth of calls.

    Returns what send() gives when the generator goes on, None for next(); raises what throw() gives. Switches to the
    caller. RuntimeError where no function decorated with `generator` is running in this tasklet.
    """
    body = _current()
    if type(body) is not _Body:
        raise RuntimeError(
            "yield_() was called outside of a generator: call it from a function decorated with @roamlet.generator or from what "
            "that calls, however deep. A tasklet that such a function starts is outside"
        )
    if body.state != _LEFT:
        body.value = value
        body.state = _ANSWERED
        waiter = body.answered  # now, and once: who asked may begin to wait and cease to at any time
        if waiter is not None:
            waiter.succeed(None)
        del waiter
    else:
        body.release()
    del body, value  # this frame would keep them as long as it is suspended
    try:
        schedule_remove()
        while (body := _current()).state != _ASKED:
            del body
            schedule_remove()
    except BaseException:
        _woken_by_an_error()
        raise
    body.state = _WORKS
    value, error = body.value, body.error
    body.value = body.error = None
    if error is None:
        return value
    try:
        raise error
    finally:
        del body, error


def _woken_by_an_error() -> None:
    """The body did not wait for that: it was killed, say. It works for the present caller, or for none."""
    body = _current()
    try:
        del body.free
    except AttributeError:
        if body.state != _LEFT:
            body.state = _WORKS
    else:
        body.state = _LEFT


def _run(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """What the body does. Leaves nothing in its frame, which the tracebacks of the function's errors keep."""
    value: object = None
    error: BaseException | None = None
    try:
        _await_first_request()
        value = function(*args, **kwargs)
    except StopIteration as raised:
        error = RuntimeError("generator raised StopIteration")
        error.__cause__ = error.__context__ = _from_here(raised)
    except BaseException as raised:
        error = _from_here(raised)
    try:
        _end(value, error)
    finally:
        del function, args, kwargs, value, error


def _await_first_request() -> None:
    while _current().state != _ASKED:
        schedule_remove()
    body = _current()
    body.state = _WORKS
    error, body.error = body.error, None
    if error is not None:
        try:
            raise error
        finally:
            del body, error


def _from_here(error: BaseException) -> BaseException:
    """The error as its function's callers should see it: its traceback begins after the frame that caught it."""
    return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)


def _end(value: object, error: BaseException | None) -> None:
    body = _current()
    if body.state != _LEFT:
        body.value, body.error = value, error
        body.state = _ENDED  # last: from here on the answer may be taken
        waiter = body.answered
        if waiter is not None:
            waiter.succeed(None)
        return
    body.state = _ENDED
    if error is not None and not isinstance(error, (GeneratorExit, TaskletExit)):
        try:
            raise error  # as every tasklet's: in main
        finally:
            del error


# ---- where it is asked ----


class NestedGenerator(Generator[Any, Any, R]):
    """What a function decorated with `generator` returns. Python's generator protocol; several tasklets may use it.

    The function runs in a tasklet of the thread that asks first, in a copy of the context of that call. What is raised in a
    tasklet that waits here, by kill() or by a deadlock say, is raised in the function, as if that ran in it.
    """

    __slots__ = ("__weakref__", "_body")

    def __init__(self, function: Callable[..., R], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self._body = body = _Body()
        body.answered = body.error = body.value = None
        body.function, body.call = function, (function, args, kwargs)
        body.state, body.free = _NEW, True

    def __next__(self) -> Any:
        body = self._body
        if body.state != _IDLE:
            return self.send(None)
        try:
            del body.free
        except AttributeError:
            return self.send(None)
        body.state = _ASKED
        try:
            body.run()
        except BaseException:
            _interrupted(body)
        if body.state != _ANSWERED:
            return _answer(body)
        value = body.value
        body.value = None
        body.state = _IDLE
        body.free = True
        return value

    def send(self, value: Any) -> Any:
        """Let the function go on, with `value` as what its yield_() returns, until it yields or ends.

        Blocks this tasklet as long as that takes, and switches. Raises StopIteration with what the function returned,
        ValueError while it runs for another caller.
        """
        body = self._body
        if body.state == _ENDED:
            raise StopIteration
        if body.state == _NEW and value is not None:
            raise TypeError("can't send non-None value to a just-started generator")
        return _ask(body, value, None)

    def throw(
        self, typ: type[BaseException] | BaseException, val: Any = None, tb: TracebackType | None = None, /
    ) -> Any:
        """Raise an exception where the function yielded; otherwise like send. Raised here if it is not under way."""
        error = _exception(typ, val, tb)
        del typ, val, tb  # the error's traceback will have this frame
        try:
            if self._closed_before_its_start() or self._body.state == _ENDED:
                raise error
            return _ask(self._body, None, error)
        finally:
            del error

    def close(self) -> R | None:  # type: ignore[override]  # what 3.13 returns
        """Raise GeneratorExit where the function yielded, and wait for its end. Returns what it returned, if it did."""
        if self._closed_before_its_start() or self._body.state == _ENDED:
            return None
        try:
            self.throw(GeneratorExit)
        except GeneratorExit:
            return None
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise RuntimeError("generator ignored GeneratorExit")

    def _closed_before_its_start(self) -> bool:
        body = self._body
        if body.state != _NEW:
            return False
        _take_turn(body)
        body.state, body.call = _ENDED, None
        return True

    def __del__(self) -> None:
        body = self._body
        if body.state != _IDLE or body.frame is None:
            return
        del body.free
        body.state = _ASKED
        body.throw(GeneratorExit)
        error, body.error = body.error, None
        if body.state != _ENDED:
            answered, body.state = body.state == _ANSWERED, _LEFT
            if answered:  # otherwise it has blocked, or ends in its own thread
                raise RuntimeError("generator ignored GeneratorExit")
        elif error is not None and not isinstance(error, (GeneratorExit, TaskletExit)):
            try:
                raise error
            finally:
                del error

    def __repr__(self) -> str:
        return repr(self._body)


def _exception(typ: object, val: Any, tb: TracebackType | None) -> BaseException:
    """The exception of throw(exception) or throw(type, value, traceback)."""
    if isinstance(typ, type) and issubclass(typ, BaseException):
        if isinstance(val, typ):
            error: BaseException = val
        else:
            error = typ() if val is None else typ(*val) if isinstance(val, tuple) else typ(val)
    elif isinstance(typ, BaseException) and val is None:
        error = typ
    else:
        raise TypeError(f"throw() takes an exception, or a class and what to call it with, not {typ!r} and {val!r}")
    return error if tb is None else error.with_traceback(tb)


def _take_turn(body: _Body) -> None:
    """Become the body's caller. ValueError when another tasklet is."""
    try:
        del body.free
    except AttributeError:
        raise ValueError("generator already executing") from None


def _ask(body: _Body, value: object, error: BaseException | None) -> Any:
    """Let the body go on with a value or an error, and return what it yields."""
    _take_turn(body)
    if body.state == _NEW:
        assert body.call is not None
        body.bind_thread()
        body.bind(_run, body.call)
        body.call = None
    body.value, body.error, body.state = value, error, _ASKED
    del value, error
    try:
        body.run()
    except BaseException:
        _interrupted(body)
    return _answer(body)


def _answer(body: _Body) -> Any:
    """Take the answer; wait for it first if necessary."""
    if body.state in (_ASKED, _WORKS):
        _wait(body)
    value, error = body.value, body.error
    body.value = body.error = None
    if body.state != _ENDED:
        body.release()
        return value
    if error is None:
        raise StopIteration(value)
    try:
        raise error
    finally:
        del error


def _interrupted(body: _Body) -> None:
    """An exception is being handled that was raised in this tasklet while it asked. If the body is at work it is passed on."""
    if body.state == _WORKS:
        error = sys.exception()
        assert error is not None
        body.throw(type(error), error, error.__traceback__, True)
        return
    body.value = body.error = None
    if body.state != _ENDED:  # it has not seen the request, or its answer is not taken now
        body.release()
    raise  # noqa: PLE0704 - called in an except block


def _wait(body: _Body) -> None:
    """Wait until the body has answered, and pass on to it what is raised in this tasklet meanwhile."""
    interruptions = 0
    while body.state in (_ASKED, _WORKS):
        waiter = body.answered = Waiter()
        try:
            if body.state == _ASKED:
                _run_where_it_belongs(body)
            if body.state in (_ASKED, _WORKS):
                waiter.wait(None, True)
        except BaseException:
            interruptions += 1
            if interruptions == _ROUNDS and body.state == _WORKS:
                body.state = _LEFT
                raise
            _interrupted(body)
        finally:
            body.answered = None


def _run_where_it_belongs(body: _Body) -> None:
    """Let the body see its request. It may have been interrupted just before it looked, or belong to another thread."""
    if body.thread_id == get_ident():
        while body.state == _ASKED:
            body.run()
    elif body.thread_id != -1:
        there = tasklet(_run_where_it_belongs, (body,))
        there.bind_thread(body.thread_id)
        there.insert()


def generator(function: Callable[P, R]) -> Callable[P, NestedGenerator[R]]:
    """Make a generator function of a plain one: what it calls, however deep, may call yield_(value).

    TypeError for what cannot be called, and for a function that has `yield` or `async` in itself: its values would be lost.
    """
    if not callable(function):
        raise TypeError(f"roamlet.generator makes a generator of a function, not of {function!r}")
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & _NOT_PLAIN:
        raise TypeError(
            f"roamlet.generator: {function.__qualname__}() has `yield` or `async` in itself, so that its values would be lost: "
            "write roamlet.yield_(value) for `yield value`, or leave the decorator away"
        )

    @wraps(function)
    def start(*args: P.args, **kwargs: P.kwargs) -> NestedGenerator[R]:
        return NestedGenerator(function, args, kwargs)

    return start
