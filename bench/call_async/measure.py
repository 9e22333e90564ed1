"""Take the figures of call_async: each peer in a process of its own, in turns, the median of each one's turns.

The median, because a wake-up across cores and one on the same core differ threefold, and the best turn of a peer would be the one
in which the kernel happened to put both threads on one core.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..workers import Worker, WorkerFailed
from .peers import PEERS

OUTSTANDING = {"one": 1, "many": 100}


@dataclass(frozen=True)
class Settings:
    """How much work a run does. `turn` is the length of one turn in seconds."""

    rounds: int = 21
    turn: float = 0.2


QUICK = Settings(rounds=5, turn=0.1)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"rates": {"one"|"many": {peer: {"per_s", "cpu_us", "calls", "turns"}}}, "at_once", "skipped": {peer: reason}}."""
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        present = {}
        for name in PEERS:
            worker = stack.enter_context(Worker("bench.call_async.worker", name))
            try:
                worker.ask("rate", count=1000, at_once=100, timeout=30)
            except WorkerFailed as failure:
                skipped[name] = str(failure)
            else:
                present[name] = worker
        say(f"call_async: {', '.join(present)}; {settings.rounds} rounds")
        rates = {which: take(settings, present, at_once) for which, at_once in OUTSTANDING.items()}
    return {"rates": rates, "at_once": OUTSTANDING["many"], "skipped": skipped}


def take(settings: Settings, present: dict[str, Worker], at_once: int) -> dict[str, Any]:
    counts = {}
    for name, worker in present.items():
        tried = 20 * at_once
        seconds = worker.ask("rate", count=tried, at_once=at_once)["seconds"]
        counts[name] = max(tried, int(settings.turn / seconds * tried) // at_once * at_once)
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in present}
    for _ in range(settings.rounds):
        for name, count in counts.items():
            turns[name].append(present[name].ask("rate", count=count, at_once=at_once))
    return {
        name: {
            "per_s": counts[name] / median(turn["seconds"] for turn in taken),
            "cpu_us": median(turn["cpu_s"] for turn in taken) / counts[name] * 1e6,
            "calls": counts[name],
            "turns": [counts[name] / turn["seconds"] for turn in taken],
        }
        for name, taken in turns.items()
    }
