"""What looks at one process tell together: rates a second, places with their counts, and which tasklet keeps its thread.

Pure: made of model.Process objects. Knows neither where these come from nor how it is shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from roamlet.diagnose.model import RUNNING, Context, Process, Stack, Tasklet, Thread, Wait
from roamlet.diagnose.render import place_of

SHOWN = 5  # ids of tasklets, or names, that JSON has of one place


@dataclass(slots=True)
class Keeps:
    """A tasklet that keeps its thread: in all looks for so many seconds it was the one that ran, and it let no other run."""

    tasklet: int
    name: str
    seconds: float
    thread: str
    at: str = ""  # where it was when its stack was read
    frames: Stack = ()


@dataclass(slots=True)
class ThreadRates:
    """A thread now. `processor`: of a core, in percent. None: not known, or not yet."""

    id: int
    name: str
    native_id: int | None = None
    main: bool = False
    service: bool = False
    state: str | None = None
    processor: float | None = None
    runnable: int | None = None  # the length of its run queue
    tasklets: int | None = None
    switches: float | None = None  # a second
    messages: float | None = None  # a second
    timers: int | None = None
    descriptors: int | None = None  # that its tasklets wait for


@dataclass(slots=True)
class Place:
    """Tasklets that are at the same line, in the same state, and wait for the same kind of thing."""

    at: str  # "serve() at server.py:12"; "" where no stack is seen
    state: str
    waits: str  # "receive on channel"
    count: int = 0
    grown: int | None = None  # since the look at tasklets before
    longest: float | None = None  # seconds, of the one that has waited for longest
    names: tuple[str, ...] = ()
    members: list[Tasklet] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from other places, in one look and the next."""
        return self.at, self.state, self.waits.partition(" (")[0]


@dataclass(slots=True)
class ContextRates:
    """A context now. Bytes, calls and round trips are a second; `down` is to the target."""

    name: str
    host: str | None = None
    state: str | None = None
    parent: bool = False
    round_trip: float | None = None
    in_flight: int = 0
    longest: float | None = None  # seconds, of the call that has been in flight for longest
    calls: float | None = None
    down: float | None = None
    up: float | None = None
    round_trips: float | None = None
    bytes_down: int | None = None
    bytes_up: int | None = None


@dataclass(slots=True)
class Rates:
    """A process now. `processor`: of a core, in percent; `memory` in bytes; rates None until there are two looks."""

    pid: int
    host: str | None = None
    command: str = ""
    python: str = ""
    backend: str = ""
    taken: float = 0.0
    seconds: float | None = None  # that the rates are over
    processor: float | None = None
    memory: int | None = None
    tasklets: int = 0
    runnable: int = 0
    timers: int = 0
    descriptors: int = 0
    switches: float | None = None
    messages: float | None = None
    threads: list[ThreadRates] = field(default_factory=list)
    contexts: list[ContextRates] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)  # most tasklets first
    keeps: Keeps | None = None
    cycles: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    age: float = 0.0  # seconds since its tasklets were looked at
    stopped: float = 0.0  # seconds for which it was stopped then

    def to_json(self) -> dict[str, Any]:
        """Plain data. Of each place the first tasklets alone."""
        made = {each.name: getattr(self, each.name) for each in fields(self)}
        made["threads"] = [_plain(thread) for thread in self.threads]
        made["contexts"] = [_plain(context) for context in self.contexts]
        made["places"] = [
            {**_plain(place, "members"), "tasklets": [tasklet.id for tasklet in place.members[:SHOWN]]}
            for place in self.places
        ]
        made["keeps"] = None if self.keeps is None else _plain(self.keeps, "frames")
        return made


def _plain(value: Any, *left_out: str) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value) if each.name not in left_out}


