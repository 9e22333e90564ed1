"""Take the figures of streams: each side in a process of its own, in turns, the best turn of each; memory in fresh processes."""

import itertools
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bare import bare_python, command
from ..calls.measure import best_turn
from ..workers import Worker, WorkerFailed, with_contexts

SIDES = ("roamlet", "mitogen")
KINDS = {"values": 0, "64 KiB": 1 << 16, "1 MiB": 1 << 20}  # bytes of a block; 0: small tuples
TRIED = {"values": 1000, "64 KiB": 100, "1 MiB": 10}  # values of the stream that finds out how many a turn has


@dataclass(frozen=True)
class Settings:
    """How much work a run does. `turn` is the length of one turn in seconds.

    The stream that is taken slowly has `slow_count` blocks of 1 MiB, with `pause` seconds after each.
    """

    rounds: int = 10
    turn: float = 0.4
    slow_count: int = 256
    pause: float = 0.015


QUICK = Settings(rounds=4, turn=0.2, slow_count=160)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"rates": {kind: {side: {...}}}, "sizes": {kind: bytes}, "slow": {side: {...}}, "slow_bytes", "skipped": {side: reason}}."""
    skipped: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="roamlet-bench-") as name:
        folder = Path(name)
        python = str(command(folder, "python", bare_python(folder)))
        rates = take_rates(settings, python, skipped, say)
        slow = take_slowly(settings, python, skipped, say)
    size = settings.slow_count * KINDS["1 MiB"]
    return {"rates": rates, "sizes": KINDS, "slow": slow, "slow_bytes": size, "skipped": skipped}


def take_rates(
    settings: Settings, python: str, skipped: dict[str, str], say: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """{kind: {side: the result of bench.calls.measure.best_turn for its turns, where a call is a value}}."""
    taken: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        present = with_contexts(stack, "bench.stream.worker", SIDES, python, skipped)
        for kind, size in KINDS.items():
            say(f"stream: {', '.join(present)}, {kind}; {settings.rounds} rounds")
            counts: dict[str, int] = {}
            turns: dict[str, list[dict[str, float]]] = {}
            for turn, (name, worker) in itertools.product(range(1 + settings.rounds), present.items()):
                if name in skipped:
                    continue
                count = counts.setdefault(name, TRIED[kind])
                try:
                    found = worker.ask("rate", count=count, size=size, timeout=60)
                except WorkerFailed as failure:
                    skipped[name] = str(failure)
                    continue
                if turn:
                    turns.setdefault(name, []).append(found)
                else:  # which has shown how many values a turn has to have
                    counts[name] = max(count, int(settings.turn / found["seconds"] * count))
            taken[kind] = {name: best_turn(found, counts[name]) for name, found in turns.items()}
    return taken


def take_slowly(
    settings: Settings, python: str, skipped: dict[str, str], say: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """{side: {"above_start": bytes, "seconds"}}, from a process that has held nothing before: freed memory would hide some."""
    slow = {}
    for name in SIDES:
        say(f"stream: {name}, taken slowly")
        with Worker("bench.stream.worker", name) as worker:
            try:
                worker.ask("open", python=python, timeout=30)
                asked = {"count": settings.slow_count, "size": KINDS["1 MiB"], "pause": settings.pause}
                slow[name] = worker.ask("slowly", **asked, timeout=120)
            except WorkerFailed as failure:
                skipped[f"{name}, taken slowly"] = str(failure)
    return slow
