"""asyncio's tasks, read from memory: those of each event loop, where their coroutines wait, and what for.

The struct of a task is asyncio's own, and has no public description. So a task is told by its contents: its coroutine, after which
it has its name, and before which the future that it waits for. What does not look like that is counted and left out.
"""

import struct
from typing import Protocol

from roamlet.diagnose import model
from roamlet.diagnose.outside.contexts import published
from roamlet.diagnose.outside.errors import DAMAGED, Torn
from roamlet.diagnose.outside.python import Objects
from roamlet.diagnose.outside.system.memory import Memory

MOST = 100_000  # tasks
MOST_FRAMES = 48  # of a chain of coroutines, as from inside
LARGEST = 1 << 12  # bytes of the struct of a task
LOOP = 16  # where a task has its loop: after the head of every object


class Walked(Protocol):
    """What is needed of the reader."""

    memory: Memory
    objects: Objects
    numbers: dict[str, int]
    addresses: dict[str, int]
    frame: struct.Struct

    def states_of_threads(self) -> list[int]:
        """The addresses of thread states."""


class Tasks:
    """`found`: those of each loop, by its address. `unread`: how many do not look like tasks."""

    def __init__(self) -> None:
        self.found: dict[int, list[model.Task]] = {}
        self.unread = 0


def read_tasks(reader: Walked) -> Tasks:
    """All of the process. Raises Torn where a list contradicts itself."""
    made, objects = Tasks(), reader.objects
    class_ = published(reader, "asyncio.Task")
    if class_ == 0 or "coroutine.frame" not in reader.numbers:
        return made
    several = dict.fromkeys(_listed(reader, class_))
    scheduled, eager = published(reader, "asyncio tasks"), published(reader, "asyncio eager tasks")
    several.update(dict.fromkeys(objects.referred_to(scheduled) if scheduled else ()))
    several.update(dict.fromkeys(objects.set_words(eager) if eager else ()))
    for at in list(several)[:MOST]:
        try:
            found = _task(reader, at) if objects.is_a(objects.type_of(at), class_) else None
        except DAMAGED:
            made.unread += 1
            continue
        if found is not None:
            made.found.setdefault(found[0], []).append(found[1])
    for tasks in made.found.values():
        tasks.sort(key=lambda task: (len(task.name), task.name))
    made.unread += max(len(several) - MOST, 0)
    return made


def _listed(reader: Walked, class_: int) -> list[int]:
    """From 3.14 on: the tasks in the lists of threads. What is in the list is a part of the task: its beginning is before it."""
    if "tstate.tasks" not in reader.numbers:
        return []
    memory, found, offset = reader.memory, list[int](), -1
    size = _size(reader, class_)
    for tstate in reader.states_of_threads():
        head = tstate + reader.numbers["tstate.tasks"]
        at = memory.word(head)
        for _ in range(MOST):
            if at in (0, head):
                break
            if offset < 0:
                offset = _offset(reader, at, class_, size)
            found.append(at - offset)
            at = memory.word(at)
        else:
            raise Torn("the list of asyncio's tasks has a loop")
    return found


def _offset(reader: Walked, node: int, class_: int, size: int) -> int:
    for offset in range(0, size, 8):
        try:
            if reader.objects.is_a(reader.objects.type_of(node - offset), class_):
                return offset
        except Torn:
            continue
    raise Torn(f"no task at {node:#x}")


def _size(reader: Walked, class_: int) -> int:
    size = reader.memory.word(class_ + reader.numbers["type.basicsize"])
    if not LOOP < size < LARGEST:
        raise Torn(f"a task of {size} bytes")
    return size


def _parts(reader: Walked, at: int) -> tuple[int, int, int, str]:
    """Of a task: its loop, the future that it waits for or 0, its coroutine, its name. Raises Torn for any other object."""
    objects = reader.objects
    size = _size(reader, objects.type_of(at))
    words = struct.unpack(f"<{size // 8}Q", reader.memory.read(at, size // 8 * 8))
    for index in range(LOOP // 8 + 2, len(words) - 1):
        waiter, coroutine, name = words[index - 1 : index + 2]
        if not coroutine or coroutine & 7 or not name or name & 7 or not _is_coroutine(objects, coroutine):
            continue
        kind = objects.kind(objects.type_of(name))
        if kind in ("str", "int"):  # a number until the name is asked for
            text = objects.string(name) if kind == "str" else f"Task-{objects.number(name)}"
            return words[LOOP // 8], waiter, coroutine, text
    raise Torn(f"no task at {at:#x}")


def _task(reader: Walked, at: int) -> tuple[int, model.Task] | None:
    """The loop of a task, and what it does; None for one that is done. Raises Torn for what does not look like a task."""
    loop, waiter, coroutine, name = _parts(reader, at)
    frames, state = _frames(reader, coroutine)
    if state >= reader.numbers["coroutine.completed"]:
        return None
    doing = model.RUNNABLE if waiter == 0 else model.BLOCKED
    if state == reader.numbers["coroutine.executing"]:
        doing = model.RUNNING
    return loop, model.Task(name, frames[-1].function, doing, tuple(frames), _awaits(reader, waiter))


def _is_coroutine(objects: Objects, at: int) -> bool:
    try:
        return objects.types.get(objects.type_of(at)) in ("coroutine", "generator")
    except Torn:
        return False


def _frames(reader: Walked, coroutine: int) -> tuple[list[model.Frame], int]:
    """Where the coroutines are that await each other, the innermost first; and the state of the outermost."""
    memory, objects, numbers = reader.memory, reader.objects, reader.numbers
    frames, first = list[model.Frame](), None
    while len(frames) < MOST_FRAMES and objects.types.get(objects.type_of(coroutine)) in ("coroutine", "generator"):
        state = memory.signed(coroutine + numbers["coroutine.state"], 1)
        first = state if first is None else first
        if state >= numbers["coroutine.completed"]:
            break
        frame = coroutine + numbers["coroutine.frame"]
        code, _, instruction, _ = reader.frame.unpack(memory.read(frame, reader.frame.size))
        code &= ~numbers["frame.code_tags"]
        where = objects.place(code, instruction) or objects.beginning(code)
        frames.insert(0, model.Frame(*where))
        if state >= numbers["coroutine.executing"]:
            break
        slots = frame + numbers["frame.locals"]
        if "frame.stack_pointer" in numbers:
            top = memory.word(frame + numbers["frame.stack_pointer"])
        else:
            top = slots + 8 * memory.signed(frame + numbers["frame.stack_top"], 4)
        awaited = top - 8 * numbers.get("coroutine.awaited", 1)
        if awaited < slots:
            break
        coroutine = memory.word(awaited) & ~numbers["frame.code_tags"]
        if coroutine == 0 or coroutine & 7:
            break
    return frames, numbers["coroutine.completed"] if first is None else first


def _awaits(reader: Walked, future: int) -> str | None:
    """What a task waits for: another task by its name, or the kind of future."""
    if future == 0:
        return None
    objects = reader.objects
    type_ = objects.type_of(future)
    if objects.is_a(type_, published(reader, "asyncio.Task")):
        return f"task {_parts(reader, future)[3]}"
    return objects.type_name(type_).rpartition(".")[2]
