"""Take the figures of executors: each side in a process of its own, in turns, the best turn of each."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ..workers import Worker, WorkerFailed

SIDES = {
    "roamlet": "roamlet.executor",
    "calls": "context.call in tasklets",
    "processes": "ProcessPoolExecutor",
    "dask": "Dask",
}


@dataclass(frozen=True)
class Settings:
    """How much work a run does: turns, calls that do nothing, calls that compute, for how many seconds, on how many workers."""

    rounds: int = 5
    operations: int = 3_000
    count: int = 2_000
    seconds: float = 0.001
    workers: int = 8


QUICK = Settings(rounds=1, operations=500, count=300)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"no_op_us": {side: us}, "used": {side: part of the cores}, "workers", "count", "skipped"}."""
    skipped: dict[str, str] = {}
    cores = len(os.sched_getaffinity(0))
    costs: dict[str, list[float]] = {}
    used: dict[str, list[float]] = {}
    with ExitStack() as stack:
        present = {}
        for side in SIDES:
            worker = stack.enter_context(Worker("bench.executor.worker", side))
            try:
                worker.ask("about", timeout=60)
            except WorkerFailed as failure:
                skipped[side] = str(failure)
            else:
                present[side] = worker
        say(f"executor: {', '.join(present)}; {settings.rounds} rounds")
        for _ in range(settings.rounds):
            for side, worker in present.items():
                costs.setdefault(side, []).append(worker.ask("no_op", operations=settings.operations, timeout=120))
                options = {"workers": settings.workers, "count": settings.count, "seconds": settings.seconds}
                used.setdefault(side, []).append(worker.ask("tasks", **options, cores=cores, timeout=120))
    return {
        "no_op_us": {side: min(taken) for side, taken in costs.items()},
        "used": {side: max(taken) for side, taken in used.items()},
        "workers": settings.workers,
        "count": settings.count,
        "skipped": skipped,
    }
