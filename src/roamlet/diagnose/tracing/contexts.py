"""Contexts in a trace: calls with their time on the wire and on the target, modules sent, moves, and the tasklets of targets.

A target notes the begin and end of each call by its own clock, and its tasklets with its own core. How far that clock is from this
process's is found from the calls: what a target notes of one lies between its sending and its answer.
"""

import logging
import sys
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from roamlet import _observing as observing
from roamlet.core import _core
from roamlet.diagnose.tracing import recording as recorded
from roamlet.diagnose.tracing.recording import Recording, Span

if TYPE_CHECKING:
    from roamlet.remote.calls.engine import Calls

SPANS = 100_000  # of calls, modules and moves
PATIENCE = 10.0  # seconds for a context to begin, and to hand over what it has
SHOWN = 10  # names of modules

_log = logging.getLogger("roamlet.diagnose")


class _Context:
    """One context: the calls to it that were sent, and the bounds of what its clock is ahead of this process's, in ns."""

    def __init__(self, calls: "Calls") -> None:
        self.name = calls.name
        self.near = calls.link.is_near
        self.pid = 0
        self.least, self.most = -(1 << 62), 1 << 62
        self.sent: dict[int, tuple[str, int, int]] = {}
        self.calls: list[tuple[int, str, int, int, int]] = []  # number, text, begin, end, tasklet

    def bound(self, clock: int, after: int, before: int) -> None:
        """Its clock was `clock` at some time between the two of this process's."""
        self.least = max(self.least, clock - before)
        self.most = min(self.most, clock - after)

    @property
    def ahead(self) -> int:
        return 0 if self.near and self.least <= 0 <= self.most else (self.least + self.most) // 2


class Watched(observing.Observer):
    """The observer of a trace; see roamlet/_observing.py. `spans` and `recordings` are complete after end()."""

    def __init__(self, events: int) -> None:
        self.spans: list[Span] = []
        self.lost: int = 0
        self.recordings: list[Recording] = []
        self._events = events
        self._contexts: dict[Calls, _Context] = {}

    def begin(self) -> None:
        """Observe, and have all contexts that are open note what they do. Blocks this tasklet for a round trip to each."""
        observing.add(self)
        engine = sys.modules.get("roamlet.remote.calls.engine")  # a program without contexts has not loaded it
        for calls in engine.opened() if engine is not None else ():
            self.opened(calls)

    def end(self) -> None:
        """Fetch what the contexts have noted. Blocks this tasklet for a round trip to each."""
        for calls in list(self._contexts):
            self.closing(calls)
        observing.remove(self)

    def _add(self, span: Span) -> None:
        if len(self.spans) < SPANS:
            self.spans.append(span)
        else:
            self.lost += 1

    # ---- what is told

    def opened(self, calls: Any) -> None:
        # Inside, as in closing(): 8 MB that a program without contexts does not need.
        from roamlet.remote import RemoteError
        from roamlet.wire.calls import timed

        context = _Context(calls)
        try:
            calls.shipping.need("calls.timed")
            before = time.monotonic_ns()
            clock, context.pid = calls.call(timed.start, (self._events,), timeout=PATIENCE)
            context.bound(clock, before, time.monotonic_ns())
        except RemoteError as error:
            _log.warning("the trace has nothing of what %s does: %s", calls.name, error)
            return
        context.sent.clear()
        self._contexts[calls] = context

    def closing(self, calls: Any) -> None:
        context = self._contexts.pop(calls, None)
        if context is None:
            return
        # Inside: as in opened().
        from roamlet.remote import RemoteError
        from roamlet.wire.calls import timed

        try:
            before = time.monotonic_ns()
            clock, done, lost, raw = calls.call(timed.stop, timeout=PATIENCE)
            context.bound(clock, before, time.monotonic_ns())
            self.lost += int(lost)
            times = {int(number): (int(begin), int(end)) for number, begin, end in done}
            self._settle(context, times)
            if raw is not None:
                recording = recorded.from_core(tuple(raw), f"context {context.name}", context.pid)
                recording.shift = -context.ahead
                self.recordings.append(recording)
        except (RemoteError, ValueError, TypeError) as error:
            _log.warning("the trace has nothing of what %s did: %s", context.name, error)
            self._settle(context, {})

    def _settle(self, context: _Context, times: dict[int, tuple[int, int]]) -> None:
        """Make spans of the calls to a context."""
        for number, _, begin, end, _ in context.calls:
            if number in times:
                context.bound(times[number][0], begin, end)
                context.bound(times[number][1], begin, end)
        for number, text, begin, end, tasklet in context.calls:
            details: dict[str, Any] = {}
            inner: tuple[Span, ...] = ()
            if number in times:
                start, stop = (at - context.ahead for at in times[number])
                details = {
                    "on the target (ms)": (stop - start) / 1e6,
                    "on the wire (ms)": max(0, end - begin - (stop - start)) / 1e6,
                    "target's clock ahead by (ms)": context.ahead / 1e6,
                }
                start, stop = max(begin, start), min(end, stop)
                if start < stop:
                    inner = (Span("on the target", text, start, stop, tasklet, context.name, {}),)
            self._add(Span("remote call", text, begin, end, tasklet, context.name, details))
            for span in inner:
                self._add(span)

    def sent(self, calls: Any, number: int, text: str, began: int) -> None:
        context = self._contexts.get(calls)
        if context is not None and began:
            context.sent[number] = (text, began, _core.trace_current())

    def answered(self, calls: Any, number: int) -> None:
        context = self._contexts.get(calls)
        sent = context.sent.pop(number, None) if context is not None else None
        if context is not None and sent is not None and len(context.calls) < SPANS:
            context.calls.append((number, sent[0], sent[1], time.monotonic_ns(), sent[2]))

    def shipped(self, context: str, names: Collection[str]) -> None:
        own = sorted(name for name in names if name.partition(".")[0] != "roamlet")
        if own:
            now = time.monotonic_ns()
            some = ", ".join(own[:SHOWN]) + (f" and {len(own) - SHOWN} more" if len(own) > SHOWN else "")
            self._add(
                Span("modules sent", some, now, now + 1000, _core.trace_current(), context, {"modules": len(own)})
            )

    def moved(self, context: str, item: Any, name: str, begin: int) -> None:
        details = {"tasklet": name}
        number = _core.trace_current(item)
        self._add(Span("move", f"{name} moves to {context}", begin, time.monotonic_ns(), number, context, details))
