"""Take the figures of event loops: each side in a process of its own, in turns, the median of the turns' ratios.

The ratio of two turns that follow each other, because a machine that is busy slows both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..workers import Worker

# What is measured: its title, side and kind, and those of what it is compared with; how many are under way at once.
FIGURES = {
    "echo_1": ("an echo, 1 connection", ("roamlet", "echo"), ("asyncio", "echo"), 1),
    "echo_100": ("an echo, 100 connections", ("roamlet", "echo"), ("asyncio", "echo"), 100),
    "task": ("a task made and awaited", ("roamlet", "task"), ("asyncio", "task"), 1),
    "await_1": ("await_, 1 tasklet", ("roamlet", "await_"), ("asyncio", "task"), 1),
    "await_100": ("await_, 100 tasklets", ("roamlet", "await_"), ("asyncio", "task"), 100),
    "wrap_1": ("wrap, 1 task", ("roamlet", "wrap"), ("asyncio", "task"), 1),
    "wrap_100": ("wrap, 100 tasks", ("roamlet", "wrap"), ("asyncio", "task"), 100),
}


@dataclass(frozen=True)
class Settings:
    """How much work a run does: turns of each figure, and of a turn how many echoes and how many of the others."""

    rounds: int = 15
    echoes: int = 10_000
    others: int = 10_000


QUICK = Settings(rounds=5, echoes=2_000, others=3_000)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{figure: {"roamlet_us", "asyncio_us": medians of CPU us for each, "ratio", "turns": the ratios}}."""
    say(f"aio: asyncio, roamlet; {settings.rounds} rounds")
    taken: dict[str, Any] = {}
    with Worker("bench.aio.worker", "asyncio") as theirs, Worker("bench.aio.worker", "roamlet") as ours:
        sides = {"asyncio": theirs, "roamlet": ours}
        for name, (_, mine, peer, at_once) in FIGURES.items():
            count = settings.echoes if mine[1] == "echo" else settings.others

            def us(side: str, kind: str, count: int = count, at_once: int = at_once) -> float:
                seconds: float = sides[side].ask("cpu", kind=kind, count=count, at_once=at_once)
                return seconds / count * 1e6

            us(*mine, count=at_once * 10), us(*peer, count=at_once * 10)
            pairs = [(us(*mine), us(*peer)) for _ in range(settings.rounds)]
            taken[name] = {
                "roamlet_us": median(one for one, _ in pairs),
                "asyncio_us": median(other for _, other in pairs),
                "ratio": median(one / other for one, other in pairs),
                "turns": [one / other for one, other in pairs],
            }
    return taken
