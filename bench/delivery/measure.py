"""Take the figures of delivery: contexts one after the other behind one intermediary, and the first one of a later run."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bare import bare_python, command
from ..workers import Worker


@dataclass(frozen=True)
class Settings:
    """How often, and how many contexts each time."""

    rounds: int = 3
    contexts: int = 3


QUICK = Settings(rounds=1, contexts=2)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"packages", "cpu_s": {which: s}, "mb": {which: MB on the trunk}}; which: first, second, later, and next run."""
    cpu: dict[str, list[float]] = {}
    sent: dict[str, list[float]] = {}
    packages: list[str] = []
    for round_ in range(settings.rounds):
        say(f"delivery: round {round_ + 1} of {settings.rounds}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            python = str(command(folder, "python", bare_python(folder)))
            environment = {"ROAMLET_CACHE": str(folder / "kept")}
            runs = (("first", "second", "later"), ("next run",))
            for number, names in zip((settings.contexts, 1), runs, strict=True):
                with Worker("bench.delivery.worker", environment=environment) as worker:
                    packages = worker.ask("about", timeout=120)
                    taken = worker.ask("contexts", python=python, number=number, timeout=300)
                for name_, seconds, bytes_ in zip(names, taken["cpu_s"], taken["bytes"], strict=False):
                    cpu.setdefault(name_, []).append(seconds)
                    sent.setdefault(name_, []).append(bytes_ / 1e6)
    return {
        "packages": packages,
        "cpu_s": {name: min(one) for name, one in cpu.items()},
        "mb": {name: min(one) for name, one in sent.items()},
    }
