"""Take the figures of clusters: each side in a process of its own, in turns, the best turn of each."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bare import bare_python, command
from ..workers import Worker, WorkerFailed
from .shipped import WORKLOADS

SIDES = {
    "roamlet": "roamlet.dask, nothing installed",
    "links": "the same, comm='roamlet'",
    "dask": "LocalCluster",
    "dask-tls": "LocalCluster with TLS",
}


@dataclass(frozen=True)
class Settings:
    """How many clusters one after the other, how many workers each has, and how often each workload runs in it."""

    rounds: int = 3
    workers: int = 4
    repeats: int = 3


QUICK = Settings(rounds=1, workers=2, repeats=1)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"ready_s", "close_s": {side: s}, "workload_s": {name: {side: s}}, "workers", "skipped"}.

    The first cluster of roamlet's is not counted: it fills the cache folder, as the first one of a user does.
    """
    skipped: dict[str, str] = {}
    ready: dict[str, list[float]] = {}
    close: dict[str, list[float]] = {}
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in WORKLOADS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = str(command(folder, "python", bare_python(folder)))
        environment = {"ROAMLET_CACHE": str(folder / "kept")}
        (folder / "kept").mkdir(mode=0o700)
        for turn in range(-1, settings.rounds):
            say(f"clusters: round {max(0, turn) + 1} of {settings.rounds}{' (to fill the cache)' if turn < 0 else ''}")
            for side in ("roamlet",) if turn < 0 else SIDES:
                if side in skipped:
                    continue
                with ExitStack() as stack:
                    try:
                        worker = stack.enter_context(Worker("bench.clusters.worker", side, environment=environment))
                        worker.ask("about", timeout=120)
                    except WorkerFailed as failure:
                        skipped[side] = str(failure)
                        continue
                    seconds = worker.ask("ready", workers=settings.workers, python=python, timeout=200)
                    if turn >= 0:
                        ready.setdefault(side, []).append(seconds)
                        for each in (one for _ in range(settings.repeats) for one in WORKLOADS):
                            seconds, _ = worker.ask("workload", name=each, timeout=200)
                            taken[each].setdefault(side, []).append(seconds)
                    seconds = worker.ask("close", timeout=60)
                    if turn >= 0:
                        close.setdefault(side, []).append(seconds)
    return {
        "ready_s": {side: min(each) for side, each in ready.items()},
        "close_s": {side: max(each) for side, each in close.items()},
        "workload_s": {name: {side: min(each) for side, each in by.items()} for name, by in taken.items()},
        "workers": settings.workers,
        "skipped": skipped,
    }
