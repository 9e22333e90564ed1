"""Take the call figures: each side in a process of its own, in turns, the best turn of each."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bare import bare_python, command
from ..workers import Worker, WorkerFailed, with_contexts

SIDES = ("roamlet", "mitogen", "pipes")
AT_ONCE = 100


@dataclass(frozen=True)
class Settings:
    """How much work a run does. `turn` is the length of one turn in seconds."""

    rounds: int = 20
    turn: float = 0.4


QUICK = Settings(rounds=5, turn=0.2)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"rates": {"one"|"many": {side: {...}}}, "at_once", "skipped": {side: reason}}."""
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roamlet-bench-")))
        python = str(command(folder, "python", bare_python(folder)))
        present = with_contexts(stack, "bench.calls.worker", SIDES, python, skipped)
        sides = {
            name: worker for name, worker in present.items() if name != "pipes"
        }  # its messages would only run together
        rates = {
            "one": take_rates(settings, present, 1, skipped, say),
            "many": take_rates(settings, sides, AT_ONCE, skipped, say),
        }
    return {"rates": rates, "at_once": AT_ONCE, "skipped": skipped}


def take_rates(
    settings: Settings, present: dict[str, Worker], at_once: int, skipped: dict[str, str], say: Callable[[str], None]
) -> dict[str, Any]:
    """The best turn of each side: {side: {"per_s", "parent_us", "child_us", "calls", "turns": [per second, ...]}}."""
    say(f"calls: {', '.join(present)}, {at_once} at once; {settings.rounds} rounds")
    turns: dict[str, list[dict[str, float]]] = {}
    counts: dict[str, int] = {}
    for name, worker in present.items():
        try:
            tried = 10 * AT_ONCE
            seconds = worker.ask("rate", count=tried, at_once=at_once)["seconds"]
        except WorkerFailed as failure:
            skipped[f"{name}, {at_once} at once"] = str(failure)
        else:
            counts[name] = max(tried, int(settings.turn / seconds * tried) // AT_ONCE * AT_ONCE)
            turns[name] = []
    for _ in range(settings.rounds):
        for name, count in counts.items():
            turns[name].append(present[name].ask("rate", count=count, at_once=at_once))
    return {name: best_turn(all_turns, counts[name]) for name, all_turns in turns.items()}


def best_turn(turns: list[dict[str, float]], calls: int) -> dict[str, Any]:
    best = min(turns, key=lambda turn: turn["seconds"])
    taken = {"per_s": calls / best["seconds"], "calls": calls, "turns": [calls / turn["seconds"] for turn in turns]}
    for whose in ("parent", "child"):
        if f"{whose}_cpu_s" in best:
            taken[f"{whose}_us"] = min(turn[f"{whose}_cpu_s"] for turn in turns) / calls * 1e6
    return taken
