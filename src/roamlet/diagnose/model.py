"""What a look at a process finds, as plain data: threads, schedulers, contexts, tasklets and what each one waits for.

The same shape whether it was made inside the process or read from outside; what a reader cannot know is None, or absent from a
list. No field refers to an object of the process. Standard library alone: targets get this module too.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args, get_origin, overload

LARGEST = 1 << 256  # of the numbers that are taken from others
FORMAT = 1  # of to_json(); a reader refuses another one

RUNNING = "running"  # it is the one that its thread runs
RUNNABLE = "runnable"  # it is in the run queue
BLOCKED = "blocked"  # it waits: `wait` says for what
PAUSED = "paused"  # alive, neither in the run queue nor blocked: until some code inserts or runs it
NEW = "not started"  # in the run queue, and has not run yet
IN_RUN = "in run()"  # waits in roamlet.run() for the others
STATES = (RUNNING, RUNNABLE, BLOCKED, PAUSED, NEW, IN_RUN)

# What a tasklet waits for: Wait.kind.
SEND = "send"  # a channel's receiver
RECEIVE = "receive"  # a channel's sender
SELECT = "select"  # any one of several channels
LOCK = "lock"  # a Lock or RLock
CONDITION = "condition"
SEMAPHORE = "semaphore"
EVENT = "event"
BARRIER = "barrier"
QUEUE = "queue"  # an item, or room for one
IMPORT = "import"  # the lock of a module that another tasklet imports
TIMER = "timer"  # nothing but time
READ = "read"  # a descriptor that can be read
WRITE = "write"  # a descriptor that can be written
CALL = "call"  # the answer of a context
JOB = "job"  # a call on a worker thread
PROCESS = "process"  # the end of a child process
JOIN = "join"  # the end of a tasklet or of a scope's tasklets
FUTURE = "future"
WAKEUP = "wake-up"  # a core.Waiter, by whatever settles it
OTHER = "other"
KINDS = (
    *(SEND, RECEIVE, SELECT, LOCK, CONDITION, SEMAPHORE, EVENT, BARRIER, QUEUE, IMPORT, TIMER, READ, WRITE),
    *(CALL, JOB, PROCESS, JOIN, FUTURE, WAKEUP, OTHER),
)


@dataclass(slots=True, frozen=True)
class Frame:
    """One call on a stack. `line` is None for an instruction that has none.

    `locals`: names and reprs, where they were asked for.
    """

    function: str  # qualified
    file: str
    line: int | None
    locals: tuple[tuple[str, str], ...] | None = None


Stack = tuple[Frame, ...]  # the innermost first


@dataclass(slots=True, frozen=True)
class Waker:
    """What could end a wait. `kind`: "tasklet", "thread", "timer", "descriptor", "process", "host", "cycle" or "nothing"."""

    kind: str
    text: str  # "holds the lock", "refers to the channel in serve() at server.py:12"
    tasklet: int | None = None  # the id of that tasklet


@dataclass(slots=True)
class Wait:
    """What a blocked tasklet waits for."""

    kind: str  # one of KINDS
    on: str = ""  # the object in words: "channel", "sync.Lock", "descriptor 7"
    address: int | None = None  # of that object; tasklets with the same one wait at the same place
    since: float | None = None  # seconds that it has waited, a few ms coarse, and three digits of it; None: not known
    due: float | None = None  # seconds until its time is over; None: it has no limit, or none is known
    owner: int | None = None  # the id of the tasklet that holds the lock
    descriptor: int | None = None
    peer: str | None = None  # of the descriptor: "10.0.0.7:5432", "/run/postgresql/.s.PGSQL.5432", "pipe"
    host: str | None = None  # of a remote call
    function: str | None = None  # what is called remotely, on a worker thread, or joined
    process: int | None = None  # the child's PID
    channels: tuple[int, ...] = ()  # the addresses of those of a select
    buffer: int = 0  # of the channel: how many values may wait in it
    others: int = 0  # how many other tasklets wait at the same address
    wakers: tuple[Waker, ...] = ()

    @property
    def text(self) -> str:
        """What it waits for in words, without times and without other tasklets."""
        at = f" {self.address:#x}" if self.address else ""
        if self.kind in (READ, WRITE):
            text = f"{self.kind} {self.on or f'descriptor {self.descriptor}'}"
            if self.peer:
                text += f" {'from' if self.kind == READ else 'to'} {self.peer}"
        elif self.kind == CALL:
            text = f"call of {self.function or 'a function'}" + (f" on {self.host}" if self.host else "")
        elif self.kind == TIMER:
            text = "timer"
        elif self.kind in (JOB, JOIN) and self.function:
            text = f"{self.kind} of {self.function}"
        elif self.kind == PROCESS:
            text = f"end of process {self.process}" if self.process else "end of a child process"
        elif self.kind == SELECT:
            text = f"select of {len(self.channels)} channels" if self.channels else "select"
        elif self.kind in (SEND, RECEIVE):
            text = f"{self.kind} on {self.on or 'channel'}{at}"
            if self.buffer:
                text += f" (its buffer of {self.buffer} is {'full' if self.kind == SEND else 'empty'})"
        elif not self.on:
            text = f"{self.kind}{at}"
        else:
            named = self.kind in self.on.lower() or self.kind == OTHER
            text = f"{self.on}{at}" if named else f"{self.kind}: {self.on}{at}"
        return text


@dataclass(slots=True)
class Task:
    """An asyncio task of a tasklet's event loop. `awaits`: what it waits for, in words."""

    name: str
    coroutine: str
    state: str  # RUNNING, BLOCKED or "done"
    frames: Stack = ()
    awaits: str | None = None


