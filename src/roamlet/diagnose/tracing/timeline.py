"""From recorded events to what people look at: a track of spans for each tasklet, flows between them, and what follows from these.

Everything here is a pure function of a recording.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from roamlet.diagnose.tracing.recording import Event, Kind, Left, Place, Recording, Sample, Span

RUNS, READY, WAITS = "runs", "ready", "waits"

_NAMES_OF_TYPES = {
    "roamlet.core._Select": "select",
    "roamlet.io.Descriptor": "descriptor",
    "roamlet.core.ModuleLock": "import lock",
}
_WHY = {
    Left.PAUSED: "paused",
    Left.RECEIVE: "receive",
    Left.SEND: "send",
    Left.WAITER: "waiter",
    Left.SLEEP: "sleep",
    Left.RUN: "run()",
}


class Stretch(NamedTuple):
    """A tasklet runs, is ready to run, or waits, from `begin` to `end` in ns.

    `why`: what it waits for; of one that runs, how that ended. `on`: the address of the object it waits for, 0 for none.
    """

    state: str
    begin: int
    end: int
    why: str
    place: Place | None
    caller: Place | None
    on: int


class Flow(NamedTuple):
    """Something that goes from one tasklet to another: `kind` is message or wakes."""

    kind: str
    source: int
    begin: int
    target: int
    end: int
    on: int


@dataclass
class Track:
    """One tasklet. `thread` is the ident of the one that it was seen in first; `parent` made it, 0 if that was not seen."""

    number: int
    thread: int
    name: str = ""
    is_main: bool = False
    parent: int = 0
    failed: bool = False
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Its name, with its number."""
        return f"{self.name or 'tasklet'} #{self.number}"


class Hold(NamedTuple):
    """A tasklet kept its thread from `begin` to `end`. `delayed`: how many others were ready meanwhile, each at least once."""

    tasklet: int
    thread: int
    begin: int
    end: int
    delayed: int
    place: Place | None
    stacks: list[tuple[int, tuple[Place, ...]]]
    """How often each was seen, the most frequent first."""


class Wait(NamedTuple):
    """All waits for one reason at one place. Times in ns."""

    why: str
    place: Place | None
    caller: Place | None
    times: int
    total: int
    longest: int
    tasklets: int


@dataclass
class Timeline:
    """What a recording shows. `idle` has the spans of each thread in which no tasklet could run."""

    recording: Recording
    tracks: dict[int, Track]
    flows: list[Flow]
    idle: dict[int, list[tuple[int, int]]]
    switches: int
    messages: int


class _Open(NamedTuple):
    state: str
    since: int
    why: str = ""
    place: Place | None = None
    caller: Place | None = None
    on: int = 0


