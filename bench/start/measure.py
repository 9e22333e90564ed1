"""Take the figures of opening contexts: both sides in turns, each turn in a new parent process; least time, median memory."""

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bare import bare_python, command
from ..workers import Worker, WorkerFailed

SIDES = ("roamlet", "mitogen")


@dataclass(frozen=True)
class Settings:
    """How much work a run does: rounds, and contexts that are open together."""

    rounds: int = 3
    contexts: int = 50


QUICK = Settings(rounds=2, contexts=15)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"count", "contexts": {side: {what: seconds or bytes of one context, "turns": {what: [...]}}}, "skipped": {side: reason}}."""
    skipped: dict[str, str] = {}
    turns: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="roamlet-bench-") as name:
        folder = Path(name)
        python = str(command(folder, "python", bare_python(folder)))
        for _ in range(settings.rounds):
            for side in SIDES:
                if side in skipped:
                    continue
                say(f"start: {side}, {settings.contexts} contexts")
                with Worker("bench.start.worker", side) as worker:  # a new one: freed memory would hide some
                    try:
                        found = worker.ask("contexts", python=python, count=settings.contexts)
                    except WorkerFailed as failure:
                        skipped[side] = str(failure)
                        continue
                turns.setdefault(side, []).append(found)
    return {
        "count": settings.contexts,
        "contexts": {side: chosen(found) for side, found in turns.items()},
        "skipped": skipped,
    }


def chosen(turns: list[dict[str, float]]) -> dict[str, Any]:
    """The least of each time, the median of each memory, and all of them."""
    every = {key: [turn[key] for turn in turns] for key in turns[0]}
    taken = {key: statistics.median(some) if key.endswith("bytes") else min(some) for key, some in every.items()}
    return {**taken, "turns": every}
