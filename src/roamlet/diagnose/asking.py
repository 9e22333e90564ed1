"""What the layers above the core know about waits: locks, jobs, remote calls, descriptors, asyncio's tasks, contexts.

A layer is asked only if the program has imported it. All of it is looked at, and nothing called that could block or switch.
"""

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinMethodType, CellType, FrameType, MethodType
from typing import Any

from roamlet import core
from roamlet.diagnose import model, peers
from roamlet.diagnose.model import Call, Context, Frame, Stack, Task, Wait

OUTWARDS = 12  # frames of roamlet's own between a wait and the call that asked for it

# The classes of roamlet.sync._native by their names, and the kind of a wait for each.
_SYNC = {
    "Lock": model.LOCK,
    "RLock": model.LOCK,
    "Condition": model.CONDITION,
    "Semaphore": model.SEMAPHORE,
    "BoundedSemaphore": model.SEMAPHORE,
    "Event": model.EVENT,
    "Queue": model.QUEUE,
    "LifoQueue": model.QUEUE,
    "PriorityQueue": model.QUEUE,
    "SimpleQueue": model.QUEUE,
}


_QUEUES = ("Queue", "LifoQueue", "PriorityQueue")


def asked(name: str) -> Any:
    """The module of this name if it is imported, else None."""
    return sys.modules.get(name)


def outside_of(folder: str, frame: FrameType | None) -> FrameType | None:
    """The first frame outwards whose code is in no file below this folder, which ends in "/"; else None.

    A frame of a look itself in a variable of its own would be a cycle.
    """
    while frame is not None and frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    return frame


def around(tasklet: Any, frame: FrameType | None) -> list[Any]:
    """What the frames of a suspended tasklet refer to. `frame`: the innermost one of a tasklet that is its thread's current one.

    The variables of a frame are asked for in the second case alone, and in frames of roamlet's own: before CPython 3.13 a
    dictionary of them stays with the frame, and keeps alive what they have.
    """
    found = gc.get_referents(tasklet)
    for _ in range(OUTWARDS):
        if frame is None or not str(frame.f_globals.get("__name__", "")).startswith("roamlet."):
            break
        found += frame.f_locals.values()
        frame = frame.f_back
    further: list[Any] = []
    for each in found:
        if isinstance(each, BuiltinMethodType | MethodType):
            further.append(each.__self__)
        elif isinstance(each, CellType):
            further += gc.get_referents(each)
    return found + further