@dataclass(slots=True)
class Tasklet:
    """`id` tells it from all others while it lives: its address, as getcurrentid() has it; main's is its object's address too."""

    id: int
    name: str  # of its function, qualified; "main" for a thread's main tasklet
    state: str  # one of STATES
    main: bool = False
    wait: Wait | None = None  # of a blocked one
    parent: int | None = None  # the id of the tasklet whose scope it was spawned in
    scope: str | None = None  # the innermost scope it is in, in words
    scopes: tuple[str, ...] = ()  # that one and those around it, with what is over or when it will be
    atomic: int = 0  # how deep in atomic code
    preempted: bool = False
    frames: Stack = ()
    tasks: tuple[Task, ...] = ()  # of the event loop that runs in it


Members = tuple[Any, ...]  # of a tasklet, after its id


class Group(NamedTuple):
    """Tasklets that differ in their ids alone: the first, and the number of all."""

    first: Tasklet
    size: int


class Many(Sequence[Tasklet]):
    """A Scheduler's tasklets, most of which are alike: an object for each is made when one is asked for, and not before.

    It is equal to the list of them. `members`: those of each of `ids`. Tasklets that have the same object there are alike.
    """

    def __init__(self, ids: Sequence[int], members: Sequence[Members]) -> None:
        self._ids, self._members = ids, members
        self._made: list[Tasklet] | None = None
        self._groups: list[Group] | None = None

    def groups(self) -> list[Group]:
        """All of them in groups, in the order of the first of each."""
        if self._groups is None:
            members, kinds = self._members, list(map(id, self._members))
            firsts = dict(zip(reversed(kinds), range(len(kinds) - 1, -1, -1), strict=True))
            counts = Counter(kinds)
            self._groups = [
                Group(Tasklet(self._ids[at], *members[at]), counts[kinds[at]]) for at in sorted(firsts.values())
            ]
        return self._groups

    def _all(self) -> list[Tasklet]:
        if self._made is None:
            self._made = [Tasklet(id, *members) for id, members in zip(self._ids, self._members, strict=True)]
        return self._made

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Tasklet]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> Tasklet: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tasklet]: ...
    def __getitem__(self, index: int | slice) -> Tasklet | list[Tasklet]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, Many) else other)

    __hash__: ClassVar[None]  # type: ignore[assignment]  # by what is equal, so by nothing

    def __repr__(self) -> str:
        return repr(self._all())


def groups_of(tasklets: Sequence[Tasklet]) -> list[Group]:
    """Tasklets in groups, as far as they were found in such: each by itself otherwise."""
    return tasklets.groups() if isinstance(tasklets, Many) else [Group(each, 1) for each in tasklets]


@dataclass(slots=True)
class Scheduler:
    """The tasklets of one thread. Times in seconds."""

    tasklets: Sequence[Tasklet] = field(default_factory=list)  # main first, then the oldest started first
    current: int | None = None  # the id of the one that runs; None while none can
    idle: bool = False  # no tasklet can run: the thread sleeps in its hub
    runnable: int = 0  # the length of the run queue
    timers: int = 0
    next_timer: float | None = None  # until the first is due
    descriptors: int | None = None  # that tasklets of this thread wait for
    tick: float | None = None  # since its last look at timers and descriptors
    switches: int | None = None  # so far: how often its tasklets have come to where others may run
    messages: int | None = None  # so far: values that have passed through channels


@dataclass(slots=True)
class Thread:
    """`frames`: of the thread itself, where it has no tasklets or none that runs. `id`: threading.get_ident()."""

    id: int
    name: str | None = None
    native_id: int | None = None
    main: bool = False
    service: bool = False  # one of roamlet's own
    holds_gil: bool | None = None
    state: str | None = None  # the system's: "running", "sleeping", "in the disk"
    processor: float | None = None  # seconds of processor time so far
    frames: Stack = ()
    scheduler: Scheduler | None = None  # None: it has not used roamlet


