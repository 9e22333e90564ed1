"""Take the snapshot figures: each side in a process of its own, in turns. Of chains the best turn counts, of travel the median."""

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ..bare import bare_python, command
from ..workers import ROOT, Worker, WorkerFailed

SIDES = ("roamlet", "dispatch-py", "pickle")
FRAMES = (4, 50, 500)


@dataclass(frozen=True)
class Settings:
    """How much work a run does. `frames`: how many of them a turn saves in all; `many`: how many chains go through a file."""

    rounds: int = 15
    frames: int = 8_000
    many: int = 100_000
    travels: int = 200
    far: int = 5  # the same at the end of a slow line
    lines: tuple[int, ...] = (0, 200)  # round trips in ms


QUICK = Settings(rounds=4, frames=4_000, many=10_000, travels=50, far=2)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"frames": {count: {side: {"bytes", "save_us", "restore_us", "turns"}}}, "many": {side: {"save", "restore"}}, "count",
    "travel": {round trip in ms: {"call_s", "move_s", "block_s"}}, "skipped": {what: reason}}.
    """
    skipped: dict[str, str] = {}
    return {
        "frames": take_frames(settings, skipped, say),
        "many": take_many(settings, skipped, say),
        "count": settings.many,
        "travel": take_travel(settings, skipped, say),
        "skipped": skipped,
    }


def take_frames(settings: Settings, skipped: dict[str, str], say: Callable[[str], None]) -> dict[str, Any]:
    turns: dict[str, dict[str, list[dict[str, float]]]] = {str(frames): {} for frames in FRAMES}
    with ExitStack() as stack:
        workers = {side: stack.enter_context(Worker("bench.snapshot.worker", side)) for side in SIDES}
        for frames in FRAMES:
            say(f"snapshot: chains of {frames} frames, {settings.rounds} rounds")
            for _, (side, worker) in itertools.product(range(settings.rounds), workers.items()):
                what = f"{side}, {frames} frames"
                if side in skipped or what in skipped:
                    continue
                try:
                    found = worker.ask("turn", frames=frames, times=max(1, settings.frames // frames))
                except WorkerFailed as failure:
                    first = frames == FRAMES[0]  # then it is not there at all; later the chain is too deep for it
                    skipped[side if first else what] = str(failure)
                else:
                    turns[str(frames)].setdefault(side, []).append(found)
    return {frames: {side: chosen(taken) for side, taken in by_side.items()} for frames, by_side in turns.items()}


def chosen(turns: list[dict[str, float]]) -> dict[str, Any]:
    """The least of each figure, and all of them."""
    every = {key: [turn[key] for turn in turns] for key in turns[0]}
    return {**{key: min(some) for key, some in every.items()}, "turns": every}


def take_many(settings: Settings, skipped: dict[str, str], say: Callable[[str], None]) -> dict[str, Any]:
    taken: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="roamlet-bench-") as folder:
        for side in SIDES:
            if side in skipped:
                continue
            say(f"snapshot: {settings.many:,} chains through a file, {side}")
            words = [side, str(settings.many), str(Path(folder) / side)]
            try:
                taken[side] = {what: run_alone(what, *words) for what in ("save", "restore")}
            except subprocess.CalledProcessError as failure:
                skipped[f"{side}, {settings.many:,} chains"] = failure.stderr
    return taken


def run_alone(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.snapshot.many", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def take_travel(settings: Settings, skipped: dict[str, str], say: Callable[[str], None]) -> dict[str, Any]:
    taken: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="roamlet-bench-") as name:
        folder = Path(name)
        python = bare_python(folder)
        for round_trip in settings.lines:
            say(f"snapshot: moves and blocks, {round_trip} ms")
            counters = folder / f"counters-{round_trip}"
            counters.touch()
            line = (str(round_trip / 1000), 0, counters) if round_trip else None
            started = str(command(folder, f"python-{round_trip}", python, line))
            count = settings.far if round_trip else settings.travels
            try:
                with Worker("bench.snapshot.traveller") as worker:
                    worker.ask("open", python=started, timeout=60)
                    turns = [{what: worker.ask(what, count=-(-count // 5)) for what in WHAT} for _ in range(5)]
                    worker.ask("close")
            except WorkerFailed as failure:
                skipped[f"travel, {round_trip} ms"] = str(failure)
            else:
                taken[str(round_trip)] = {f"{what}_s": median(turn[what] for turn in turns) for what in WHAT}
    return taken


WHAT = ("calls", "moves", "blocks")