class Awaited:
    """What waits mean, for one look: the tables of calls in flight and of jobs are made once."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[str, str]] | None = None
        self._jobs: dict[int, str] | None = None
        self._peers: dict[int, tuple[str | None, int | None]] = {}

    def wait(self, tasklet: Any, on: Any, offset: int, top: FrameType | None) -> tuple[Wait, tuple[Any, ...]]:
        """What `on` is, which a tasklet waits for; and the objects any of which could wake it. `top`: see around().

        A tasklet that is among them can, and so can any code that reaches one of the others. Empty: something outside of the
        process's tasklets will, or may.
        """
        kind = type(on)
        number = repr(on).rstrip(">").rpartition(" ")[2] if kind.__name__ == "Descriptor" else ""
        if kind is core.Waiter or number or kind.__name__ in ("Event", "Condition"):
            nearby = around(tasklet, top)
            if (call := _call(nearby)) is not None:
                return call, ()
            if kind is core.Waiter:
                return self._waiter(on, nearby)
            if number.isdecimal():
                return self._descriptor(int(number), offset), ()
            return _sync(tasklet, on, nearby)
        if kind.__name__ == "ModuleLock":
            return Wait(model.IMPORT, repr(on), id(on)), (on,)
        return _sync(tasklet, on, ())

    def _waiter(self, waiter: Any, nearby: list[Any]) -> tuple[Wait, tuple[Any, ...]]:
        if self._calls is None:
            self._calls = {id(entry): (host, text) for host, entry, text in _in_flight()}
        if (call := self._calls.get(id(waiter))) is not None:
            return Wait(model.CALL, host=call[0], function=call[1], address=id(waiter)), ()
        if self._jobs is None:
            self._jobs = dict(_jobs())
        if (job := self._jobs.get(id(waiter))) is not None:
            return Wait(model.JOB, function=job, address=id(waiter)), ()
        return _sync(None, waiter, nearby)

    def _descriptor(self, number: int, offset: int) -> Wait:
        if number not in self._peers:
            self._peers[number] = peers.peer(number)
        peer, process = self._peers[number]
        if process is not None:
            return Wait(model.PROCESS, process=process, descriptor=number)
        writes = offset == getattr(asked("roamlet.io._native"), "QUEUE_OF_WRITERS", -1)
        return Wait(model.WRITE if writes else model.READ, f"descriptor {number}", descriptor=number, peer=peer)


def _call(nearby: Iterable[Any]) -> Wait | None:
    """The remote call that a tasklet waits in; it may read its own answer from the link, or wait for room to send."""
    module = asked("roamlet.remote.calls.request")
    if module is None:
        return None
    request = next((each for each in nearby if isinstance(each, module.Request)), None)
    if request is None:
        return None
    calls = next((each for each in nearby if isinstance(each, asked("roamlet.remote.calls.engine").Calls)), None)
    return Wait(model.CALL, host=str(calls.name) if calls is not None else None, function=str(request.text))


def _sync(tasklet: Any, on: Any, nearby: Iterable[Any]) -> tuple[Wait, tuple[Any, ...]]:
    """A wait for something of roamlet.sync, or of what is built on it."""
    address, kinds = id(on), [each.__name__ for each in type(on).__mro__]
    for each in nearby:
        built = _built_on(each, on, address)
        if built is not None:
            return built
    if type(on) is core.Waiter:
        return Wait(model.WAKEUP, address=address), (on,)
    wait = Wait(next((_SYNC[name] for name in kinds if name in _SYNC), model.OTHER), class_name(on), address)
    if kinds[0] == "RLock":
        # Its owner comes first among what it refers to, before those that wait for it.
        owner = next((each for each in gc.get_referents(on) if isinstance(each, core.tasklet)), None)
        if owner is not None and owner is not tasklet:
            wait.owner = id(owner)
            return wait, (owner,)
    return wait, (on,)


def _built_on(each: Any, on: Any, address: int) -> tuple[Wait, tuple[Any, ...]] | None:
    """What the wait for `on` means if `each`, which a frame refers to, is what it was made for."""
    module, kind = type(each).__module__, type(each).__name__
    if isinstance(each, core.tasklet):
        outcome = getattr(each, "_outcome", None)
        if outcome is not None and outcome.ended is on:
            return Wait(model.JOIN, function=name_of(each), address=address), (each,)
    elif kind in _QUEUES and any(
        getattr(each, name, None) is on for name in ("not_empty", "not_full", "all_tasks_done")
    ):
        return Wait(model.QUEUE, class_name(each), id(each)), (each,)
    elif module == "roamlet.sync._scope" and kind == "scope" and each._idle is on:
        children = [*each._children.values(), *(spawned for spawned, _ in each._services.values())]
        return Wait(model.JOIN, function=f"{len(children)} tasklets of a scope", address=address), tuple(children)
    elif module == "roamlet.patch._joinable" and kind == "Handle" and each._ended is on:
        return Wait(model.JOIN, function=f"thread {each.ident:#x}", address=address), (on,)
    elif module == "roamlet.sync._barrier" and kind == "Barrier":
        return Wait(model.BARRIER, "sync.Barrier", id(each)), (each,)
    elif module == "roamlet.sync.futures" and getattr(each, "_condition", None) is on:
        return Wait(model.FUTURE, kind, id(each)), (each,)
    return None


def class_name(on: object) -> str:
    """The class of an object as its documentation has it."""
    kind = type(on)
    if kind is core.channel:
        return "channel"
    return f"{kind.__module__.removeprefix('roamlet.')}.{kind.__qualname__}"


def name_of(tasklet: "core.tasklet[...]") -> str:
    """The name of a tasklet's function, as the core's own repr has it; a subclass may have another one."""
    try:
        text = core.tasklet.__repr__(tasklet)
    except Exception:  # the function's own code, which is asked where it has no name
        return type(tasklet).__qualname__
    # <TYPE NAME, condition, at 0x...>
    return text.partition(" ")[2].rpartition(", at 0x")[0].rpartition(", ")[0] or type(tasklet).__qualname__


# ---- worker threads ----


def _jobs() -> Iterator[tuple[int, str]]:
    """The Waiter's id of each job that runs or waits for a worker thread, and what it calls."""
    module = asked("roamlet.io._workers.pool")
    if module is None:
        return
    for job in list(module.pool.jobs):
        if len(job) == 3:
            yield id(job[0]), f"{_function(job[1])}, which waits for a worker thread"
    for worker in list(module.pool.workers):
        if worker.waiter is not None:
            yield id(worker.waiter), f"a function on {worker.name}"