@dataclass(slots=True)
class Call:
    """A call that a context has not answered. `tasklet`: the id of the one that waits for it, where that is known."""

    function: str
    since: float | None = None
    tasklet: int | None = None


@dataclass(slots=True)
class Context:
    """A context that this process has opened, or the parent of this one (`parent` is true then)."""

    name: str  # "ssh:alpha", "local"
    transport: str | None = None
    host: str | None = None
    process: int | None = None  # the PID on the target
    python: str | None = None
    via: str | None = None  # the context behind which it is
    state: str | None = None  # "open", "ended: ..."
    parent: bool = False
    round_trip: float | None = None  # seconds, the last measured
    calls: list[Call] = field(default_factory=list)  # in flight
    made: int | None = None  # calls so far
    bytes_down: int | None = None
    bytes_up: int | None = None
    modules: int | None = None  # sent so far
    round_trips: int | None = None


@dataclass(slots=True)
class Step:
    """A tasklet in a cycle, and what it waits for. `next`: the id of the tasklet that alone could end that wait."""

    tasklet: int
    name: str
    waits: str  # "lock 0x7f..., which the next one holds"
    next: int
    where: str = ""  # "transfer() at bank.py:31"


@dataclass(slots=True)
class Cycle:
    """Tasklets of which each waits for the next: none of them goes on, although others may. `sure`: no other code can wake them.

    `proof`: of one that is not sure, what tells whether other code can, where the reader could not know.
    """

    steps: list[Step]
    sure: bool = True
    proof: str = ""

    @property
    def text(self) -> str:
        """The cycle in plain words, a line for each tasklet."""
        if len(self.steps) == 1:
            head = "1 tasklet waits for itself"
        else:
            head = f"{len(self.steps)} tasklets wait for each other"
        head += " and never go on" if self.sure else ", and go on only if other code wakes one of them"
        head += f"; {self.proof}:" if self.proof else ":"
        lines = [
            f"  {step.name} ({step.tasklet:#x}){f' in {step.where}' if step.where else ''} waits for {step.waits}"
            for step in self.steps
        ]
        return "\n".join([head, *lines])