class History:
    """The looks at one process so far: only the last of each kind is kept. `full`: the last that has tasklets."""

    def __init__(self, host: str | None = None) -> None:
        self.host = host
        self.full: Process | None = None
        self._last: Process | None = None
        self._contexts: Process | None = None  # the look before `full`
        self._places: list[Place] = []
        self._kept: dict[
            int, tuple[int, int, float]
        ] = {}  # by thread: its tasklet, its switches, and since when that is so

    def add(self, counters: Process, full: Process | None = None) -> Rates:
        """Take the next look, and say what is known now: of rates by `counters`, of tasklets by the last `full` look."""
        before, self._last = self._last, counters
        if full is not None or self.full is None:
            self._take(full or counters)
        full = self.full
        assert full is not None
        made = Rates(counters.pid, self.host, counters.command, counters.python, counters.backend, counters.taken)
        passed = counters.moment - before.moment if before is not None else 0.0
        made.seconds = passed if passed > 0 else None
        made.memory = counters.memory
        made.processor = _percent(before.processor if before is not None else None, counters.processor, passed)
        made.threads = list(_threads(full, counters, before, passed))
        made.contexts = list(_contexts(full, self._contexts))
        made.places = self._places
        made.cycles, made.problems = [cycle.text for cycle in full.cycles], list(full.problems)
        made.age, made.stopped = max(counters.moment - full.moment, 0.0), full.stopped
        for name in ("tasklets", "runnable", "timers", "descriptors"):
            setattr(made, name, sum(getattr(thread, name) or 0 for thread in made.threads))
        for name in ("switches", "messages"):
            known = [rate for thread in made.threads if (rate := getattr(thread, name)) is not None]
            setattr(made, name, sum(known) if known else None)
        made.keeps = self._longest_kept(full, counters)
        return made

    def _take(self, full: Process) -> None:
        """A look that has tasklets."""
        counts = {place.key: place.count for place in self._places} if self.full is not None else None
        self._contexts, self.full = self.full, full
        self._places = places_of(full)
        for place in self._places:
            place.grown = None if counts is None else place.count - counts.get(place.key, 0)

    def _longest_kept(self, full: Process, now: Process) -> Keeps | None:
        before, self._kept = self._kept, {}
        longest: Keeps | None = None
        for thread in now.threads:
            scheduler = thread.scheduler
            if scheduler is None or scheduler.idle or thread.service:
                continue
            if scheduler.current is None or scheduler.switches is None:
                continue
            since = now.moment
            known = before.get(thread.id)
            if known is not None and known[:2] == (scheduler.current, scheduler.switches):
                since = known[2]
            self._kept[thread.id] = scheduler.current, scheduler.switches, since
            others, found = _in(full, thread.id, scheduler.current)
            seconds = now.moment - since
            if seconds > 0 and others and (longest is None or seconds > longest.seconds):
                longest = Keeps(scheduler.current, found.name if found else "?", seconds, name_of(thread))
                if found is not None and found.state == RUNNING:
                    longest.frames, longest.at = found.frames, place_of(found, full.folder)
        return longest


def name_of(thread: Thread) -> str:
    """A thread's name, or what tells it from others."""
    return thread.name or f"thread {thread.native_id or thread.id}"


def _threads(full: Process, now: Process, before: Process | None, passed: float) -> Iterable[ThreadRates]:
    latest = {thread.id: thread for thread in now.threads}
    earlier = {thread.id: thread for thread in before.threads} if before is not None else {}
    looked = {thread.id: thread for thread in full.threads if thread.scheduler is None or thread.id in latest}
    for thread in (latest | looked).values():
        new, old = latest.get(thread.id), earlier.get(thread.id)
        made = ThreadRates(thread.id, name_of(thread), thread.native_id, thread.main, thread.service, thread.state)
        if thread.scheduler is not None and thread.scheduler.tasklets:
            made.runnable, made.tasklets = thread.scheduler.runnable, len(thread.scheduler.tasklets)
            made.descriptors = thread.scheduler.descriptors
        if new is not None:
            made.state = new.state
            made.processor = _percent(old.processor if old is not None else None, new.processor, passed)
        if new is not None and new.scheduler is not None:
            made.timers = new.scheduler.timers
            counts = old.scheduler if old is not None else None
            for name in ("switches", "messages"):
                number = getattr(counts, name) if counts is not None else None
                setattr(made, name, _rate(number, getattr(new.scheduler, name), passed))
        yield made


