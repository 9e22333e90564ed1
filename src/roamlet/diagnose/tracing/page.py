"""A trace as one HTML file that loads nothing from elsewhere: what was recorded, in numbers, is put into page.html."""

import json
from importlib import resources
from typing import Any, TextIO

from roamlet.diagnose.tracing.chrome import title
from roamlet.diagnose.tracing.timeline import READY, RUNS, WAITS, Timeline, arrivals, holds, waits

SPANS = 60_000  # drawn at most: the longest
FLOWS = 20_000
ROWS = 200  # of each table
_STATES = {RUNS: 0, READY: 1, WAITS: 2}
HELD, REMOTE = 3, 4


def write(file: TextIO, lines: list[Timeline], limit: int) -> None:
    """Write the page. `limit` in ns: see timeline.holds."""
    page = resources.files(__package__).joinpath("page.html").read_text("utf-8")
    data = json.dumps(_Page(lines, limit).data(), separators=(",", ":"))
    # In a script element only `</` and `<!--` mean something.
    file.write(page.replace("@DATA@", data.replace("<", "\\u003c")))


class _Page:
    """What the script of the page reads. Times are in microseconds from the start of the trace."""

    def __init__(self, lines: list[Timeline], limit: int) -> None:
        self.lines = lines
        self.limit = limit
        self.start = lines[0].recording.started
        self.names: dict[str, int] = {}
        self.tracks: dict[tuple[int, int], int] = {}  # (timeline, tasklet) -> row
        self.rows: list[list[Any]] = []
        self.groups: list[str] = []

    def _name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))

    def _lay_out(self) -> None:
        for which, line in enumerate(self.lines):
            for thread in line.recording.threads:
                inside = [track for track in line.tracks.values() if track.thread == thread.ident]
                if not inside:
                    continue
                own = line.recording
                for track in sorted(inside, key=lambda each: each.number):
                    self.tracks[which, track.number] = len(self.rows)
                    self.rows.append([track.title, len(self.groups)])
                self.groups.append(f"{own.process} ({own.pid}), {thread.name}")

    def data(self) -> dict[str, Any]:
        self._lay_out()
        spans, thinned = self._spans()
        return {
            "about": f"{sum(line.recording.count for line in self.lines):,} events from "
            + ", ".join(f"{line.recording.process} ({line.recording.pid})" for line in self.lines),
            "missing": [
                f"{line.recording.process}: {text}" for line in self.lines if (text := line.recording.dropped_text())
            ],
            "cards": self._cards(),
            "end": max(self._time(line.recording.stopped, line) for line in self.lines),
            "groups": self.groups,
            "tracks": self.rows,
            "spans": spans,
            "thinned": thinned,
            "flows": self._flows(),
            "waits": self._waits(),
            "holds": self._holds(),
            "calls": self._calls(),
            "limit": self.limit / 1000,
            "names": list(self.names),
        }

    def _time(self, at: int, line: Timeline) -> float:
        return round((at + line.recording.shift - self.start) / 1000, 2)

    def _cards(self) -> list[tuple[str, str]]:
        own = self.lines[0].recording
        return [
            (f"{(own.stopped - own.started) / 1e9:.3f} s", "recorded"),
            (f"{len(self.rows):,}", "tasklets"),
            (f"{sum(line.switches for line in self.lines):,}", "switches"),
            (f"{sum(line.messages for line in self.lines):,}", "messages"),
            (f"{sum(line.recording.dropped for line in self.lines):,}", "events dropped"),
        ]

    def _spans(self) -> tuple[list[Any], str]:
        found: list[tuple[int, tuple[Any, ...]]] = []
        for which, line in enumerate(self.lines):
            for track in line.tracks.values():
                row = self.tracks[which, track.number]
                for each in track.stretches:
                    place = -1 if each.place is None else self._name(str(each.place))
                    found.append(
                        (
                            each.end - each.begin,
                            (
                                row,
                                _STATES[each.state],
                                self._time(each.begin, line),
                                (each.end - each.begin) / 1000,
                                self._name(title(each)),
                                place,
                            ),
                        )
                    )
        thinned = ""
        if len(found) > SPANS:
            found.sort(key=lambda each: -each[0])
            thinned = (
                f"{len(found) - SPANS:,} spans shorter than {found[SPANS][0] / 1000:,.1f} \u00b5s are not drawn; "
                "the tables count them, and the JSON file has them."
            )
            del found[SPANS:]
        for which, line in enumerate(self.lines):
            for hold in holds(line, self.limit):
                held_in = hold.stacks[0][1][-1] if hold.stacks else hold.place
                length = hold.end - hold.begin
                row = self.tracks[which, hold.tasklet]
                where = -1 if held_in is None else self._name(str(held_in))
                span = (row, HELD, self._time(hold.begin, line), length / 1000, self._name("held its thread"), where)
                found.append((length, span))
            for noted in line.recording.spans:
                known = self.tracks.get((which, noted.tasklet))
                if known is not None:
                    length = noted.end - noted.begin
                    name = self._name(f"{noted.kind}: {noted.name}")
                    where = self._name(noted.context)
                    span = (known, REMOTE, self._time(noted.begin, line), length / 1000, name, where)
                    found.append((length, span))
        found.sort(key=lambda each: each[1][2])
        return [value for _, span in found for value in span], thinned

    def _flows(self) -> list[tuple[Any, ...]]:
        flows = [
            (
                self.tracks[which, flow.source],
                self._time(flow.begin, line),
                self.tracks[which, flow.target],
                self._time(flow.end, line),
            )
            for which, line in enumerate(self.lines)
            for flow in line.flows
            if (which, flow.source) in self.tracks and (which, flow.target) in self.tracks
        ]
        step = len(flows) // FLOWS + 1
        moves = [
            (
                self.tracks[0, span.tasklet],
                self._time(span.begin, self.lines[0]),
                self.tracks[self.lines.index(line), track.number],
                self._time(track.stretches[0].begin, line),
            )
            for span, line, track in arrivals(self.lines)
            if (0, span.tasklet) in self.tracks
        ]
        return flows[::step] + moves

    def _waits(self) -> list[tuple[Any, ...]]:
        found = waits(track for line in self.lines for track in line.tracks.values())[:ROWS]
        return [
            (
                each.total / 1000,
                each.times,
                each.longest / 1000,
                each.tasklets,
                each.why,
                str(each.place) if each.place else "",
                str(each.caller) if each.caller else "",
            )
            for each in found
        ]

    def _holds(self) -> list[tuple[Any, ...]]:
        result = []
        for line in self.lines:
            for hold in holds(line, self.limit)[:ROWS]:
                place = hold.stacks[0][1][-1] if hold.stacks else hold.place
                stacks = [(count, [str(each) for each in stack]) for count, stack in hold.stacks[:5]]
                name = line.tracks[hold.tasklet].title
                begin = self._time(hold.begin, line)
                where = str(place) if place else ""
                result.append(((hold.end - hold.begin) / 1000, begin, hold.delayed, name, where, stacks))
        return sorted(result, key=lambda each: -each[0])

    def _calls(self) -> list[tuple[Any, ...]]:
        result = []
        for line in self.lines:
            for each in sorted(line.recording.spans, key=lambda each: each.begin - each.end)[:ROWS]:
                track = line.tracks.get(each.tasklet)
                target, wire = each.details.get("on the target (ms)"), each.details.get("on the wire (ms)")
                result.append(
                    (
                        (each.end - each.begin) / 1000,
                        self._time(each.begin, line),
                        None if target is None else target * 1000,
                        None if wire is None else wire * 1000,
                        f"{each.kind}: {each.name}",
                        each.context,
                        track.title if track is not None else "",
                    )
                )
        return sorted(result, key=lambda each: each[1])