@dataclass(slots=True)
class Process:
    """One process at one moment, `taken` (time.time()). `how`: in words, by what means it was read."""

    pid: int
    command: str = ""
    python: str = ""
    roamlet: str | None = None  # its version; None: it is not known
    backend: str = ""
    taken: float = 0.0
    moment: float = 0.0  # the same on the monotonic clock of its machine: differences of two looks are by that
    how: str = "inside"
    stopped: float = 0.0  # seconds, in total, for which it was stopped to be read
    folder: str = ""  # of its roamlet: frames of files in it are roamlet's own
    memory: int | None = None  # bytes, of those that are in the machine's memory (RSS)
    processor: float | None = None  # seconds of processor time so far, of all its threads
    threads: list[Thread] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # what could not be read, each with the reason

    def tasklets(self) -> Iterator[tuple[Thread, Tasklet]]:
        """Every tasklet with its thread."""
        for thread in self.threads:
            if thread.scheduler is not None:
                for tasklet in thread.scheduler.tasklets:
                    yield thread, tasklet

    def waits(self) -> Iterator[Wait]:
        """Each wait once, although many tasklets may share it."""
        seen = set[int]()
        for thread in self.threads:
            for group in groups_of(thread.scheduler.tasklets) if thread.scheduler is not None else ():
                wait = group.first.wait
                if wait is not None and id(wait) not in seen:
                    seen.add(id(wait))
                    yield wait

    def find(self, id: int) -> Tasklet | None:
        """The tasklet with this id."""
        return next((tasklet for _, tasklet in self.tasklets() if tasklet.id == id), None)

    def to_json(self) -> dict[str, Any]:
        """All of it as dictionaries, lists, strings, numbers, booleans and None, for json.dumps().

        Equal stacks are listed once, in "stacks"; "frames" is the number of a stack in that list.
        """
        stacks: dict[Stack, int] = {}
        made = _to_plain(self, stacks, {})
        made["format"] = FORMAT
        made["stacks"] = [[_to_plain(frame, stacks, {}) for frame in stack] for stack in stacks]
        return made

    @classmethod
    def from_json(cls, data: object) -> "Process":
        """What to_json() made, its values checked by type. ValueError for anything else. Unknown names are left out."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            found = data.get("format") if isinstance(data, dict) else type(data).__name__
            raise ValueError(
                f"this is no tree of format {FORMAT}, which is what this version of roamlet reads: {found!r}"
            )
        stacks: list[Stack] = []
        for stack in _list(data.get("stacks"), "stacks"):
            stacks.append(tuple(_from_plain(Frame, frame, stacks) for frame in _list(stack, "stacks")))
        return _from_plain(cls, data, stacks)


# The fields that hold objects of this file, one or several.
_PARTS: dict[type, dict[str, type]] = {
    Process: {"threads": Thread, "contexts": Context, "cycles": Cycle},
    Thread: {"scheduler": Scheduler},
    Scheduler: {"tasklets": Tasklet},
    Tasklet: {"wait": Wait, "tasks": Task},
    Wait: {"wakers": Waker},
    Context: {"calls": Call},
    Cycle: {"steps": Step},
}
_NAMES: dict[type, dict[str, Any]] = {
    kind: {each.name: each.type for each in fields(kind)}
    for kind in (Process, Thread, Scheduler, Tasklet, Wait, Waker, Frame, Task, Context, Call, Cycle, Step)
}
_VALUES = {kind: (tuple(names), attrgetter(*names)) for kind, names in _NAMES.items()}
_LISTS = (list, tuple, Sequence)
# The fields whose values are not as JSON has them.
_SEVERAL = {
    kind: [
        name
        for name, declared in names.items()
        if name in (*_PARTS.get(kind, ()), "frames", "locals") or get_origin(declared) in _LISTS
    ]
    for kind, names in _NAMES.items()
}
T = TypeVar("T")


def _to_plain(value: Any, stacks: dict[Stack, int], known: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """An object of this file as a dictionary. Each "frames" becomes the number of its stack, which `stacks` collects.

    `known`: the waits that were met, by their identity; a hundred thousand tasklets may share one.
    """
    kind = type(value)
    names, values = _VALUES[kind]
    made = dict(zip(names, values(value), strict=True))
    parts = _PARTS.get(kind, {})
    for name in _SEVERAL[kind]:
        part = made[name]
        if not part and name != "frames":
            made[name] = None if part is None else []
        elif name == "frames":
            made[name] = stacks.setdefault(part, len(stacks))
        elif name == "wait":
            if id(part) not in known:
                known[id(part)] = _to_plain(part, stacks, known)
            made[name] = known[id(part)]
        elif name in parts:
            several = isinstance(part, Sequence)
            made[name] = (
                [_to_plain(each, stacks, known) for each in part] if several else _to_plain(part, stacks, known)
            )
        else:
            made[name] = [list(each) if isinstance(each, tuple) else each for each in part]
    return made


def _from_plain(kind: type[T], data: object, stacks: list[Stack]) -> T:
    """The object of this kind that _to_plain() made the dictionary from. ValueError."""
    if not isinstance(data, dict):
        raise ValueError(f"{kind.__name__} is a dictionary, not {type(data).__name__}")
    parts = _PARTS.get(kind, {})
    made: dict[str, Any] = {}
    for name, declared in _NAMES[kind].items():
        if name not in data:
            continue
        value, part = data[name], parts.get(name)
        if name == "frames":
            if type(value) is not int or not 0 <= value < len(stacks):
                raise ValueError(f"{kind.__name__}.frames is the number of one of {len(stacks)} stacks, not {value!r}")
            made[name] = stacks[value]
        elif get_origin(declared) in _LISTS:
            several = _list(value, f"{kind.__name__}.{name}")
            if part is not None:
                several = [_from_plain(part, each, stacks) for each in several]
            else:
                _scalars(several, get_args(declared)[0], f"{kind.__name__}.{name}")
            made[name] = tuple(several) if get_origin(declared) is tuple else several
        elif name == "locals":
            made[name] = None if value is None else _locals(value)
        elif part is not None:
            made[name] = None if value is None else _from_plain(part, value, stacks)
        else:
            _scalars([value], declared, f"{kind.__name__}.{name}")
            made[name] = value
    try:
        return kind(**made)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from None


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is a list, not {type(value).__name__}")
    return value


def _locals(value: object) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(_list(pair, "Frame.locals")) for pair in _list(value, "Frame.locals")]
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(f"Frame.locals has pairs, not {len(pair)} values")
        _scalars(list(pair), str, "Frame.locals")
    return tuple(pairs)


def _scalars(values: list[Any], declared: Any, name: str) -> None:
    """ValueError unless all are of the declared type, and numbers can be shown; an integer is a float too."""
    for value in values:
        if not isinstance(value, declared) and not (type(value) is int and isinstance(0.0, declared)):
            raise ValueError(f"{name} is {getattr(declared, '__name__', declared)}, not {type(value).__name__}")
        if type(value) in (int, float) and not -LARGEST < value < LARGEST:
            raise ValueError(f"{name} is a number that no process has: too large, or none")