class _Builder:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.tracks: dict[int, Track] = {}
        self.open: dict[int, _Open] = {}
        self.flows: list[Flow] = []
        self.idle: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.idle_since: dict[int, int] = {}
        self.first = {thread.ident: thread.first for thread in recording.threads}
        self.running: dict[int, int] = {}
        self.waiting: dict[int, deque[tuple[int, int] | None]] = defaultdict(deque)  # in the buffers of channels
        self.switches = self.messages = 0

    def track(self, number: int, thread: int) -> Track:
        track = self.tracks.get(number)
        if track is None:
            track = self.tracks[number] = Track(number, thread)
        return track

    def close(self, number: int, at: int, how: str = "") -> None:
        """End what the tasklet is in."""
        before = self.open.pop(number, None)
        if before is not None and at > before.since:
            why = how if before.state == RUNS else before.why
            self.tracks[number].stretches.append(
                Stretch(before.state, before.since, at, why, before.place, before.caller, before.on)
            )

    def runs(self, number: int, thread: int, at: int) -> None:
        self.track(number, thread)
        self.close(number, at)
        self.open[number] = _Open(RUNS, at)
        self.running[thread] = number

    def leaves(self, event: Event) -> None:
        number, thread, at = event.source, event.thread, event.at
        places = self.recording.places
        place, caller = places.get(event.place), places.get(event.caller)
        self.track(number, thread)
        if number not in self.open:  # the recording begins in the middle
            self.open[number] = _Open(RUNS, self.first[thread])
        was = self.open[number]
        self.open[number] = was._replace(place=place, caller=caller)
        reason = Left(event.reason)
        self.close(number, at, reason.name.lower())
        self.running.pop(thread, None)
        if reason is Left.ENDED:
            return
        if reason in (Left.YIELDED, Left.PREEMPTED, Left.MEETS):
            self.open[number] = _Open(READY, at, reason.name.lower(), place, caller)
            return
        why = _WHY.get(reason, "")
        if reason is Left.QUEUE:
            kind = places[event.type].name if event.type in places else "wait"
            why = _NAMES_OF_TYPES.get(kind, kind.rpartition(".")[2])
            if why == "descriptor":
                why = f"descriptor {event.value}"
        self.open[number] = _Open(WAITS, at, why, place, caller, event.object)

    def ready(self, number: int, thread: int, at: int) -> None:
        """It waits no longer."""
        self.track(number, thread)
        before = self.open.get(number)
        if before is None or before.state == WAITS:
            self.close(number, at)
            self.open[number] = _Open(READY, at, "woken")

    def event(self, event: Event) -> None:
        kind, at, thread = event.kind, event.at, event.thread
        if kind == Kind.SWITCH:
            self.switches += event.target != 0
            self.leaves(event)
            if event.target:
                self.runs(event.target, thread, at)
            else:
                self.idle_since[thread] = at
        elif kind == Kind.GOES_ON:
            begin = self.idle_since.pop(thread, self.first[thread])
            self.idle[thread].append((begin, at))
            self.switches += 1
            self.runs(event.target, thread, at)
        elif kind == Kind.BORN:
            track = self.track(event.target, thread)
            track.parent = event.source
            self.open.setdefault(event.target, _Open(READY, at, "new"))
        elif kind == Kind.ENDS:
            track = self.track(event.source, thread)
            track.failed = event.reason != 0
            if event.place in self.recording.places:
                track.name = self.recording.places[event.place].name
        elif kind == Kind.MESSAGE:
            self.message(event)
        elif kind == Kind.WAKES:
            self.ready(event.target, thread, at)
            if event.source:
                self.flows.append(Flow("wakes", event.source, at, event.target, at, 0))

    def message(self, event: Event) -> None:
        if event.source == 0 or event.target == 0:
            self.buffered(event)
            return
        self.messages += 1
        sender = self.open.get(event.source)
        begin = event.at - 1 if sender is not None and sender.state == WAITS else event.at  # inside of its wait
        for number in (event.source, event.target):
            if self.running.get(event.thread) != number:
                self.ready(number, event.thread, event.at)
        self.flows.append(Flow("message", event.source, begin, event.target, event.at, event.object))

    def buffered(self, event: Event) -> None:
        """A value goes into the buffer of its channel, which then has event.value of them, or out of it."""
        number = event.source or event.target
        if self.running.get(event.thread) != number:
            self.ready(number, event.thread, event.at)
        waiting, comes = self.waiting[event.object], event.target == 0
        for _ in range(len(waiting), event.value + (-1 if comes else 1)):
            waiting.appendleft(None)  # came before the oldest event that was kept
        if comes:
            (waiting.appendleft if event.reason else waiting.append)((number, event.at))
            return
        self.messages += 1
        came = waiting.popleft()
        if came is not None:
            self.flows.append(Flow("message", came[0], came[1], number, event.at, event.object))


