"""What frames of suspended tasklets refer to of all that is waited for: the holder of a lock, joined tasklets, users of a channel.

A lock that does not keep its owner: a tasklet in `with lock:` has the lock's __exit__ among the operands of its frame, a bound
method until 3.13, from 3.14 on the one of the class and then the lock. The references to an object that are met are counted:
where they are as many as it has, no other code can reach it. From 3.14 on some slots borrow: those count as no reference.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Protocol

from roamlet.diagnose.outside.errors import Torn
from roamlet.diagnose.outside.python import Objects
from roamlet.diagnose.outside.system.memory import Memory

MOST_TASKLETS = 20_000  # whose frames are looked at
MOST_SLOTS = 2000  # of one frame
MOST_REFERENCES = 1 << 20  # to a bound method: more say that it has been freed
NEAR = 12  # frames, from the innermost one on, that may have what an Event was made for
EXIT = "__exit__"
METHODS = {"builtin": "builtin.method", "unbound": "unbound.method"}  # kinds of C methods: where their PyMethodDef is
FREE, CELL = 0x80, 0x40  # of co_localspluskinds
TAGS = 3  # of a slot from 3.14 on, where the table says that there are any: borrowed, or a small integer


class Walked(Protocol):
    """What is needed of the reader."""

    memory: Memory
    objects: Objects
    numbers: dict[str, int]
    at: dict[str, int]  # members of a tasklet

    def stack_of(self, t: int, task: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        """The key and the places of the frames of a tasklet that does not run."""


class Frames:
    """The slots of frames: variables and operands.

    Until 3.13 a frame does not say where its operands end: what is above their top may be there from before.
    """

    def __init__(self, reader: Walked) -> None:
        self._reader, self._memory = reader, reader.memory
        self._numbers, self._objects = reader.numbers, reader.objects
        self._codes: dict[int, tuple[struct.Struct, int, tuple[int, ...]]] = {}

    def slots(self, frame: int, code: int) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
        """The objects of a frame, how many of them are variables, and which of those are cells."""
        known = self._codes.get(code)
        if known is None:
            known = self._codes[code] = self._code(code)
        form, count, cells = known
        begin = frame + self._numbers["frame.locals"]
        found = form.unpack(self._memory.read(begin, form.size))
        if "frame.stack_pointer" in self._numbers:
            used = (self._memory.word(frame + self._numbers["frame.stack_pointer"]) - begin) // 8
            if not count <= used <= len(found):
                raise Torn(f"the frame at {frame:#x} has {used} slots")
            found = found[:used]
        return found, count, cells

    def _code(self, code: int) -> tuple[struct.Struct, int, tuple[int, ...]]:
        memory, numbers = self._memory, self._numbers
        sizes = (memory.signed(code + numbers[f"code.{name}"], 4) for name in ("locals", "stack_size"))
        count, operands = (min(max(size, 0), MOST_SLOTS) for size in sizes)
        kinds = memory.word(code + numbers["code.local_kinds"])
        data = memory.read(kinds + numbers["bytes.data"], count)
        cells = tuple(index for index, kind in enumerate(data) if kind & (FREE | CELL))
        return struct.Struct(f"<{count + operands}Q"), count, cells


class References:
    """What a look at frames has found of the objects that are waited for.

    `holders`: of locks in `with lock:`. `users`: the tasklets that refer to an object. `found`: how many references were met.
    """

    def __init__(self) -> None:
        self.holders: dict[int, int] = {}
        self.users: dict[int, list[int]] = {}
        self.found: Counter[int] = Counter()


class Look:
    """One look at the frames of tasklets for these objects."""

    def __init__(self, reader: Walked, wanted: set[int]) -> None:
        self._reader, self._memory, self._numbers = reader, reader.memory, reader.numbers
        self._objects = reader.objects
        self._frames = Frames(reader)
        self._wanted = wanted
        self.references: References = References()
        self.found: Counter[int] = self.references.found
        self._seen: set[int] = set()  # cells and bound methods: counted once
        self._named: dict[
            int, dict[int, int]
        ] = {}  # of a module's dictionary: what is wanted, by the address of its name
        self._by_name: dict[
            tuple[int, int], list[int]
        ] = {}  # what is wanted that a code reaches in a module's dictionary

    def look(self, tasklets: Iterable[tuple[int, tuple[int, ...]]]) -> None:
        """Look at the frames of these suspended tasklets. A frame that cannot be read is left out."""
        at = self._reader.at
        for t, task in tasklets:
            try:
                key, frames = self._reader.stack_of(t, task)
                used, entered = set[int](), list[int]()
                self._function(task[at["function"]], used)
                for frame, code in zip(frames, key[::2], strict=True):
                    self._frame(frame, code, used, entered)
            except (Torn, struct.error):  # a frame that is being made, say: nothing is missing but what it refers to
                continue
            if task[at["waiting_on"]] in entered:  # `with lock:` takes the __exit__ before it waits
                entered.remove(task[at["waiting_on"]])
            for lock in entered:
                self.references.holders.setdefault(lock, t)
            for each in used:
                self.references.users.setdefault(each, []).append(t)

    def _frame(self, frame: int, code: int, used: set[int], entered: list[int]) -> None:
        slots, variables, cells = self._frames.slots(frame, code)
        wanted, found, tagged = self._wanted, self.found, self._numbers["frame.code_tags"]
        for value in slots:
            if tagged and value & TAGS:  # borrowed: the object counts no reference for it
                if value & TAGS != TAGS and value & ~TAGS in wanted:
                    used.add(value & ~TAGS)
            elif value in wanted:
                used.add(value)
                found[value] += 1
        for index in cells:
            self._cell(slots[index], used)
        tags = TAGS if tagged else 0
        for value, after in pairwise((*slots[variables:], 0)):
            self._method(value & ~tags, after & ~tags, used, entered)
        self._globals(frame, code, used)

    def _cell(self, cell: int, used: set[int]) -> None:
        if cell == 0 or cell & 7 or self._objects.types.get(self._objects.type_of(cell)) != "cell":
            return
        value = self._memory.word(cell + self._numbers["object.size"])  # it has no size: its one member is there
        if value in self._wanted:
            used.add(value)
            if cell not in self._seen:
                self._seen.add(cell)
                self.found[value] += 1

    def _method(self, value: int, after: int, used: set[int], entered: list[int]) -> None:
        """A method among the operands: that of a call, or the __exit__ of a `with`. `after`: the next operand."""
        memory, numbers, objects = self._memory, self._numbers, self._objects
        if value == 0 or value & 7:
            return
        try:
            kind = objects.types.get(objects.type_of(value))
            if kind not in METHODS:
                return
            # What is above the top of the stack may be there from before: an object that was freed.
            if not 0 < memory.word(value + numbers["object.references"]) & 0xFFFFFFFF < MOST_REFERENCES:
                return
            of = memory.word(value + numbers["builtin.self"]) if kind == "builtin" else after
            if of not in self._wanted:
                return
            if kind == "builtin":
                self._function(value, used)
            if memory.text(memory.word(memory.word(value + numbers[METHODS[kind]]))) == EXIT:
                entered.append(of)
        except Torn:
            return

    def _function(self, function: int, used: set[int]) -> None:
        """What a tasklet calls, where that is a method of what is waited for."""
        if function == 0 or self._objects.types.get(self._objects.type_of(function)) != "builtin":
            return
        of = self._memory.word(function + self._numbers["builtin.self"])
        if of in self._wanted:
            used.add(of)
            if function not in self._seen:
                self._seen.add(function)
                self.found[of] += 1

    def _globals(self, frame: int, code: int, used: set[int]) -> None:
        """What the code of a frame reaches by names of its module: those are compared by address, since names are interned."""
        space = self._memory.word(frame + self._numbers["frame.globals"])
        reached = self._by_name.get((code, space))
        if reached is None:
            if space not in self._named:
                self._named[space] = {
                    key: each for key, each in self._objects.dict_items(space) if each in self._wanted
                }
                self.found.update(self._named[space].values())
            named = self._named[space]
            # A module's own code has the names of all that it makes.
            if named and self._objects.string(self._memory.word(code + self._numbers["code.qualname"])) == "<module>":
                named = {}
            names = self._objects.tuple_words(self._memory.word(code + self._numbers["code.names"])) if named else ()
            reached = self._by_name[code, space] = [named[name] for name in names if name in named]
        used.update(reached)


def variables(reader: Walked, t: int, task: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The objects that variables of the innermost frames of a suspended tasklet have, and the type of each."""
    frames, objects = Frames(reader), reader.objects
    key, places = reader.stack_of(t, task)
    tags = TAGS if reader.numbers["frame.code_tags"] else 0
    for frame, code in list(zip(places, key[::2], strict=True))[:NEAR]:
        try:
            slots, count, _ = frames.slots(frame, code)
        except (Torn, struct.error):
            continue
        for value in (slot & ~tags for slot in slots[:count]):
            if value == 0 or value & 7:
                continue
            try:
                type_ = objects.type_of(value)
                objects.slots(type_)
            except Torn:  # a variable without a value, or one that is being changed
                continue
            yield value, type_


def made_for(reader: Walked, t: int, task: tuple[int, ...], slot: str, waited: int) -> Iterator[int]:
    """The objects that the innermost frames of a tasklet refer to, and that have in this slot what it waits for."""
    for value, type_ in variables(reader, t, task):
        try:
            if reader.objects.slot(value, type_, slot) == waited:
                yield value
        except Torn:
            continue
