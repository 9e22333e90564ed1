"""What was recorded in one process, as the core gives it, and the events of it in the order of time."""

import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

_EVENT = struct.Struct("<qQIIIIIiBBHI")
SIZE_OF_EVENT = _EVENT.size


class Kind(IntEnum):
    """The kinds of events: see core/c/trace_events.c."""

    SWITCH = 1
    GOES_ON = 2
    BORN = 3
    ENDS = 4
    MESSAGE = 5
    WAKES = 6


class Left(IntEnum):
    """Why a tasklet left."""

    YIELDED = 0
    PREEMPTED = 1
    MEETS = 2
    PAUSED = 3
    ENDED = 4
    RECEIVE = 5
    SEND = 6
    QUEUE = 7
    WAITER = 8
    SLEEP = 9
    RUN = 10


class Event(NamedTuple):
    """One event. `at` is in ns of time.monotonic_ns(); tasklets and places are numbers, 0 for none."""

    at: int
    object: int
    source: int
    target: int
    place: int
    caller: int
    type: int
    value: int
    kind: int
    reason: int
    thread: int


class Place(NamedTuple):
    """A line of a function; a name alone has file None and line 0."""

    name: str
    file: str | None
    line: int

    def __str__(self) -> str:
        """As in a traceback: the function, its file and the line."""
        return f"{self.name} ({self.file}:{self.line})" if self.file else self.name


class Sample(NamedTuple):
    """The stack of a tasklet that kept its thread, the outermost place first."""

    at: int
    thread: int
    tasklet: int
    since: int
    stack: tuple[Place, ...]


class Thread(NamedTuple):
    """One thread of the recording. `lost` is how many of its events were replaced by newer ones; `first` when it begins, in ns."""

    ident: int
    name: str
    lost: int
    first: int


class Span(NamedTuple):
    """Something that has a begin and an end, noted in Python: a remote call, modules on their way, a move.

    `tasklet` is 0 where none did it. `details` are for the reader, by name.
    """

    kind: str
    name: str
    begin: int
    end: int
    tasklet: int
    context: str
    details: dict[str, Any]


@dataclass
class Recording:
    """All that was recorded in one process. Times are ns of that process's time.monotonic_ns().

    `names` are those of the tasklets that lived at the end; those that ended before have theirs in an ENDS event. `lost` counts
    events of threads that came after too many others. `shift` is what must be added to its times for those of the process
    that takes the trace.
    """

    process: str
    pid: int
    started: int
    stopped: int
    threads: list[Thread]
    places: dict[int, Place]
    names: dict[int, str]
    mains: set[int] = field(default_factory=set)
    lost: int = 0
    places_missed: int = 0
    samples: list[Sample] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    spans_lost: int = 0
    shift: int = 0
    rings: dict[int, bytes] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        """How many events were recorded and are not here, because newer ones took their room."""
        return self.lost + sum(thread.lost for thread in self.threads)

    @property
    def count(self) -> int:
        """How many events are here."""
        return sum(len(events) // _EVENT.size for events in self.rings.values())

    def dropped_text(self) -> str:
        """What of the recording is missing, in one sentence; "" for nothing."""
        parts = []
        for thread in self.threads:
            if thread.lost:
                seconds = (thread.first - self.started) / 1e9
                parts.append(f"{thread.lost:,} events of {thread.name}, those of its first {seconds:.3f} s")
        if self.lost:
            parts.append(f"{self.lost:,} events of threads that have ended")
        if self.spans_lost:
            parts.append(f"{self.spans_lost:,} remote calls and modules")
        if self.places_missed:
            parts.append(f"the places of {self.places_missed:,} events")
        return "dropped, because the buffer was full: " + "; ".join(parts) if parts else ""

    def leave_out(self, ident: int) -> None:
        """Drop what was recorded of a thread, if anything was: one that the program does not know."""
        if self.rings.pop(ident, None) is not None:
            self.threads = [thread for thread in self.threads if thread.ident != ident]

    def keep_newest(self, ident: int, count: int) -> None:
        """Drop all but the newest `count` events of a thread; they count as lost."""
        events = self.rings[ident]
        dropped = len(events) // _EVENT.size - count
        if dropped <= 0:
            return
        events = self.rings[ident] = events[dropped * _EVENT.size :]
        first = _EVENT.unpack_from(events)[0] if events else self.stopped
        self.threads = [
            thread._replace(lost=thread.lost + dropped, first=first) if thread.ident == ident else thread
            for thread in self.threads
        ]

    def events(self) -> Iterator[Event]:
        """All events in the order of time; of the same instant in the order of their thread."""
        merged = [
            (fields[0], fields)
            for thread in self.threads
            for fields in ((*event[:10], thread.ident) for event in _EVENT.iter_unpack(self.rings[thread.ident]))
        ]
        merged.sort(key=lambda each: each[0])
        return (Event._make(fields) for _, fields in merged)


def from_core(
    raw: tuple[Any, ...], process: str, pid: int, names_of_threads: dict[int, str] | None = None
) -> Recording:
    """The recording that roamlet.core.trace_stop() has returned, in this process or in a context.

    Raises ValueError for anything else: that of a context was made by another process.
    """
    try:
        if not isinstance(raw, tuple) or len(raw) != 7:
            raise TypeError("not seven parts")
        started, stopped, lost, missed, threads, places, living = raw
        names = names_of_threads or {}
        recording = Recording(
            process,
            pid,
            int(started),
            int(stopped),
            [],
            {number: Place(str(name), file, line) for number, name, file, line in places},
            {number: name for number, name, _, _ in living if name is not None},
            {number for number, _, _, is_main in living if is_main},
            int(lost),
            int(missed),
        )
        seen: set[int] = set()
        for number, _ended, capacity, count, events in reversed(threads):
            ident = number
            while ident in seen:  # the system gives the number of a thread that has ended to another one
                ident += 1
            if len(events) % _EVENT.size:
                raise ValueError("events that are cut off")
            seen.add(ident)
            first = _EVENT.unpack_from(events)[0] if count > capacity else recording.started
            name = names.get(ident) or ("main thread" if not recording.threads else f"thread {ident:#x}")
            recording.threads.append(Thread(ident, name, max(0, count - capacity), first))
            recording.rings[ident] = events
    except (TypeError, struct.error) as error:
        raise ValueError(f"this is no recording of roamlet's: {error}") from error
    return recording


def thread_names() -> dict[int, str]:
    """The names of this process's threads, by their idents."""
    return {thread.ident: thread.name for thread in threading.enumerate() if thread.ident is not None}
