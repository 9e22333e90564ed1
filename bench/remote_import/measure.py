"""Take the import figures: both sides through the same lines, in turns; of each the fastest turn, with losses the median one."""

import itertools
import statistics
import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..bare import bare_python, command
from ..workers import Worker, WorkerFailed

SIDES = ("roamlet", "mitogen")


class Line(NamedTuple):
    """A line to the far interpreter: round trip in ms, rate in Mbit/s (0: no limit), jitter in ms, packets lost in percent."""

    round_trip: int
    rate: int = 0
    jitter: int = 0
    loss: float = 0

    @property
    def title(self) -> str:
        words = [f"{self.round_trip} ms"]
        words += [f"{self.rate} Mbit/s"] * bool(self.rate)
        words += [f"{self.jitter} ms jitter"] * bool(self.jitter)
        words += [f"{self.loss:g} % lost"] * bool(self.loss)
        return ", ".join(words)

    def delays(self, seed: int) -> str:
        """As the relay wants them."""
        return f"{self.round_trip / 1000}:{self.jitter / 1000}:{self.loss / 100}:{seed}"


HOP_LINE = Line(200, rate=4)


@dataclass(frozen=True)
class Settings:
    """How much work a run does. A cold run needs a fresh parent process each time, and so does a scan."""

    lines: tuple[Line, ...] = (
        Line(0),
        Line(20),
        Line(80),
        Line(200),
        Line(80, rate=10),
        Line(80, rate=10, jitter=20, loss=1),
    )
    rounds: int = 3
    cold_lines: tuple[Line, ...] = (Line(0), Line(20), Line(80), Line(200))
    cold_rounds: int = 2
    requests_lines: tuple[Line, ...] = (Line(0), Line(200))
    requests_rounds: int = 2
    hop_line: Line = HOP_LINE
    hop_rounds: int = 4
    scans: int = 3


QUICK = Settings(
    lines=(Line(0), Line(200)),
    rounds=2,
    cold_lines=(Line(0),),
    cold_rounds=1,
    requests_lines=(Line(200),),
    requests_rounds=1,
    hop_line=Line(200, rate=10),
    hop_rounds=1,
    scans=1,
)


class Lines:
    """Gives out executable commands: a bare interpreter at the far end of a line, with a file where the line counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._python = bare_python(folder)
        self._numbers = itertools.count()

    def ask(self, worker: Worker, line: Line, seed: int = 0) -> dict[str, Any]:
        """One fresh import by this worker through a new line of this kind."""
        python, counters = self._new(line, seed)
        taken: dict[str, Any] = worker.ask("fresh_import", python=str(python), counters=str(counters), timeout=60)
        return taken

    def ask_through(self, worker: Worker, line: Line, hops: int) -> float:
        """Seconds of one fresh import by this worker through `hops` new lines of this kind in a row."""
        pythons = [str(self._new(line, 0)[0]) for _ in range(hops)]
        seconds: float = worker.ask("through_hops", pythons=pythons, timeout=90)["import_s"]
        return seconds

    def _new(self, line: Line, seed: int) -> tuple[Path, Path]:
        number = next(self._numbers)
        counters = self._folder / f"counters-{number}"
        counters.touch()
        through = (line.delays(seed), line.rate * 125_000, counters)
        return command(self._folder, f"python-{number}", self._python, through), counters


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"warm"|"cold"|"requests": {side: {line: {..., "turns": [seconds, ...]}}}, "first": {side: {...}}, "hops", "scan", ...}.

    Warm: one parent process, which has imported Django and scanned it for an earlier context; that first run is kept as "first".
    Cold: a new parent process for each run, which has not imported Django; the scan is part of the seconds.
    Requests: warm, too. "hops" is {"line", "round_trip": seconds, "import_s": {side: {number of lines: [seconds, ...]}}},
    "scan" {"seconds", "modules", "bytes", "turns"}. What failed is in "skipped".
    """
    skipped: dict[str, str] = {}
    run: dict[str, Any] = {"skipped": skipped}
    with tempfile.TemporaryDirectory(prefix="roamlet-bench-") as folder:
        lines = Lines(Path(folder))
        with ExitStack() as stack:
            workers, run["first"] = warmed("import_at_top", lines, stack, skipped)
            run["warm"] = take_warm(settings.lines, settings.rounds, workers, lines, say)
            run["hops"] = take_hops(settings, workers, lines, skipped, say)
        run["about"] = {side: taken.pop("about") for side, taken in run["first"].items()}
        run["cold"] = take_cold(settings, lines, list(run["first"]), skipped, say)
        with ExitStack() as stack:
            workers, _ = warmed("import_requests", lines, stack, skipped)
            run["requests"] = take_warm(settings.requests_lines, settings.requests_rounds, workers, lines, say)
        run["scan"] = take_scan(settings.scans, skipped, say)
    return run


