"""Recordings to bytes and back: of a process that was asked for a trace, and in the one that has asked.

The asker may be root and the process anybody's: what it sends makes numbers and texts, or raises ValueError.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from roamlet.diagnose.tracing.recording import SIZE_OF_EVENT, Place, Recording, Sample, Span, Thread
from roamlet.wire import codec


def encoded(recordings: Sequence[Recording], most: int) -> list[bytes]:
    """The parts of an answer. Of more events than fit into `most` bytes the oldest of each thread are dropped, and counted."""
    total = sum(len(ring) for recording in recordings for ring in recording.rings.values())
    if total > most:
        for recording in recordings:
            for ident, ring in recording.rings.items():
                recording.keep_newest(ident, int(len(ring) / SIZE_OF_EVENT * most / total))
    parts: list[bytes] = [codec.dumps([_plain(each) for each in recordings], otherwise=False)]
    for recording in recordings:
        parts += [recording.rings[thread.ident] for thread in recording.threads]
    return parts


def _plain(recording: Recording) -> dict[str, Any]:
    stacks: dict[Place, int] = {}
    samples = [
        [*sample[:4], [stacks.setdefault(place, len(stacks)) for place in sample.stack]] for sample in recording.samples
    ]
    return {
        "process": recording.process,
        "numbers": [
            recording.pid,
            recording.started,
            recording.stopped,
            recording.lost,
            recording.places_missed,
            recording.spans_lost,
            recording.shift,
        ],
        "threads": [list(thread) for thread in recording.threads],
        "places": [[number, *place] for number, place in recording.places.items()],
        "names": [list(item) for item in recording.names.items()],
        "mains": list(recording.mains),
        "stacks": [list(place) for place in stacks],
        "samples": samples,
        "spans": [[*span[:6], [list(item) for item in span.details.items()]] for span in recording.spans],
    }


def decoded(parts: Sequence[bytes | bytearray]) -> list[Recording]:
    """What encoded() was given. Raises ValueError for anything else."""
    try:
        found = codec.loads(bytes(parts[0]))
        rings = map(bytes, parts[1:])
        recordings = [_recording(each, rings) for each in found]
    except (TypeError, KeyError, IndexError, AttributeError, StopIteration, RuntimeError) as error:
        raise ValueError(f"this is no trace of roamlet's: {error!r}") from error
    if next(rings, None) is not None or not recordings:
        raise ValueError("this is no trace of roamlet's: its parts do not belong together")
    return recordings


def _recording(found: dict[str, Any], rings: Iterator[bytes]) -> Recording:
    pid, started, stopped, lost, missed, spans_lost, shift = _numbers(found["numbers"])
    stacks = [_place(*each) for each in found["stacks"]]
    recording = Recording(
        _text(found["process"]),
        pid,
        started,
        stopped,
        [
            Thread(_number(ident), _text(name), _number(gone), _number(first))
            for ident, name, gone, first in found["threads"]
        ],
        {_number(number): _place(name, file, line) for number, name, file, line in found["places"]},
        {_number(number): _text(name) for number, name in found["names"]},
        set(_numbers(found["mains"])),
        lost,
        missed,
        [_sample(stacks, *each) for each in found["samples"]],
        [_span(*each) for each in found["spans"]],
        spans_lost,
        shift,
    )
    if len({thread.ident for thread in recording.threads}) != len(recording.threads):
        raise ValueError("this is no trace of roamlet's: two threads of one number")
    for thread in recording.threads:
        ring = next(rings)
        if len(ring) % SIZE_OF_EVENT:
            raise ValueError("this is no trace of roamlet's: events that are cut off")
        recording.rings[thread.ident] = ring
    return recording


def _place(name: Any, file: Any, line: Any) -> Place:
    return Place(_text(name), None if file is None else _text(file), _number(line))


def _sample(places: list[Place], at: Any, thread: Any, tasklet: Any, since: Any, stack: Any) -> Sample:
    known = tuple(places[_number(number)] for number in stack)
    return Sample(_number(at), _number(thread), _number(tasklet), _number(since), known)


def _span(kind: Any, name: Any, begin: Any, end: Any, tasklet: Any, context: Any, details: Any) -> Span:
    known = {_text(key): value for key, value in details}
    if not all(type(value) in (int, float, str, bool) for value in known.values()):
        raise TypeError("a detail that is neither a number nor a text")
    return Span(_text(kind), _text(name), _number(begin), _number(end), _number(tasklet), _text(context), known)


def _numbers(values: Iterable[Any]) -> list[int]:
    return [_number(value) for value in values]


def _number(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 64:
        raise TypeError(f"{value!r:.80} in place of a number")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r:.80} in place of a text")
    return value
