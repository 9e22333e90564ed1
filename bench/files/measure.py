"""Take the file figures: each side in a process of its own, in turns, the fastest turn of each."""

import itertools
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bare import bare_python, command
from ..workers import Worker, WorkerFailed

SIDES = ("roamlet", "mitogen")


@dataclass(frozen=True)
class Settings:
    """How much work a run does: round trips in ms, bytes of the file."""

    round_trips: tuple[int, ...] = (0, 20, 80, 200)
    size: int = 16 << 20
    rounds: int = 3


QUICK = Settings(round_trips=(0, 200), rounds=1)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"size", "rates": {side: {round trip in ms: {"seconds", "bytes_per_s", "turns"}}}, "skipped": {side: reason}}."""
    skipped: dict[str, str] = {}
    rates: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roamlet-bench-")))
        python = bare_python(folder)
        source = folder / "source"
        source.write_bytes(os.urandom(settings.size))
        numbers = itertools.count()
        workers = {side: stack.enter_context(Worker("bench.files.worker", side)) for side in SIDES}
        for round_trip, _ in itertools.product(settings.round_trips, range(settings.rounds)):
            for side, worker in workers.items():
                if side in skipped:
                    continue
                say(f"files: {side}, {round_trip} ms")
                number = next(numbers)
                counters = folder / f"counters-{number}"
                counters.touch()
                line = command(folder, f"python-{number}", python, (str(round_trip / 1000), 0, counters))
                target = folder / f"target-{number}"
                try:
                    seconds = worker.ask("send", python=str(line), source=str(source), target=str(target), timeout=120)
                except WorkerFailed as failure:
                    skipped[side] = str(failure)
                    continue
                if target.read_bytes() != source.read_bytes():
                    skipped[side] = "the file did not arrive as it was sent"
                target.unlink()
                rates.setdefault(side, {}).setdefault(str(round_trip), []).append(seconds)
    best = {
        side: {
            line: {"seconds": min(turns), "bytes_per_s": settings.size / min(turns), "turns": turns}
            for line, turns in by_line.items()
        }
        for side, by_line in rates.items()
    }
    return {"size": settings.size, "rates": best, "skipped": skipped}
