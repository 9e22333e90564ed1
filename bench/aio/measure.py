"""Take the figures of event loops: each side in a process of its own, in turns, the median of the turns' ratios.

The ratio of two turns that follow each other, because a machine that is busy slows both.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tools import servers
from tools.unpack_debian import CannotUnpack

from ..libraries.measure import http_server
from ..workers import ROOT, Worker, WorkerFailed

# What is measured: its title, side and kind, and those of what it is compared with; how many are under way at once.
FIGURES = {
    "echo_1": ("an echo, 1 connection", ("roamlet", "echo"), ("asyncio", "echo"), 1),
    "echo_100": ("an echo, 100 connections", ("roamlet", "echo"), ("asyncio", "echo"), 100),
    "aiohttp": ("a request by aiohttp, 50 at a time", ("roamlet", "aiohttp"), ("asyncio", "aiohttp"), 50),
    "asyncpg": ("SELECT 1 by asyncpg, 50 at a time", ("roamlet", "asyncpg"), ("asyncio", "asyncpg"), 50),
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
    requests: int = 3_000
    others: int = 10_000


QUICK = Settings(rounds=5, echoes=2_000, requests=1_000, others=3_000)
COUNTS = {"echo": "echoes", "aiohttp": "requests", "asyncpg": "requests"}


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{figure: {"roamlet_us", "asyncio_us": medians of CPU us for each, "ratio", "turns": the ratios}, "skipped": {figure:
    reason}}.
    """
    say(f"aio: asyncio, roamlet; {settings.rounds} rounds")
    skipped: dict[str, str] = {}
    taken: dict[str, Any] = {"skipped": skipped}
    with ExitStack() as stack:
        known = stack.enter_context(http_server(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        try:
            known["postgresql"] = str(stack.enter_context(servers.running("postgresql", ROOT / ".venv" / "postgresql")))
        except (CannotUnpack, servers.CannotRun) as reason:
            skipped["asyncpg"] = str(reason)
        sides = {side: stack.enter_context(Worker("bench.aio.worker", side)) for side in ("asyncio", "roamlet")}
        for worker in sides.values():
            worker.ask("servers", **known)
        for name, (_, mine, peer, at_once) in FIGURES.items():
            if name not in skipped:
                try:
                    taken[name] = figure(sides, mine, peer, at_once, settings)
                except WorkerFailed as failure:
                    skipped[name] = str(failure)
    return taken


def figure(
    sides: dict[str, Worker], mine: tuple[str, str], peer: tuple[str, str], at_once: int, settings: Settings
) -> dict[str, Any]:
    """One of them, in turns."""
    count: int = getattr(settings, COUNTS.get(mine[1], "others"))

    def us(side: str, kind: str, count: int = count) -> float:
        seconds: float = sides[side].ask("cpu", kind=kind, count=count, at_once=at_once)
        return seconds / count * 1e6

    us(*mine, count=at_once * 10), us(*peer, count=at_once * 10)
    pairs = [(us(*mine), us(*peer)) for _ in range(settings.rounds)]
    return {
        "roamlet_us": median(one for one, _ in pairs),
        "asyncio_us": median(other for _, other in pairs),
        "ratio": median(one / other for one, other in pairs),
        "turns": [one / other for one, other in pairs],
    }