def timeline(recording: Recording) -> Timeline:
    """Make the timeline of a recording."""
    builder = _Builder(recording)
    for event in recording.events():
        builder.event(event)
    for thread, since in builder.idle_since.items():
        builder.idle[thread].append((since, recording.stopped))
    for number in list(builder.open):
        builder.close(number, recording.stopped)
    for number, name in recording.names.items():
        if number in builder.tracks:
            builder.tracks[number].name = name
            builder.tracks[number].is_main = number in recording.mains
    return Timeline(recording, builder.tracks, builder.flows, dict(builder.idle), builder.switches, builder.messages)


def _seen_in(track: Track, function: str) -> bool:
    places = (place for each in track.stretches for place in (each.place, each.caller) if place is not None)
    return any(place.name == function for place in places)


def arrivals(lines: list[Timeline]) -> list[tuple[Span, Timeline, Track]]:
    """Where each tasklet that has moved went on: the span of its move, the timeline of the context, and its track there.

    It is the first tasklet there that began after it had left and was seen in that function; one that cannot be told is left out.
    """
    found = []
    taken: set[tuple[str, int]] = set()
    for span in lines[0].recording.spans:
        if span.kind != "move":
            continue
        for line in lines[1:]:
            if line.recording.process != f"context {span.context}":
                continue
            candidates = [
                (track.stretches[0].begin, track.number)
                for track in line.tracks.values()
                if track.stretches
                and _seen_in(track, span.details["tasklet"].rpartition(" ")[2])
                and track.stretches[0].begin + line.recording.shift >= span.begin
                and (span.context, track.number) not in taken
            ]
            if candidates:
                _, number = min(candidates)
                taken.add((span.context, number))
                found.append((span, line, line.tracks[number]))
    return found


def waits(tracks: Iterable[Track]) -> list[Wait]:
    """Where tasklets waited, by reason and place, the longest in total first. Descriptors count as one reason."""
    found: dict[tuple[str, Place | None, Place | None], list[Stretch]] = defaultdict(list)
    by: dict[tuple[str, Place | None, Place | None], set[int]] = defaultdict(set)
    for track in tracks:
        for stretch in track.stretches:
            if stretch.state == WAITS:
                key = (stretch.why.partition(" ")[0], stretch.place, stretch.caller)
                found[key].append(stretch)
                by[key].add(track.number)
    result = []
    for key, stretches in found.items():
        lengths = [stretch.end - stretch.begin for stretch in stretches]
        result.append(Wait(*key, len(lengths), sum(lengths), max(lengths), len(by[key])))
    return sorted(result, key=lambda wait: -wait.total)


def never_ran(tracks: Iterable[Track]) -> list[Track]:
    """The tasklets that could run all the time that they are seen, and did not."""
    return [track for track in tracks if track.stretches and all(stretch.state == READY for stretch in track.stretches)]


def holds(line: Timeline, limit: int) -> list[Hold]:
    """Where a tasklet kept its thread for `limit` ns or longer, the longest first."""
    ready: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for track in line.tracks.values():
        for stretch in track.stretches:
            if stretch.state == READY and stretch.end - stretch.begin >= limit // 2:
                ready[track.thread].append((stretch.begin, stretch.end, track.number))
    samples: dict[int, list[Sample]] = defaultdict(list)
    for sample in line.recording.samples:
        samples[sample.tasklet].append(sample)
    result = []
    for track in line.tracks.values():
        for stretch in track.stretches:
            if stretch.state != RUNS or stretch.end - stretch.begin < limit:
                continue
            counts: dict[tuple[Place, ...], int] = defaultdict(int)
            for sample in samples[track.number]:
                if stretch.begin <= sample.since < stretch.end:
                    counts[sample.stack] += 1
            delayed = {
                number for begin, end, number in ready[track.thread] if begin < stretch.end and end > stretch.begin
            }
            stacks = sorted(((count, stack) for stack, count in counts.items()), key=lambda each: -each[0])
            result.append(
                Hold(track.number, track.thread, stretch.begin, stretch.end, len(delayed), stretch.place, stacks)
            )
    return sorted(result, key=lambda hold: hold.begin - hold.end)