def _in(full: Process, thread_id: int, tasklet: int) -> tuple[bool, Tasklet | None]:
    """Whether the thread has more than one tasklet, and the one with this id."""
    for thread in full.threads:
        if thread.id == thread_id and thread.scheduler is not None:
            tasklets = thread.scheduler.tasklets
            return len(tasklets) > 1, next((each for each in tasklets if each.id == tasklet), None)
    return False, None


def _rate(before: float | None, now: float | None, passed: float) -> float | None:
    return None if before is None or now is None or passed <= 0 else max(now - before, 0) / passed


def _percent(before: float | None, now: float | None, passed: float) -> float | None:
    rate = _rate(before, now, passed)
    return None if rate is None else 100 * rate


# ---- contexts ----


def _contexts(now: Process, before: Process | None) -> Iterable[ContextRates]:
    earlier = {(each.name, each.process): each for each in before.contexts} if before is not None else {}
    passed = now.moment - before.moment if before is not None else 0.0
    for context in now.contexts:
        old = earlier.get((context.name, context.process))
        made = ContextRates(context.name, context.host, context.state, context.parent, context.round_trip)
        made.in_flight = len(context.calls)
        made.longest = max((call.since for call in context.calls if call.since is not None), default=None)
        made.bytes_down, made.bytes_up = context.bytes_down, context.bytes_up
        for name, counter in (("calls", "made"), ("down", "bytes_down"), ("up", "bytes_up"), ("round_trips",) * 2):
            setattr(made, name, _of_context(old, context, counter, passed))
        yield made


def _of_context(old: Context | None, now: Context, counter: str, passed: float) -> float | None:
    return None if old is None else _rate(getattr(old, counter), getattr(now, counter), passed)


# ---- places ----


def places_of(process: Process) -> list[Place]:
    """The places of a process's tasklets, those with most tasklets first."""
    # A hundred thousand share few stacks and waits: asking for those by identity first leaves few to be looked at.
    near: dict[tuple[int, str, int], list[Tasklet]] = {}
    for _, tasklet in process.tasklets():
        near.setdefault((id(tasklet.frames), tasklet.state, id(tasklet.wait)), []).append(tasklet)
    found: dict[tuple[object, ...], list[list[Tasklet]]] = {}
    for alike in near.values():
        first = alike[0]
        wait = first.wait
        kind = (
            None
            if wait is None
            else (wait.kind, "" if wait.descriptor is not None else wait.on, wait.host, wait.function)
        )
        found.setdefault((place_of(first, process.folder), first.state, kind), []).append(alike)
    places = []
    for groups in found.values():
        members = [tasklet for group in groups for tasklet in group]
        first = members[0]
        waits = [group[0].wait for group in groups]
        place = Place(place_of(first, process.folder), first.state, _common(waits), len(members), members=members)
        place.longest = max((w.since for w in waits if w is not None and w.since is not None), default=None)
        place.names = tuple(dict.fromkeys(tasklet.name for tasklet in members))[:SHOWN]
        places.append(place)
    places.sort(key=lambda place: -place.count)
    return places


def _common(waits: list[Wait | None]) -> str:
    """What all of a place wait for, without addresses; with their number where they wait for different ones."""
    known = [wait for wait in waits if wait is not None]
    if not known:
        return ""
    first = known[0]
    texts = {_without_address(wait) for wait in known}
    things = {wait.address for wait in known if wait.address}
    if len(texts) > 1 and first.descriptor is not None:
        return f"{first.kind} ({len(things):,} descriptors)"
    text = _without_address(first)
    return f"{text} ({len(things):,} of them)" if len(things) > 1 else text


def _without_address(wait: Wait) -> str:
    return wait.text.replace(f" {wait.address:#x}", "") if wait.address else wait.text
