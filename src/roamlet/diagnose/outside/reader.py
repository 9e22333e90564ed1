"""Walks schedulers, tasklets and frames by the numbers of the core's table.

walk() reads what changes while the process runs, and must see all of it at one moment. What it finds is checked as far as it can
be: a contradiction raises Torn. What it means is said in describing.py.
"""

import struct
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

from roamlet.diagnose.outside.contexts import Contexts, being_made, read_contexts
from roamlet.diagnose.outside.errors import DAMAGED, CannotRead, Problems, Torn
from roamlet.diagnose.outside.python import MANY, Objects
from roamlet.diagnose.outside.referring import MOST_TASKLETS, Look, References, made_for
from roamlet.diagnose.outside.shapes import Key, Part, Shapes, Suspended, differing
from roamlet.diagnose.outside.system.columns import MOST, ROWS, Links, Members, Rows
from roamlet.diagnose.outside.system.memory import Memory
from roamlet.diagnose.outside.table import Table
from roamlet.diagnose.outside.tasks import Tasks, read_tasks

MOST_THREADS = 100_000
MOST_FRAMES = 200_000  # of one stack
SUSPICIOUS = 500  # frames, from which on loops are looked for
MOST_CASES = 10_000  # channels of a select
MOST_SCOPES = 1000
COMPARED = 4096  # stacks, at a time: what was read of them stays in the processor's cache
SHAPES_OF_A_PLACE = 50  # that stacks which begin at the same place are compared with

STARTED, NEW = 2, 1  # a tasklet's state
RECEIVES, SENDS, WAITS, RUNS, QUEUES = -1, 1, 2, 3, 4  # what it is blocked in

# The tasklet that has opened the scope that one was spawned in, the name of its innermost scope, the address of the former.
Parent = tuple[int | None, str | None, int]
UNKNOWN: Parent = None, None, 0


class Thread:
    """What walk() reads of one scheduler and its thread."""

    def __init__(self, address: int, fields: dict[str, int]) -> None:
        self.address = address
        self.fields = fields
        self.tasks: Rows = Rows([], [])  # the newest started first, then those not yet run, then main
        self.started = 0  # how many of them are in the list of started ones
        self.ring: dict[int, None] = {}  # the run queue, in its order
        self.keys: list[Key] = []  # the stack of each; () for one that has none, or whose stack is not known
        self.frames: dict[int, list[int]] = {}  # where each frame is, for local variables
        self.timers: dict[int, int] = {}  # when, by tasklet

    def in_order(self) -> list[int]:
        """The rows of the tasklets: main first, then the oldest started first, then those not yet run."""
        count = len(self.tasks)
        first = [count - 1] if count and self.tasks.ids[-1] == self.fields["main"] else []
        return [*first, *range(self.started - 1, -1, -1), *range(self.started, count - len(first))]


class State:
    """What walk() reads of a thread state: Python's own idea of a thread."""

    def __init__(self, thread_id: int, native_id: int, gil: bool | None, key: Key, frames: list[int]) -> None:
        self.thread_id: int = thread_id
        self.native_id: int = native_id
        self.gil: bool | None = gil
        self.key: Key = key
        self.frames: list[int] = frames