def warmed(
    variant: str, lines: Lines, stack: ExitStack, skipped: dict[str, str]
) -> tuple[dict[str, Worker], dict[str, Any]]:
    """The parent process of each side, which lives as long as `stack` and has done one import; and the figures of that import."""
    workers, first = {}, {}
    for side in SIDES:
        worker = stack.enter_context(Worker("bench.remote_import.worker", side, variant))
        try:
            about = worker.ask("about", timeout=30)
            first[side] = {**lines.ask(worker, Line(0)), "about": about}
        except WorkerFailed as failure:
            skipped[side if variant == "import_at_top" else f"{side}, {variant}"] = str(failure)
        else:
            workers[side] = worker
    return workers, first


def take_warm(
    over: tuple[Line, ...], rounds: int, workers: dict[str, Worker], lines: Lines, say: Callable[[str], None]
) -> dict[str, Any]:
    turns: dict[str, dict[str, list[dict[str, Any]]]] = {side: {line.title: [] for line in over} for side in workers}
    for line, number in itertools.product(over, range(rounds)):
        say(f"import: {', '.join(workers)}, {line.title}, scan warm")
        for side, worker in workers.items():
            turns[side][line.title].append(lines.ask(worker, line, seed=number))
    return chosen(turns, {line.title for line in over if line.loss or line.jitter})


def take_hops(
    settings: Settings, workers: dict[str, Worker], lines: Lines, skipped: dict[str, str], say: Callable[[str], None]
) -> dict[str, Any]:
    """Through one line, and through two lines of the same kind in a row, in turns."""
    line = settings.hop_line
    taken: dict[str, dict[str, list[float]]] = {side: {"1": [], "2": []} for side in workers}
    for _, hops, (side, worker) in itertools.product(range(settings.hop_rounds), (1, 2), workers.items()):
        say(f"import: {side}, {hops} x {line.title}")
        try:
            taken[side][str(hops)].append(lines.ask_through(worker, line, hops))
        except WorkerFailed as failure:
            skipped[f"{side}, {hops} hops"] = str(failure)
    return {"line": line.title, "round_trip": line.round_trip / 1000, "import_s": taken}


def take_scan(scans: int, skipped: dict[str, str], say: Callable[[str], None]) -> dict[str, Any]:
    """The fastest scan, each in a parent process of its own."""
    turns: list[dict[str, Any]] = []
    for _ in range(scans):
        say("import: roamlet, scanning Django")
        with Worker("bench.remote_import.worker", "roamlet", "import_in_function") as worker:
            try:
                turns.append(worker.ask("scan", timeout=30))
            except WorkerFailed as failure:
                skipped["scan"] = str(failure)
    if not turns:
        return {}
    return {**min(turns, key=lambda turn: turn["seconds"]), "turns": [turn["seconds"] for turn in turns]}


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
    return chosen(turns)


def chosen(turns: dict[str, dict[str, list[dict[str, Any]]]], by_luck: Collection[str] = ()) -> dict[str, Any]:
    """Of each side and line the turn with the fastest import, of the lines `by_luck` the median one.

    With it goes the shortest time to connect of them all.
    """
    taken: dict[str, Any] = {}
    for side, by_line in turns.items():
        taken[side] = {}
        for line, all_turns in by_line.items():
            if not all_turns:
                continue
            seconds = [turn["import_s"] for turn in all_turns]
            wanted = statistics.median_low(seconds) if line in by_luck else min(seconds)
            shortest = min(turn["connect_s"] for turn in all_turns)
            taken[side][line] = {**all_turns[seconds.index(wanted)], "connect_s": shortest, "turns": seconds}
    return taken
