"""`roamlet bench gil`: two CPU-bound threads against one, and pairs of threads that hand over, alone and beside a CPU-bound thread.

Each variant has a process of its own (programs/pairs.py). They take turns, so that noise of the machine reaches all of them, and
the median counts.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from roamlet_bench.show import STOCK, Table, number
from roamlet_bench.variants import Implementation, Turns, Variant, compact, rows, variants
from roamlet_bench.workers import Worker, WorkerFailed

IMPLEMENTATIONS = (
    Implementation("threads", "pairs.py"),
    Implementation("roamlet.threads", "pairs.py", needs="roamlet.threads", under="roamlet.threads"),
    Implementation("roamlet.patch", "pairs.py", needs="roamlet.patch", under="roamlet.patch"),
)

PAIRS = {
    "lock": "Lock",
    "condition": "Condition",
    "semaphore": "Semaphore",
    "event": "Event",
    "queue": "Queue",
    "simple_queue": "SimpleQueue",
}
BESIDE = "+cpu"


@dataclass(frozen=True)
class Settings:
    """How much is measured. `seconds` is the length of one turn of one figure; `cores`: on so many, 0 for all that there are."""

    seconds: float = 0.25
    rounds: int = 5
    pythons: tuple[str, ...] = (sys.executable,)
    intervals: tuple[float, ...] = (0.005, 0.0005)
    cores: int = 0


QUICK = Settings(seconds=0.1, rounds=3)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """All figures as plain data: {"rows": [{"variant", "efficiency", "lock", "lock+cpu", ...}], "skipped", "failed", settings}.

    A variant that cannot be had here is in `skipped` with the reason; one that could not be measured is in `failed`. `say` is told
    what goes on. Blocks for some seconds a variant and round.
    """
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    turns: Turns = {}
    with ExitStack() as stack:
        workers: dict[Variant, Worker] = {}
        for variant in variants(IMPLEMENTATIONS, settings.pythons, settings.intervals, skipped):
            worker = stack.enter_context(Worker(variant.title, variant.command()))
            try:
                worker.ask("begin", interval=variant.interval, cores=settings.cores)
            except WorkerFailed as failure:
                failed[variant.title] = str(failure)
            else:
                workers[variant] = worker
                turns[variant] = {}
        for turn in range(settings.rounds):
            for variant, worker in list(workers.items()):
                say(f"gil: round {turn + 1} of {settings.rounds}, {variant.title}")
                try:
                    for figure, value in one_turn(worker, settings.seconds):
                        turns[variant].setdefault(figure, []).append(value)
                except WorkerFailed as failure:
                    failed[variant.title] = str(failure)
                    del workers[variant], turns[variant]
    return {
        "seconds": settings.seconds,
        "rounds": settings.rounds,
        "cores": settings.cores,
        "rows": rows(turns),
        "skipped": skipped,
        "failed": failed,
    }


def one_turn(worker: Worker, seconds: float) -> list[tuple[str, dict[str, float]]]:
    """Every figure once."""
    patience = 30 + 10 * seconds
    taken = [("efficiency", worker.ask("efficiency", seconds=seconds, timeout=patience))]
    for pair in PAIRS:
        for beside in (False, True):
            answer = worker.ask("rate", pair=pair, seconds=seconds, beside=beside, timeout=patience)
            taken.append((pair + BESIDE * beside, answer))
    return taken


def tables(taken: dict[str, Any]) -> list[Table]:
    """One table of the pairs alone, with the efficiency, and one of the pairs beside a CPU-bound thread."""
    features = ["Python", "under", "interval"]
    on = f", on {taken['cores']} core" if taken["cores"] == 1 else ""
    alone = Table(
        f"Threads: hand-overs a second of a pair by each primitive{on}",
        [*features, "efficiency", *PAIRS.values()],
        notes=["efficiency: what two CPU-bound threads get done together, as a part of what one does alone."],
    )
    beside = Table(
        f"Threads: the same beside a CPU-bound thread{on}",
        [*features, *PAIRS.values()],
        notes=["interval: the switch interval, after which a thread that computes lets others run."],
    )
    kept = Table(f"Threads: beside a CPU-bound thread / alone{on}", [*features, *PAIRS.values()])
    for row in taken["rows"]:
        variant = row["variant"]
        words = [variant["version"], variant["under"] or STOCK, f"{variant['interval'] * 1e3:g} ms"]
        efficiency = number(value_of(row, "efficiency"), 2)
        alone.rows.append([*words, efficiency, *(compact(value_of(row, pair)) for pair in PAIRS)])
        beside.rows.append([*words, *(compact(value_of(row, pair + BESIDE)) for pair in PAIRS)])
        kept.rows.append([*words, *(share(value_of(row, pair + BESIDE), value_of(row, pair)) for pair in PAIRS)])
    return [alone, beside, kept]


def share(beside: float | None, alone: float | None) -> str:
    """What is left beside a CPU-bound thread, as a part of the rate alone."""
    return number(beside / alone if beside is not None and alone else None, 3)


def value_of(row: dict[str, Any], figure: str) -> float | None:
    return row[figure]["value"] if figure in row else None
