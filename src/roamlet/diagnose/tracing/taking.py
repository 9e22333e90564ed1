"""Taking a trace of this process: the recording is begun and ended, and tasklets that keep their thread are looked at meanwhile."""

import os
import sys
import time
from types import FrameType, TracebackType
from typing import TextIO

import roamlet
from roamlet import _observing as observing
from roamlet.core import _core, os_threads, outside_atomic
from roamlet.diagnose import background
from roamlet.diagnose.asking import outside_of
from roamlet.diagnose.tracing import recording as recorded
from roamlet.diagnose.tracing import writing
from roamlet.diagnose.tracing.contexts import Watched
from roamlet.diagnose.tracing.recording import Place, Recording, Sample

EVENTS = 1 << 18
HOLD = 0.01  # seconds
SAMPLES = 20_000
DEPTH = 100
_INTERNAL = os.path.dirname(roamlet.__file__) + os.sep


class Trace:
    """A trace of this process, taken inside a `with` block; roamlet.diagnose.trace() makes it."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, events: int = EVENTS, hold: float = HOLD) -> None:
        if path is not None:
            writing.form_of(path)
        if not 0.001 <= hold <= 3600:
            raise ValueError(f"trace(hold={hold!r}): a number of seconds from 0.001 to 3600, for instance 0.01")
        if not 16 <= events <= 1 << 24:
            raise ValueError(f"trace(events={events!r}): a thread's buffer has room for 16 to 16777216 events")
        self.path = path
        self.hold = hold
        self.recordings: list[Recording] = []
        self._events = events
        self._looker: _Looker | None = None
        self._watched: Watched | None = None

    def start(self) -> None:
        """Begin. Raises RuntimeError when this process takes a trace already. Blocks for a round trip to each open context."""
        _core.trace_start(_INTERNAL, self._events)
        _taken.add(self)
        self.recordings = []
        self._looker = _Looker(self.hold)
        self._watched = Watched(self._events)
        self._watched.begin()

    def stop(self) -> None:
        """End it: what was recorded is in `recordings`, this process's first. Does nothing when it was not begun."""
        looker, self._looker = self._looker, None
        if looker is None:
            return
        _taken.discard(self)
        watched, self._watched = self._watched, None
        assert watched is not None
        watched.end()
        names = recorded.thread_names()
        raw = _core.trace_stop()
        looker.stop()
        own = recorded.from_core(raw, "this process", os.getpid(), names)
        for ident in list(own.rings):
            # Those that take this trace, which are others after a fork.
            if names.get(ident) == background.NAME or (ident not in names and not own.rings[ident]):
                own.leave_out(ident)
        own.samples = looker.samples
        self.recordings = [own]
        own.spans, own.spans_lost = watched.spans, watched.lost
        self.recordings += watched.recordings

    def __enter__(self) -> "Trace":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self.path is not None:
            self.save(self.path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file, in the form that its name says: see roamlet.diagnose.trace(). Raises OSError, ValueError."""
        writing.save(path, self.recordings, int(self.hold * 1e9))

    def summary(self, file: TextIO | None = None) -> None:
        """Print how much was recorded, what was dropped, and the places with the longest waits. Default: sys.stderr."""
        writing.summary(self.recordings, int(self.hold * 1e9), file or sys.stderr)


_taken: set[Trace] = set()


def _forget_after_fork() -> None:
    """In a forked child: the trace is its parent's."""
    for trace in _taken:
        assert trace._looker is not None
        trace._looker.stop()
        if trace._watched is not None:
            observing.remove(trace._watched)
        trace._looker = trace._watched = None
        _core.trace_stop()
    _taken.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


class _Looker:
    """A thread that looks at tasklets that run for longer than `hold`, several times each, and keeps their stacks."""

    def __init__(self, hold: float) -> None:
        self.samples: list[Sample] = []
        self._limit = int(hold * 1e9 * 0.6)  # looked at before it is over, so that each that is longer has a stack
        self._period = min(hold / 3, 0.05)
        self._background = background.Background(self._look_again, self._period)
        self._background.start()

    def stop(self) -> None:
        outside_atomic(self._background.stop)

    def _look_again(self) -> float | None:
        held = _core.trace_held(self._limit)
        if held:
            self._look(held)
        return self._period if len(self.samples) < SAMPLES else None

    def _look(self, held: list[tuple[int, int, int]]) -> None:
        frames = sys._current_frames()
        try:
            for ident, tasklet, since in held:
                frame = frames.get(ident)
                if frame is not None and ident != os_threads.get_ident():
                    self.samples.append(
                        Sample(
                            time.monotonic_ns(), ident, tasklet, since, stack_of(outside_of(_INTERNAL, frame) or frame)
                        )
                    )
        finally:
            frame = None
            frames.clear()  # this frame is among them


def stack_of(frame: FrameType | None) -> tuple[Place, ...]:
    """The places of a frame and its callers, the outermost first; at most so many of the innermost."""
    stack: list[Place] = []
    while frame is not None and len(stack) < DEPTH:
        code = frame.f_code
        stack.append(Place(code.co_qualname, code.co_filename, frame.f_lineno or code.co_firstlineno))
        frame = frame.f_back
    return tuple(reversed(stack))
