"""Take the import figures: both sides through the same lines, in turns, the fastest turn of each."""

import itertools
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..bare import bare_python, command
from ..workers import Worker, WorkerFailed

SIDES = ("weft", "mitogen")


class Line(NamedTuple):
    """A line to the far interpreter: its round trip in ms and its rate in Mbit/s, 0 for no limit."""

    round_trip: int
    rate: int = 0

    @property
    def title(self) -> str:
        return f"{self.round_trip} ms" + (f", {self.rate} Mbit/s" if self.rate else "")


@dataclass(frozen=True)
class Settings:
    """How much work a run does. A cold run needs a fresh parent process each time."""

    lines: tuple[Line, ...] = (Line(0), Line(20), Line(80), Line(200), Line(80, 10))
    rounds: int = 3
    cold_lines: tuple[Line, ...] = (Line(0), Line(20), Line(80), Line(200))
    cold_rounds: int = 2


QUICK = Settings(lines=(Line(0), Line(200)), rounds=2, cold_lines=(Line(0),), cold_rounds=1)


class Lines:
    """Gives out executable commands: a bare interpreter at the far end of a line, with a file where the line counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._python = bare_python(folder)
        self._numbers = itertools.count()

    def ask(self, worker: Worker, line: Line) -> dict[str, Any]:
        """One fresh import by this worker through a new line of this kind."""
        number = next(self._numbers)
        counters = self._folder / f"counters-{number}"
        counters.touch()
        through = (line.round_trip / 1000, line.rate * 125_000, counters)
        python = command(self._folder, f"python-{number}", self._python, through)
        taken: dict[str, Any] = worker.ask("fresh_import", python=str(python), counters=str(counters), timeout=60)
        return taken


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"warm"|"cold": {side: {line: {...the fastest turn..., "turns": [seconds, ...]}}}, "first": {side: {...}}, "skipped"}.

    Warm: one parent process, which has imported Django and scanned it for an earlier context; that first run is kept as "first".
    Cold: a new parent process for each run, which has not imported Django; the scan is part of the seconds.
    """
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        lines = Lines(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-bench-"))))
        first, warm = take_warm(settings, lines, skipped, say)
        present = [side for side in SIDES if side in first]
        cold = take_cold(settings, lines, present, skipped, say)
    about = {side: first[side].pop("about") for side in present}
    return {"first": first, "warm": warm, "cold": cold, "about": about, "skipped": skipped}


def take_warm(
    settings: Settings, lines: Lines, skipped: dict[str, str], say: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    first: dict[str, Any] = {}
    turns: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with ExitStack() as stack:
        workers = {}
        for side in SIDES:
            worker = stack.enter_context(Worker("bench.remote_import.worker", side, "import_at_top"))
            try:
                about = worker.ask("about", timeout=30)
                first[side] = {**lines.ask(worker, Line(0)), "about": about}
            except WorkerFailed as failure:
                skipped[side] = str(failure)
            else:
                workers[side] = worker
                turns[side] = {line.title: [] for line in settings.lines}
        for line, _ in itertools.product(settings.lines, range(settings.rounds)):
            say(f"import: {', '.join(workers)}, {line.title}, scan warm")
            for side, worker in workers.items():
                turns[side][line.title].append(lines.ask(worker, line))
    return first, fastest(turns)


def take_cold(
    settings: Settings, lines: Lines, sides: list[str], skipped: dict[str, str], say: Callable[[str], None]
) -> dict[str, Any]:
    turns: dict[str, dict[str, list[dict[str, Any]]]] = {
        side: {line.title: [] for line in settings.cold_lines} for side in sides
    }
    for line, _, side in itertools.product(settings.cold_lines, range(settings.cold_rounds), sides):
        say(f"import: {side}, {line.title}, not imported by the parent")
        with Worker("bench.remote_import.worker", side, "import_in_function") as worker:
            try:
                turns[side][line.title].append(lines.ask(worker, line))
            except WorkerFailed as failure:
                skipped[f"{side}, not imported, {line.title}"] = str(failure)
    return fastest(turns)


def fastest(turns: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """Of each side and line the turn with the fastest import, and with it the shortest time to connect of them all."""
    taken: dict[str, Any] = {}
    for side, by_line in turns.items():
        taken[side] = {}
        for line, all_turns in by_line.items():
            if all_turns:
                best = min(all_turns, key=lambda turn: turn["import_s"])
                shortest = min(turn["connect_s"] for turn in all_turns)
                taken[side][line] = {**best, "connect_s": shortest, "turns": [turn["import_s"] for turn in all_turns]}
    return taken
