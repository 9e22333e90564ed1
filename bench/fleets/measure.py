"""Take the figures of fleets: many contexts on this machine, directly and behind hubs, and what follows for more hosts."""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bare import bare_python, command
from ..workers import Worker
from .simulation import Costs, simulated

LINE = 0.3  # seconds that one host takes to be ready after its command was started, by ssh and over a network: assumed


@dataclass(frozen=True)
class Settings:
    """How many contexts, how many of them behind one hub, and how many are opened at a time.

    `direct`: how many the flat form opens, which takes a process and four descriptors here for each. `simulated`: sizes of fleets.
    """

    number: int = 1000
    direct: int = 200
    most: int = 99
    at_once: int = 32
    turns: int = 7
    simulated: tuple[int, ...] = (10_000, 100_000)


QUICK = Settings(number=60, direct=20, most=29, turns=3)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"measured": {side: figures of worker.fleet}, "simulated": [figures of simulation.simulated]}; sides: directly, hubs."""
    measured: dict[str, Any] = {}
    sizes = {"directly": (settings.direct, 0), "hubs": (settings.number, settings.most)}
    with tempfile.TemporaryDirectory() as name:
        python = str(command(Path(name), "python", bare_python(Path(name))))
        for side, (number, most) in sizes.items():
            say(f"fleets: {number} contexts, {side}")
            with Worker("bench.fleets.worker") as worker:
                measured[side] = worker.ask(
                    "fleet",
                    python=python,
                    number=number,
                    most=most,
                    at_once=settings.at_once,
                    turns=settings.turns,
                    timeout=500,
                )
    direct, hubs = measured["directly"], measured["hubs"]
    costs = Costs(
        direct_cpu=direct["cpu_ms"] / 1e3,
        behind_cpu=hubs["cpu_ms"] / 1e3,
        hub_cpu=hubs["hub_ms"] / 1e3,
        call_cpu=hubs["call_ms"] / 1e3,
        direct_call_cpu=direct["call_ms"] / 1e3,
        direct_bytes=direct["kb"] * 1e3,
        behind_bytes=hubs["kb"] * 1e3,
        direct_descriptors=direct["descriptors"],
        line=LINE,
    )
    runs = [
        simulated(hosts, most, at_once, costs)
        for hosts in settings.simulated
        for most, at_once in ((0, settings.at_once), (settings.most, settings.at_once), (settings.most, 500))
    ]
    return {"python": sys.version.split()[0], "measured": measured, "line_s": LINE, "simulated": runs}
