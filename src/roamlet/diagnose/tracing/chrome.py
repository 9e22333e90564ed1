"""A trace in the Trace Event Format of Chrome, as JSON: Perfetto opens it (ui.perfetto.dev), and speedscope and chrome://tracing.

A process of that format is a thread of a context here, and a thread of it is a tasklet: both viewers group tracks only so.
Times are in microseconds from the start of the trace.
"""

import json
from collections.abc import Iterator
from typing import Any, TextIO

from roamlet.diagnose.tracing.recording import Recording, Span
from roamlet.diagnose.tracing.timeline import READY, RUNS, Flow, Hold, Stretch, Timeline, Track, arrivals, holds

Json = dict[str, Any]

OVERVIEW = 0  # the track of a thread itself
CONTEXTS = 100_000  # tracks of what is no tasklet's: modules on their way


def write(file: TextIO, lines: list[Timeline], limit: int) -> None:
    """Write the timelines, the first of which is this process's. `limit` in ns: see timeline.holds."""
    file.write('{"displayTimeUnit": "ns", "otherData": ')
    file.write(json.dumps(_about(lines)))
    file.write(',\n"traceEvents": [\n')
    separator = ""
    for event in events(lines, limit):
        file.write(separator + json.dumps(event, separators=(",", ":")))
        separator = ",\n"
    file.write("\n]}\n")


def _about(lines: list[Timeline]) -> Json:
    return {
        "made by": "roamlet trace",
        "events dropped": sum(line.recording.dropped for line in lines),
        "switches": sum(line.switches for line in lines),
        "messages": sum(line.messages for line in lines),
    }


def events(lines: list[Timeline], limit: int) -> Iterator[Json]:
    """The trace events, one by one."""
    start = lines[0].recording.started
    group = flow = 0
    processes: list[_Process] = []
    for line in lines:
        groups = {}
        for thread in line.recording.threads:
            if any(track.thread == thread.ident for track in line.tracks.values()):
                group += 1
                groups[thread.ident] = group
                yield from _about_group(group, line.recording, thread.name, len(groups))
        offset = start - line.recording.shift
        own = _Process(groups, offset, group)
        processes.append(own)
        for track in line.tracks.values():
            yield from own.track(track)
        yield from own.overview(line)
        for hold in holds(line, limit):
            yield own.hold(hold, line.tracks[hold.tasklet])
        for each in line.flows:
            if each.source in line.tracks and each.target in line.tracks:
                flow += 1
                yield from own.flow(each, flow, line.tracks)
        for span in line.recording.spans:
            yield own.span(span, line.tracks)
    for span, line, arrived in arrivals(lines):
        left = lines[0].tracks.get(span.tasklet)
        if left is not None:
            flow += 1
            there = processes[lines.index(line)]
            yield processes[0].flow_end("s", "move", flow, left, span.begin)
            yield there.flow_end("f", "move", flow, arrived, arrived.stretches[0].begin)


def _about_group(group: int, recording: Recording, thread: str, position: int) -> Iterator[Json]:
    def about(what: str, tid: int, **args: Any) -> Json:
        return {"ph": "M", "name": what, "pid": group, "tid": tid, "args": args}

    yield about("process_name", 0, name=f"{recording.process} ({recording.pid}), {thread}")
    yield about("process_sort_index", 0, sort_index=group)
    yield about("thread_name", OVERVIEW, name="the thread: which tasklet runs")
    yield about("thread_sort_index", OVERVIEW, sort_index=-1)
    if position == 1 and recording.spans:
        yield about("thread_name", CONTEXTS, name="modules that travelled")


class _Process:
    """The events of one timeline."""

    def __init__(self, groups: dict[int, int], offset: int, last: int) -> None:
        self.groups = groups
        self.offset = offset
        self.last = last

    def _time(self, at: int) -> float:
        return round((at - self.offset) / 1000, 3)

    def _slice(self, pid: int, tid: int, name: str, category: str, begin: int, end: int, args: Json) -> Json:
        return {
            "ph": "X",
            "name": name,
            "cat": category,
            "pid": pid,
            "tid": tid,
            "ts": self._time(begin),
            # Less by the last digit: a sum of floats may be larger than where the next slice begins, which would lie in this one.
            "dur": max(0, end - begin - 1) / 1000,
            "args": args,
        }

    def track(self, track: Track) -> Iterator[Json]:
        pid = self.groups.get(track.thread, self.last)
        args: Json = {"name": track.title}
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": track.number, "args": args}
        yield {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": pid,
            "tid": track.number,
            "args": {"sort_index": track.number},
        }
        for stretch in track.stretches:
            yield self._slice(
                pid, track.number, title(stretch), stretch.state, stretch.begin, stretch.end, details(stretch)
            )

    def overview(self, line: Timeline) -> Iterator[Json]:
        for track in line.tracks.values():
            pid = self.groups.get(track.thread, self.last)
            for stretch in track.stretches:
                if stretch.state == RUNS:
                    yield self._slice(pid, OVERVIEW, track.title, "thread", stretch.begin, stretch.end, {})
        for thread, idles in line.idle.items():
            for begin, end in idles:
                if thread in self.groups:
                    yield self._slice(self.groups[thread], OVERVIEW, "no tasklet can run", "idle", begin, end, {})

    def hold(self, hold: Hold, track: Track) -> Json:
        pid = self.groups.get(track.thread, self.last)
        stack = hold.stacks[0][1] if hold.stacks else ()
        name = f"held by {stack[-1].name}" if stack else "held"
        args: Json = {
            "ms": round((hold.end - hold.begin) / 1e6, 3),
            "tasklets that were ready meanwhile": hold.delayed,
            "stack": [str(place) for place in stack],
        }
        return self._slice(pid, track.number, name, "held", hold.begin, hold.end, args)

    def flow(self, flow: Flow, number: int, tracks: dict[int, Track]) -> Iterator[Json]:
        yield self.flow_end("s", flow.kind, number, tracks[flow.source], flow.begin)
        yield self.flow_end("f", flow.kind, number, tracks[flow.target], flow.end)

    def flow_end(self, phase: str, kind: str, number: int, track: Track, at: int) -> Json:
        """Where a flow begins, phase s, or ends, phase f."""
        event: Json = {
            "ph": phase,
            "cat": kind,
            "name": kind,
            "id": number,
            "pid": self.groups.get(track.thread, self.last),
            "tid": track.number,
            "ts": self._time(at),
        }
        if phase == "f":
            event["bp"] = "e"
        return event

    def span(self, span: Span, tracks: dict[int, Track]) -> Json:
        track = tracks.get(span.tasklet)
        pid = self.groups.get(track.thread, self.last) if track is not None else min(self.groups.values(), default=1)
        tid = span.tasklet if track is not None else CONTEXTS
        args: Json = {"context": span.context, **span.details}
        return self._slice(pid, tid, span.name, span.kind, span.begin, span.end, args)


def title(stretch: Stretch) -> str:
    """What a slice of a tasklet's track is called."""
    if stretch.state == RUNS:
        return "runs"
    if stretch.state == READY:
        return f"ready ({stretch.why})"
    return f"waits: {stretch.why}"


def details(stretch: Stretch) -> Json:
    """What is shown of a slice that is clicked at."""
    args: Json = {}
    if stretch.place is not None:
        args["place"] = str(stretch.place)
    if stretch.caller is not None:
        args["called by"] = str(stretch.caller)
    if stretch.state == RUNS and stretch.why:
        args["then"] = stretch.why
    if stretch.on:
        args["object"] = hex(stretch.on)
    return args