def _function(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


# ---- contexts ----


def _open_calls() -> list[Any]:
    module = asked("roamlet.remote.calls.engine")
    return list(module._open) if module is not None else []


def _in_flight() -> Iterator[tuple[str, object, str]]:
    """Each call in flight: its context's name, what gets the answer, and its function."""
    for calls in _open_calls():
        for entry, text in list(calls.link.in_flight.calls.values()):
            yield str(calls.name), entry, str(text)


def contexts(waiting: dict[int, int]) -> list[Context]:
    """The open contexts of this process. `waiting`: the id of a Waiter, and that of the tasklet that waits for it."""
    made = []
    for calls in sorted(_open_calls(), key=lambda each: str(each.name)):
        link, facts, shipping = calls.link, calls.facts, calls.shipping
        context = Context(
            name=str(calls.name),
            transport=type(link.transport).__name__.lower(),
            process=facts.pid,
            python=facts.version,
            via=str(calls.via.name) if calls.via is not None else None,
            state="closed" if calls.closed else "open",
            made=link.calls,
            bytes_down=link.sender.bytes_down,
            bytes_up=link.bytes_up,
            modules=shipping.modules,
            round_trips=shipping.round_trips,
        )
        context.calls = [
            Call(str(text), tasklet=waiting.get(id(entry))) for entry, text in list(link.in_flight.calls.values())
        ]
        made.append(context)
    return made


# ---- asyncio ----


def tasks(top: FrameType | None, stack: Callable[[FrameType | None], Stack]) -> tuple[Task, ...]:
    """The asyncio tasks of the loop that runs in a tasklet whose innermost frame is `top`; none without asyncio."""
    asyncio = asked("asyncio")
    if asyncio is None:
        return ()
    while top is not None:
        if top.f_code.co_name == "run_forever":
            # The frame of asyncio's own loop lasts as long as the loop's run: see around().
            loop = top.f_locals.get("self")
            if isinstance(loop, asyncio.AbstractEventLoop):
                return tuple(_task(task, stack) for task in asyncio.all_tasks(loop))
        top = top.f_back
    return ()


def _task(task: Any, stack: Callable[[FrameType | None], Stack]) -> Task:
    frames: list[Frame] = []
    coroutine = task.get_coro()
    # The coroutine says it: from 3.14 on asyncio keeps one current task a thread, which is that of the tasklet that runs.
    current = bool(getattr(coroutine, "cr_running", False) or getattr(coroutine, "gi_running", False))
    name = getattr(coroutine, "__qualname__", type(coroutine).__qualname__)
    while coroutine is not None and len(frames) < OUTWARDS * 4:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            frames[:0] = stack(frame)[:1]
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    awaits = getattr(task, "_fut_waiter", None)
    state = model.RUNNING if current else model.BLOCKED if awaits is not None else model.RUNNABLE
    return Task(task.get_name(), name, state, tuple(frames), _awaits(awaits))


def _awaits(future: Any) -> str | None:
    """What a task waits for: another task by its name, or the kind of future."""
    if future is None:
        return None
    return f"task {future.get_name()}" if hasattr(future, "get_name") else type(future).__qualname__
