"""Traces as files and as text: the form of a file is that of its name."""

import errno
import gzip
import io
import os
import stat
from typing import TextIO

from roamlet._escapes import print_escaped
from roamlet.diagnose.tracing import chrome, page, speedscope
from roamlet.diagnose.tracing.recording import Recording
from roamlet.diagnose.tracing.timeline import Hold, Timeline, holds, never_ran, timeline, waits

FORMS = (".json", ".json.gz", ".speedscope.json", ".html")
SHOWN = 5  # rows of each list in a summary


def form_of(path: str | os.PathLike[str]) -> str:
    """The form that the name of a file says. Raises ValueError for a name that says none."""
    name = os.fspath(path)
    for form in (".speedscope.json", ".json.gz", ".json", ".html"):
        if name.endswith(form):
            return form
    raise ValueError(f"{name}: the name of a trace ends in one of {', '.join(FORMS)}")


def try_to_write(path: str) -> None:
    """Raise OSError if `path` cannot be opened for writing. Leaves what is there; a file made for this is removed again.

    A pipe is refused: whatever reads it would see its end here, and the trace would wait for a reader for ever.
    """
    existed = os.path.lexists(path)
    if os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode):
        raise OSError(errno.ESPIPE, "this is a pipe, and a trace is written to a file", path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
    if not existed:
        os.unlink(path)


def save(path: str | os.PathLike[str], recordings: list[Recording], limit: int) -> None:
    """Write the recordings to `path`. `limit` in ns: see timeline.holds. Raises OSError; ValueError for a name without a form."""
    form = form_of(path)
    lines = _timelines(recordings)
    if form == ".json.gz":
        with gzip.open(path, "wb", compresslevel=6) as packed, io.TextIOWrapper(packed, "utf-8") as file:
            chrome.write(file, lines, limit)
        return
    with open(path, "w", encoding="utf-8") as file:
        if form == ".html":
            page.write(file, lines, limit)
        elif form == ".speedscope.json":
            speedscope.write(file, lines)
        else:
            chrome.write(file, lines, limit)


def _timelines(recordings: list[Recording]) -> list[Timeline]:
    if not recordings:
        raise ValueError("nothing was recorded: the trace has not ended yet, or has not begun")
    return [timeline(recording) for recording in recordings]


def summary(recordings: list[Recording], limit: int, file: TextIO) -> None:
    """Print what was recorded, the longest waits and the longest holds."""
    for line in _timelines(recordings):
        own = line.recording
        seconds = (own.stopped - own.started) / 1e9
        text = (
            f"{own.process}: {seconds:.3f} s, {len(line.tracks):,} tasklets, {line.switches:,} switches, "
            f"{line.messages:,} messages"
        )
        print_escaped(text, file)
        if missing := own.dropped_text():
            print_escaped(f"  {missing}", file)
        for wait in waits(line.tracks.values())[:SHOWN]:
            what = f"  waited {wait.total / 1e9:9.3f} s in {wait.times:,} x {wait.why}"
            print_escaped(f"{what} at {wait.place}" if wait.place else what, file)
        if never := never_ran(line.tracks.values()):
            names = ", ".join(track.title for track in never[:SHOWN])
            more = f", and {len(never) - SHOWN:,} more" if len(never) > SHOWN else ""
            print_escaped(f"  ready to run, and never ran: {names}{more}", file)
        at: dict[object, list[Hold]] = {}
        for hold in holds(line, limit):
            at.setdefault(hold.stacks[0][1][-1] if hold.stacks else hold.place, []).append(hold)
        for where, alike in sorted(at.items(), key=lambda one: -sum(hold.end - hold.begin for hold in one[1]))[:SHOWN]:
            longest = max(alike, key=lambda hold: hold.end - hold.begin)
            what = (
                f"  held its thread {(longest.end - longest.begin) / 1e6:9.1f} ms: {line.tracks[longest.tasklet].title}"
            )
            what += f" in {where}" if where else ""
            if len(alike) > 1:
                total = sum(hold.end - hold.begin for hold in alike) / 1e9
                what += f"; {len(alike):,} times in all, {total:.3f} s"
            print_escaped(what, file)
