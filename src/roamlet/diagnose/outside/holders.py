"""Who holds a lock that does not keep its owner: a tasklet in `with lock:` has the lock's __exit__ among the operands of its frame.

And cycles of tasklets each of which waits for what the next one holds.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from roamlet.diagnose import model
from roamlet.diagnose.outside.errors import Torn
from roamlet.diagnose.outside.python import Objects
from roamlet.diagnose.outside.system.memory import Memory
from roamlet.diagnose.render import place

MOST_TASKLETS = 20_000  # whose frames are looked at
MOST_OPERANDS = 1000  # of one frame
MOST_REFERENCES = 1 << 20  # to a bound method: more say that it has been freed
EXIT = "__exit__"


class Stacks(Protocol):
    """What is needed of the reader."""

    memory: Memory
    objects: Objects
    numbers: dict[str, int]
    at: dict[str, int]  # members of a tasklet

    def stack_with_frames(self, task: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        """The key and the places of the frames of a suspended tasklet."""


def find_holders(reader: Stacks, tasklets: Iterable[tuple[int, tuple[int, ...]]], locks: set[int]) -> dict[int, int]:
    """Which of these suspended tasklets holds each of these locks, by address; without those of which that is not seen."""
    holders, codes, on = dict[int, int](), dict[int, tuple[int, int]](), reader.at["waiting_on"]
    for t, task in tasklets:
        try:
            key, frames = reader.stack_with_frames(task)
            entered = [
                lock
                for frame, code in zip(frames, key[::2], strict=True)
                for lock in _exits(reader, frame, code, codes)
                if lock in locks
            ]
            if task[on] in entered:  # `with lock:` takes the __exit__ before it waits
                entered.remove(task[on])
            for lock in entered:
                holders.setdefault(lock, t)
        except Torn:  # a frame that is being made, say: nothing is missing but the holder
            continue
        if len(holders) == len(locks):
            break
    return holders


def _exits(reader: Stacks, frame: int, code: int, codes: dict[int, tuple[int, int]]) -> Iterator[int]:
    """The objects whose bound __exit__ is among the operands of a frame."""
    memory, numbers, objects = reader.memory, reader.numbers, reader.objects
    if code not in codes:
        sizes = (memory.signed(code + numbers[f"code.{name}"], 4) for name in ("locals", "stack_size"))
        first, count = (min(max(size, 0), MOST_OPERANDS) for size in sizes)
        codes[code] = first, count
    first, count = codes[code]
    for index in range(first, first + count):
        try:
            value = memory.word(frame + numbers["frame.locals"] + 8 * index)
            if value == 0 or value & 7 or objects.types.get(objects.type_of(value)) != "builtin":
                continue
            # What is above the top of the stack may be there from before: an object that was freed.
            if not 0 < memory.word(value + numbers["object.references"]) & 0xFFFFFFFF < MOST_REFERENCES:
                continue
            if memory.text(memory.word(memory.word(value + numbers["builtin.method"]))) == EXIT:
                yield memory.word(value + numbers["builtin.self"])
        except Torn:
            continue


def add_cycles(process: model.Process) -> None:
    """Put the cycles of tasklets that wait for each other's locks into `process`."""
    tasklets = {tasklet.id: tasklet for _, tasklet in process.tasklets()}
    following = {
        number: tasklet.wait.owner
        for number, tasklet in tasklets.items()
        if tasklet.wait is not None and tasklet.wait.owner in tasklets
    }
    seen = set[int]()
    for start in following:
        path, at = list[int](), start
        while at in following and at not in seen:
            seen.add(at)
            path.append(at)
            owner = following[at]
            assert owner is not None
            at = owner
        if at in path:
            process.cycles.append(_cycle([tasklets[number] for number in path[path.index(at) :]]))


def _cycle(tasklets: list[model.Tasklet]) -> model.Cycle:
    """Of tasklets each of which waits for a lock that the next one holds. Sure where no other code could release any of them."""
    steps, sure = [], True
    for tasklet, after in zip(tasklets, [*tasklets[1:], tasklets[0]], strict=True):
        assert tasklet.wait is not None
        sure = sure and tasklet.wait.due is None and tasklet.wait.on != "sync.Lock"  # which any tasklet may release
        where = place(tasklet.frames[0]) if tasklet.frames else ""
        steps.append(
            model.Step(tasklet.id, tasklet.name, f"{tasklet.wait.text}, which {after.name} holds", after.id, where)
        )
    return model.Cycle(steps, sure)