class Reader:
    """Reads one process.

    What cannot be read goes to `problems` where those are lenient; otherwise one of DAMAGED is raised.
    """

    def __init__(self, memory: Memory, table: Table, *, with_locals: bool = False) -> None:
        self.memory: Memory = memory
        self.table: Table = table
        self.numbers: dict[str, int] = table.numbers
        self.addresses: dict[str, int] = table.addresses
        self.objects: Objects = Objects(memory, table)
        self.with_locals = with_locals
        self.problems: Problems = Problems()
        # Tasklets that neither wait nor are in the run queue, with their threads: paused, or just being woken.
        self.adrift: dict[int, int] = {}
        self.switching: bool = False  # a thread is in the middle of a switch: one of its tasklets cannot be told
        self.threads: list[Thread] = []
        self.states: dict[int, State] = {}  # by the address of the thread state
        self.waits: dict[int, dict[str, Any]] = {}  # by the address of what is waited for
        self.waiting: dict[int, int] = {}  # how many tasklets wait there
        self.parents: dict[int, Parent] = {}
        self.contexts: Contexts = Contexts()
        self.tasks: Tasks = Tasks()  # asyncio's
        self.loops: dict[int, int] = {}  # the event loop that runs in a tasklet
        self._current: dict[int, tuple[Key, list[int]]] = {}  # the stacks of tasklets whose threads sleep on them
        self.called: dict[int, tuple[str | None, str]] = {}  # host and function of calls, by the tasklet that waits
        self.references: References | None = None  # what the frames refer to of what is waited for; None: not looked at
        try:
            self._prepare()
        except KeyError as error:
            raise CannotRead(f"its roamlet does not say where {error.args[0]!r} is, which this version needs: use `roamlet ps` of"
                             " the version that it runs") from None  # fmt: skip

    def _prepare(self) -> None:
        names = (
            *("next", "scheduler", "waiting_on", "queue", "function", "timer", "started_next", "blocked", "state"),
            *("preempted", "atomic"),
        )
        optional = ("since", "scope", "sp", "base", "buffer", "length", "cframe", "frame", "chunk")
        formats = {
            "since": "q",
            "timer": "i",
            "blocked": "b",
            "state": "B",
            "preempted": "B",
            "atomic": "i",
            "length": "I",
        }
        known = [name for name in (*names, *optional) if f"task.{name}" in self.numbers]
        self._task = Members([(name, self.numbers[f"task.{name}"], formats.get(name, "Q")) for name in known])
        self.at: dict[str, int] = {name: number for number, name in enumerate(known)}
        timer = [("when", self.numbers["timer.when"], "q"), ("task", self.numbers["timer.task"], "Q")]
        self._timer = Members(timer, self.numbers["timer.size"])
        links, order = self._struct("task", {"scheduler": "Q", "started_next": "Q"})
        self._started = Links(links, order.index("scheduler"), order.index("started_next"))
        self.sees_frames: bool = "frame.entry_owner" in self.numbers
        self.sees_suspended: bool = self.sees_frames and ("cframe" in self.at or "frame" in self.at)
        if self.sees_frames:
            self.frame: struct.Struct
            self.frame, order = self._struct("frame", {"code": "Q", "previous": "Q", "instr": "Q", "owner": "B"})
            self.frame_members: list[int] = [self.numbers[f"frame.{name}"] for name in order]
            if order != ["code", "previous", "instr", "owner"]:
                raise CannotRead(f"frames of Python {self.table.version} have a form that this version does not know")
        for name in (
            *(f"task.{name}" for name in names),
            "object.type",
            "str.width_bit",
            "scheduler.started",
            "tstate.next",
            "code.lines",
            "timer.size",
        ):
            self.numbers[name]
        for name in ("schedulers", "type.code", "type.str", "type.bytes"):
            self.addresses[name]

    def _struct(self, kind: str, formats: dict[str, str]) -> tuple[struct.Struct, list[str]]:
        """The struct that reads these members of one object, and their order in it."""
        members = sorted((self.numbers[f"{kind}.{name}"], name, form) for name, form in formats.items())
        text, end = "<", 0
        for offset, _, form in members:
            if not end <= offset < 65_000:
                raise CannotRead("its roamlet describes itself with numbers that cannot be")
            text += f"{offset - end}x{form}"
            end = offset + struct.calcsize(f"<{form}")
        return struct.Struct(text), [name for _, name, _ in members]

    # ---- the walk ----

    def walk(self) -> None:
        """Read all that changes. Raises Torn where it contradicts itself."""
        self.switching = False
        self.adrift = {}
        self.problems.clear()
        self.objects.forget()
        self.threads, self.states, self.waits, self.waiting, self.parents = [], {}, {}, {}, {}
        self.references = None
        self.contexts = Contexts()
        self.called = {}
        self.tasks = Tasks()
        self.loops = {}
        self._current = {}
        memory, numbers, trying = self.memory, self.numbers, self.problems.trying
        at, seen = memory.word(self.addresses["schedulers"]), set[int]()
        first_state = 0
        while at:
            if at in seen or len(seen) > MOST_THREADS:
                raise Torn("the list of threads has a loop")
            seen.add(at)
            thread = Thread(at, self.scheduler(at))
            at = memory.word(at + numbers["scheduler.next"])
            if thread.fields["tstate"] == 0:
                continue
            first_state = first_state or thread.fields["tstate"]
            self.threads.append(thread)
            trying(f"the tasklets of a thread at {thread.address:#x}", None, self._tasks, thread)
        if first_state:
            trying("the list of all threads", None, self._thread_states, first_state)
        for thread in self.threads:
            trying(f"stacks of a thread at {thread.address:#x}", None, self._stacks, thread)
            trying(f"the timers of a thread at {thread.address:#x}", None, self._timers, thread)
            self._what_is_waited_for(thread)
        trying("the contexts", None, self._contexts)
        trying("asyncio's tasks", None, self._tasks_of_loops)
        trying("which tasklets are joined", None, self._joined)
        trying("what tasklets refer to", None, self._refer)

    def scheduler(self, at: int) -> dict[str, int]:
        """The numbers of one scheduler, by name; "switches" and "messages" where the table has how they are counted."""
        word, number = self.memory.word, self.numbers
        fields = {
            name: word(at + number[f"scheduler.{name}"])
            for name in ("tstate", "current", "main", "first", "started", "timers")
        }
        fields["pid"] = self.memory.signed(at + number["scheduler.pid"], 4)
        fields["timer_count"] = self.memory.signed(at + number["scheduler.timer_count"], 4)
        fields["idle"] = self.memory.read(at + number["scheduler.idle"], 1)[0]
        fields["service"] = self.memory.read(at + number["scheduler.service"], 1)[0]
        fields["last_tick"] = self.memory.signed(at + number["scheduler.last_tick"], 8)
        if "scheduler.messages" in number:  # an older roamlet does not say how to count
            fields["messages"] = self.memory.signed(at + number["scheduler.messages"], 8)
            given, left = (self.memory.signed(at + number[f"scheduler.ticks{name}"], 4) for name in ("_given", ""))
            fields["switches"] = self.memory.signed(at + number["scheduler.ticks_before"], 8) + given - left
        return fields

    def _tasks(self, thread: Thread) -> None:
        ids = list[int]()
        try:
            self._listed(thread, ids)
        except DAMAGED:
            if self.problems.lenient:
                self._take(thread, list(dict.fromkeys(ids)))
            raise
        self._take(thread, ids)

    def _take(self, thread: Thread, ids: list[int]) -> None:
        columns = self._task.read(self.memory, ids)
        count = len(columns[0])
        thread.tasks = Rows(ids[:count], columns)
        thread.keys = [()] * count
        if count < len(ids):
            raise Torn(f"nothing is mapped at {ids[count]:#x}")

    def _listed(self, thread: Thread, ids: list[int]) -> None:
        """Add the tasklets of a thread, each once, unless something is raised."""
        memory, address, fields, main = self.memory, thread.address, thread.fields, thread.fields["main"]
        self._started.follow(memory, fields["started"], address, ids, "the tasklets of a thread")
        thread.started = len(ids)
        try:
            self._queued(thread)
        finally:
            known = set(ids) if thread.ring.keys() - {main} else set[int]()
            ids += [t for t in thread.ring if t != main and t not in known]
        if main:
            if memory.word(main + self.numbers["task.scheduler"]) != address:
                raise Torn(f"the main tasklet at {main:#x} is of another thread")
            if main in ids:
                ids.remove(main)
            ids.append(main)

    def _queued(self, thread: Thread) -> None:
        """Go through the run queue. Those that have not run yet are only there."""
        memory, fields, ring = self.memory, thread.fields, thread.ring
        start = t = fields["first"] if fields["idle"] else fields["current"]
        after, scheduler = self.numbers["task.next"], self.numbers["task.scheduler"]
        while t:
            if memory.word(t + scheduler) != thread.address:
                raise Torn(f"the tasklet at {t:#x} in the run queue is of another thread")
            ring[t] = None
            if len(ring) > MOST:
                raise CannotRead(f"the run queue has more than {MOST:,} tasklets: it is damaged")
            t = memory.word(t + after)
            if t in ring and t != start:
                raise Torn("the run queue has a loop")
            if t == start:
                break
            if t == 0 and (not fields["idle"] or len(ring) > 1):
                # One that blocks has left the ring already, and the next one does not run yet.
                self.switching = True

    # ---- frames ----

    def _running(self, tstate: int) -> tuple[Key, list[int]]:
        """The stack of a thread state."""
        word, numbers = self.memory.word, self.numbers
        if not self.sees_frames:
            return (), []
        if "tstate.cframe" in numbers:
            cframe = word(tstate + numbers["tstate.cframe"])
            frame = word(cframe + numbers["cframe.frame"]) if cframe else 0
        else:
            frame = word(tstate + numbers["tstate.frame"])
        return self.chain(frame, 0, 0, 0)

    def chain(self, frame: int, low: int, high: int, there: int) -> tuple[Key, list[int]]:
        """A chain of frames. What is within [low, high) is read at another place, `there` further."""
        memory = self.memory
        blocks, shift, mask, read = memory.blocks, memory.shift, memory.mask, memory.read
        unpack, size, entry = self.frame.unpack_from, self.frame.size, self.numbers["frame.entry_owner"]
        last, key, frames, tags = memory.size - size, list[int](), list[int](), ~self.numbers["frame.code_tags"]
        entries = 0  # of C code into the interpreter, which are no frames of the program
        while frame:
            place = frame + there if low <= frame < high else frame
            at, block = place & mask, blocks.get(place >> shift)
            if block is None or at > last:
                code, previous, instr, owner = unpack(read(place, size))
            else:
                code, previous, instr, owner = unpack(block, at)
            if owner < entry:
                key.append(code & tags)
                key.append(instr)
                frames.append(place)
                if len(frames) > SUSPICIOUS:
                    self._no_loop(frames, frame)
            else:
                entries += 1
                if owner > entry + 8 or entries > MOST_FRAMES:
                    raise Torn(f"no frame at {frame:#x}")
            frame = previous
        return tuple(key), frames

    def _no_loop(self, frames: list[int], frame: int) -> None:
        count = len(frames)
        if count > MOST_FRAMES or (count & (count - 1) == 0 and len(set(frames)) < count):
            raise Torn(f"the frames at {frame:#x} have a loop")

    def _stacks(self, thread: Thread) -> None:
        if self.sees_suspended and len(thread.tasks):
            selected = [state == STARTED for state in thread.tasks.columns[self.at["state"]]]
            current = thread.tasks.where(thread.fields["current"])
            if current is not None:
                selected[current] = False
            if self.with_locals:
                self._stacks_with_frames(thread, selected)
            else:
                self._stacks_by_shape(thread, selected)
        self._current_stack(thread)

    def _begin(self, task: tuple[int, ...]) -> tuple[int, int, int, int]:
        """The innermost frame of a suspended tasklet; what is within [low, high) is read `there` further."""
        at, low, high, there = self.at, 0, 0, 0
        if "length" in at and task[at["length"]]:
            low, high, there = task[at["sp"]], task[at["base"]], task[at["buffer"]] - task[at["sp"]]
        if "cframe" not in at:
            return task[at["frame"]], low, high, there
        cframe = task[at["cframe"]]
        if cframe == 0:
            return 0, low, high, there
        place = cframe + there if low <= cframe < high else cframe
        return self.memory.word(place + self.numbers["cframe.frame"]), low, high, there

    def _stacks_with_frames(self, thread: Thread, selected: list[bool]) -> None:
        nothing: tuple[Key, list[int]] = (), []
        for row, (t, task) in compress(enumerate(thread.tasks.items()), selected):
            thread.keys[row], thread.frames[t] = self.problems.trying(
                f"the stack of the tasklet at {t:#x}", nothing, self.stack_with_frames, task
            )

    def _stacks_by_shape(self, thread: Thread, selected: list[bool]) -> None:
        shapes = Shapes(self.memory, self.chain, self.frame, self.frame_members)
        suspended = self._suspended(thread, selected)
        for alike in suspended.by_innermost():
            left, parts = alike[::-1], None
            for _ in range(SHAPES_OF_A_PLACE):  # the first is learnt, and others compared with it
                if not left:
                    break
                key, parts = self._learn(shapes, thread, suspended, left.pop())
                if left and parts:
                    left = self._compare(thread, suspended, key, parts, left)
            for each in left:
                self._learn(shapes, thread, suspended, each)

    def _suspended(self, thread: Thread, selected: list[bool]) -> Suspended:
        at, columns = self.at, thread.tasks.columns

        count = len(selected) if all(selected) else selected.index(False)
        few = any(selected[count:])  # mostly it is main alone, the last one, that is not

        def column(name: str) -> Sequence[int]:
            found = columns[at[name]]
            return list(compress(found, selected)) if few else found[:count]

        rows = list(compress(range(len(selected)), selected))
        begins, chunks = column("cframe" if "cframe" in at else "frame"), column("chunk")
        saved = None
        if "length" in at:
            saved = [column(name) for name in ("length", "sp", "base", "buffer")]
            if not any(saved[0]):
                saved = None
        if "cframe" in at:
            of_frame = self.numbers["cframe.frame"]
            if saved is None:
                places = [begin + of_frame for begin in begins]
            else:
                places = [
                    begin + of_frame + (buffer - sp if length and sp <= begin < base else 0)
                    for begin, length, sp, base, buffer in zip(begins, *saved, strict=True)
                ]
            begins = self._words_at(places)
        return Suspended(rows, begins, chunks, saved)

    def _words_at(self, places: list[int]) -> list[int]:
        """Where stacks begin; 0 for one that cannot be read, where that is allowed."""
        memory, trying = self.memory, self.problems.trying
        found = trying("where stacks begin", None, memory.words, places)
        return found or [trying(f"the stack of a tasklet at {at:#x}", 0, memory.word, at) for at in places]

    def _learn(
        self, shapes: Shapes, thread: Thread, suspended: Suspended, number: int
    ) -> tuple[Key, tuple[Part, ...] | None]:
        row = suspended.rows[number]
        try:
            key, parts = shapes.learn(*suspended.found(number))
        except DAMAGED as error:
            if not self.problems.lenient:
                raise
            self.problems.note(f"the stack of the tasklet at {thread.tasks.ids[row]:#x}", error)
            return (), None
        thread.keys[row] = key
        return key, parts

    def _compare(
        self, thread: Thread, suspended: Suspended, key: Key, parts: tuple[Part, ...], left: list[int]
    ) -> list[int]:
        """Give those of a shape its key; the others are returned."""
        other = list[int]()
        for first in range(0, len(left), COMPARED):
            some = left[first : first + COMPARED]
            wrong = self._differing(suspended, parts, some)
            if wrong:
                other += [some[number] for number in sorted(wrong)]
        different, keys, rows = set(other), thread.keys, suspended.rows
        for number in left:
            if number not in different:
                keys[rows[number]] = key
        return other

    def _differing(self, suspended: Suspended, parts: tuple[Part, ...], some: list[int]) -> set[int]:
        """Which of some suspended tasklets, by their places in `some`, do not have a stack of these parts."""
        wrong, chunks = set[int](), [suspended.chunks[number] for number in some]
        for part in parts:
            offset = part.offset
            bases = [suspended.there(number) for number in some] if part.inside else chunks
            data, missing = self.memory.pieces_at([offset + base for base in bases], part.size)
            wrong.update(missing)
            if len(wrong) < len(some):
                wrong |= differing(part, data, chunks)
        return wrong

    def _current_stack(self, thread: Thread) -> None:
        fields, current = thread.fields, thread.fields["current"]
        row = thread.tasks.where(current)
        if row is None:
            if current:
                self.switching = True
            return
        task = thread.tasks.row(row)
        if task[self.at["state"]] != STARTED:
            self.switching = True  # it is about to run for the first time
            return
        if task[self.at["blocked"]] and not fields["idle"]:
            self.switching = True  # it has begun to wait, and the next one does not run yet
        if "chunk" in self.at and not self._own_chunk(fields["tstate"], task[self.at["chunk"]]):
            self.switching = True  # the thread state is still another tasklet's
            return
        of_thread = self.states.get(fields["tstate"])
        if of_thread is not None:
            if not of_thread.key and current != fields["main"] and not fields["idle"] and self.sees_frames:
                self.switching = True  # it begins or ends just now
            thread.keys[row] = of_thread.key
            thread.frames[current] = of_thread.frames
            self._current[current] = of_thread.key, of_thread.frames

    def _own_chunk(self, tstate: int, wanted: int) -> bool:
        """Whether the thread's frames begin in this chunk; where that is not known, too."""
        word, numbers = self.memory.word, self.numbers
        chunk = root = word(tstate + numbers["tstate.chunk"])
        for _ in range(MOST_FRAMES):
            if chunk == 0 or wanted == 0:
                return wanted in (0, root)
            root, chunk = chunk, word(chunk + numbers["chunk.previous"])
        raise Torn("the chunks of a thread have a loop")

    def _thread_states(self, first: int) -> None:
        """Those of all threads: a list that is gone along in both directions from any one of them."""
        word, numbers = self.memory.word, self.numbers
        for direction in ("next", "previous"):
            at = first if direction == "next" else word(first + numbers["tstate.previous"])
            while at:
                if at in self.states or len(self.states) > MOST_THREADS:
                    raise Torn("the list of thread states has a loop")
                self.states[at] = self.thread_state(at)
                at = word(at + numbers[f"tstate.{direction}"])

    def thread_state(self, at: int) -> State:
        word, numbers = self.memory.word, self.numbers
        gil = None
        if "tstate.gil" in numbers:
            gil = (word(at + numbers["tstate.gil"]) & numbers["tstate.gil_mask"]) == numbers["tstate.gil_value"]
        elif "gil_holder" in self.addresses:
            gil = word(self.addresses["gil_holder"]) == at
        none: tuple[Key, list[int]] = (), []
        key, frames = self.problems.trying(f"the stack of the thread state at {at:#x}", none, self._running, at)
        native_id = self.memory.source.thread(word(at + numbers["tstate.native_id"]))
        return State(word(at + numbers["tstate.thread_id"]), native_id, gil, key, frames)

    # ---- waits ----

    def _timers(self, thread: Thread) -> None:
        heap, count, size = thread.fields["timers"], thread.fields["timer_count"], self.numbers["timer.size"]
        if not 0 <= count * size < 1 << 30:
            raise Torn(f"{count} timers")
        for first in range(0, count, ROWS):
            data = self.memory.read(heap + first * size, min(count - first, ROWS) * size)
            whens, tasklets = self._timer.columns(data)
            thread.timers.update(zip(tasklets, whens, strict=True))

    def _what_is_waited_for(self, thread: Thread) -> None:
        waits, trying, at, columns = self.waits, self.problems.trying, self.at, thread.tasks.columns
        if not len(thread.tasks):
            return
        blocked, current = columns[at["blocked"]], thread.fields["current"]
        counts = Counter(compress(columns[at["waiting_on"]], blocked))
        types = self._types([on for on in counts if on and on not in waits])
        for on, count in counts.items():
            self.waiting[on] = self.waiting.get(on, 0) + count
            if on and on not in waits:
                nothing: dict[str, Any] = {"kind": "", "type": 0}
                waits[on] = trying(f"what is waited for at {on:#x}", nothing, self._object, on, types.get(on))
        of_thread = self.states.get(thread.fields["tstate"])
        native_id = of_thread.native_id if of_thread is not None else 0
        state = columns[at["state"]]
        for row in [row for row, blocks in enumerate(blocked) if not blocks]:
            t = thread.tasks.ids[row]
            if t not in thread.ring and state[row] == STARTED and t != current:
                self.adrift[t] = native_id
        if "scope" in at:
            self._scopes(compress(zip(thread.tasks.ids, columns[at["scope"]], strict=True), columns[at["scope"]]))

    def _contexts(self) -> None:
        """Read the contexts, and find the tasklets that wait for their answers."""
        if "keys.indices" not in self.numbers:
            return
        self.contexts = read_contexts(self)
        if not self.contexts.found:
            return
        on, blocked, at = self.at["waiting_on"], self.at["blocked"], self.contexts
        for t, task in self._all(STARTED):
            if not task[blocked] or task[on] not in self.waits:
                continue
            if task[on] in at.calls:
                self.called[t] = at.calls[task[on]]
                at.waiting[task[on]].tasklet = t
            elif self.sees_suspended and self.waits[task[on]]["kind"] in ("Descriptor", "Event", "Condition"):
                found = being_made(self, t, task, at)
                if found is not None:
                    self.called[t] = found

    def states_of_threads(self) -> list[int]:
        return list(self.states)

    def _tasks_of_loops(self) -> None:
        """Read asyncio's tasks, and find the tasklets that run their event loops."""
        self.tasks = read_tasks(self)
        if not self.tasks.found or not self.sees_suspended:
            return
        runs: dict[int, bool] = {}  # by code
        for t, task in self._all(None):
            if task[self.at["state"]] != STARTED:
                continue
            key, frames = self.stack_of(t, task)
            for code, frame in zip(key[::2], frames, strict=True):
                if code not in runs:
                    runs[code] = self.objects.beginning(code)[0].endswith("run_forever")
                if runs[code]:  # its first variable is the loop
                    loop = self.memory.word(frame + self.numbers["frame.locals"]) & ~self.numbers["frame.code_tags"]
                    if loop in self.tasks.found:
                        self.loops[t] = loop

    def _joined(self) -> None:
        """Find what the Events were made for that tasklets wait for: the end of a tasklet, or of those of a scope."""
        events = {at for at, found in self.waits.items() if found["kind"] == "Event"}
        if not events:
            return
        for t, task in self._all(None):
            outcome = self.objects.slot(t, self.objects.type_of(t), "_outcome")
            ended = self.objects.slot(outcome, self.objects.type_of(outcome), "ended") if outcome else 0
            if ended in events:
                self.waits[ended]["joined"] = t, task[self.at["function"]]
        if not self.sees_suspended or "code.local_kinds" not in self.numbers:
            return
        on, blocked, names = self.at["waiting_on"], self.at["blocked"], ("_children", "_services")
        for t, task in self._all(STARTED):
            waited = task[on]
            if (
                not task[blocked]
                or waited not in events
                or "joined" in self.waits[waited]
                or "scope" in self.waits[waited]
            ):
                continue
            for scope in made_for(self, t, task, "_idle", waited):
                of, slot = self.objects.type_of(scope), self.objects.slot
                several = [slot(scope, of, name) for name in names]
                used = self.numbers["dict.used"]
                self.waits[waited]["scope"] = (
                    slot(scope, of, "_limit"),
                    sum(self.memory.word(at + used) for at in several),
                )

    def _all(self, state: int | None) -> list[tuple[int, tuple[int, ...]]]:
        """Tasklets of all threads; in this state alone those that do not run."""
        found, at = list[tuple[int, tuple[int, ...]]](), self.at["state"]
        for thread in self.threads:
            current = thread.fields["current"]
            found += [
                (t, task)
                for t, task in thread.tasks.items()
                if state is None or (task[at] == state and (t != current or thread.fields["idle"]))
            ]
        return found

    def _refer(self) -> None:
        """Look at what frames refer to of that which is waited for: the owners of locks that do not keep them are found by it."""
        locks = any(found["kind"] == "Lock" and "owner" not in found for found in self.waits.values())
        count = sum(len(thread.tasks) for thread in self.threads)
        if not self.waits or not self.sees_suspended or "frame.globals" not in self.numbers:
            return
        if count > MOST_TASKLETS and not locks:
            return
        look = Look(self, set(self.waits))
        look.look(self._all(STARTED)[:MOST_TASKLETS])
        self.references = look.references
        for lock, holder in self.references.holders.items():
            if self.waits[lock]["kind"] == "Lock" and "owner" not in self.waits[lock]:
                self.waits[lock]["owner"] = holder
        if count > MOST_TASKLETS:
            self.references = None  # incomplete: it proves nothing more

    def stack_with_frames(self, task: tuple[int, ...]) -> tuple[Key, list[int]]:
        """The stack of a suspended tasklet, and where its frames are."""
        return self.chain(*self._begin(task))

    def stack_of(self, t: int, task: tuple[int, ...]) -> tuple[Key, list[int]]:
        """The same of a tasklet that is suspended, or is its thread's current one."""
        known = self._current.get(t)
        return self.stack_with_frames(task) if known is None else known

    def _scopes(self, tasklets: Iterable[tuple[int, int]]) -> None:
        """Find the parents of tasklets, each with its innermost scope: thousands have the same one."""
        known, trying = dict[int, Parent](), self.problems.trying
        for t, scope in tasklets:
            if scope not in known:
                known[scope] = trying(f"the scope of {t:#x}", UNKNOWN, self._scope, 0, scope)
            found = known[scope]
            # One that it has opened itself is not what it was spawned in.
            self.parents[t] = found if found[0] != t else trying(f"the scope of {t:#x}", UNKNOWN, self._scope, t, scope)

    def _scope(self, t: int, scope: int) -> Parent:
        word, numbers = self.memory.word, self.numbers
        name = word(scope + numbers["scope.name"])
        text = self.objects.string(name) if name else None
        for _ in range(MOST_SCOPES):
            if scope == 0:
                return None, text, 0
            owner = word(scope + numbers["scope.owner"])
            if owner not in (0, t):
                return owner, text, scope
            scope = word(scope + numbers["scope.outer"])
        raise Torn(f"the scopes of {t:#x} have a loop")

    def _types(self, places: list[int]) -> dict[int, int]:
        """The types of many objects, read at once; {} for few, and where one of them cannot be read."""
        if len(places) < MANY:
            return {}
        try:
            found = self.memory.words([at + self.numbers["object.type"] for at in places])
        except DAMAGED:
            return {}
        return dict(zip(places, found, strict=True))

    def _object(self, at: int, type_: int | None) -> dict[str, Any]:
        """What a blocked tasklet waits for: what of it changes while the process runs. `type_`: where it is known already."""
        memory, numbers = self.memory, self.numbers
        type_ = self.objects.type_of(at) if type_ is None else type_
        kind = self.objects.kind(type_)
        found: dict[str, Any] = {"kind": kind, "type": type_}
        if kind == "select":
            count, cases = memory.signed(at + numbers["select.count"], 8), at + numbers["select.cases"]
            if not 0 <= count <= MOST_CASES:
                raise Torn(f"a select of {count} channels")
            found["channels"] = tuple(
                memory.word(cases + numbers["case.size"] * i + numbers["case.channel"]) for i in range(count)
            )
        elif kind == "channel" and "channel.buffer" in numbers:
            found["buffer"] = memory.signed(at + numbers["channel.buffer"], 8)
        elif f"{kind}.owner" in numbers and kind in ("RLock", "Lock"):
            found["owner"] = memory.word(at + numbers[f"{kind}.owner"]) or None
        elif kind == "ModuleLock":
            found["owner"] = memory.word(at + numbers["module_lock.owner"]) or None
            name = memory.word(at + numbers["module_lock.name"])
            found["name"] = self.objects.string(name) if name else None
        elif kind == "Descriptor":
            found["fd"] = memory.signed(at + numbers["Descriptor.fd"], 4)
        return found


def monotonic() -> int:
    """ns on the clock that timers follow."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
