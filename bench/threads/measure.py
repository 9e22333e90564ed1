"""Take the figures of threads that hand over: each implementation in a process of its own, in turns, the median of its turns.

The median, because on two cores a pair is three times as fast while the kernel happens to keep both threads on one of them.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..workers import Worker
from .pairs import PAIRS

PEERS = ("roamlet", "threading")


@dataclass(frozen=True)
class Settings:
    """How much work a run does."""

    rounds: int = 25
    operations: int = 3000


QUICK = Settings(rounds=7, operations=1000)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"rates": {cores: {kind: {peer: {"per_s", "turns"}}}}}: hand-overs there and back in a second."""
    with ExitStack() as stack:
        workers = {peer: stack.enter_context(Worker("bench.threads.worker", peer)) for peer in PEERS}
        cores = [1, 2] if workers["roamlet"].ask("cores") > 1 else [1]
        say(f"threads: {', '.join(PAIRS)} on {' and '.join(map(str, cores))} cores; {settings.rounds} rounds")
        turns: dict[tuple[int, str, str], list[float]] = {}
        for _ in range(settings.rounds):
            for many in cores:
                for kind in PAIRS:
                    for peer, worker in workers.items():
                        taken = worker.ask("pair", kind=kind, operations=settings.operations, cores=many)
                        turns.setdefault((many, kind, peer), []).append(settings.operations / taken)
    rates: dict[str, dict[str, Any]] = {str(many): {kind: {} for kind in PAIRS} for many in cores}
    for (many, kind, peer), taken in turns.items():
        rates[str(many)][kind][peer] = {"per_s": median(taken), "turns": taken}
    return {"rates": rates, "skipped": {}}
