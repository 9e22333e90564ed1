"""Take the figures of what threads sleep on: pairs.c, built by the system's compiler, in turns, the median turn of each."""

import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

SOURCE = Path(__file__).with_name("pairs.c")
KINDS = {
    "futex": "futex",
    "futex_limit": "futex, with a limit of 50 ms",
    "futex_soon": "futex, with a limit of 0.1 ms",
    "semaphore": "semaphore",
    "condition": "mutex and condition",
    "eventfd": "eventfd",
}


@dataclass(frozen=True)
class Settings:
    """How much work a run does."""

    rounds: int = 15
    turns: int = 20_000


QUICK = Settings(rounds=3, turns=2_000)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"ns": {cores: {kind: {"wall", "cpu"}}}}: ns by the clock, and of CPU of both threads, for a turn there and back."""
    skipped: dict[str, str] = {}
    taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="roamlet-bench-") as folder:
        program = Path(folder, "pairs")
        try:
            build(program)
        except (OSError, subprocess.SubprocessError) as error:
            skipped["everything"] = f"pairs.c was not built: {error}"
            return {"ns": {}, "skipped": skipped}
        cores = ["1", "2"] if len(os.sched_getaffinity(0)) > 1 else ["1"]
        say(f"sleeping: {', '.join(KINDS)} on {' and '.join(cores)} cores; {settings.rounds} rounds")
        for _ in range(settings.rounds):
            for many in cores:
                for kind in KINDS:
                    taken.setdefault((many, kind), []).append(pair(program, kind, many, settings.turns))
    ns: dict[str, dict[str, Any]] = {many: {} for many in cores}
    for (many, kind), each in taken.items():
        ns[many][kind] = {"wall": median(one[0] for one in each), "cpu": median(one[1] for one in each)}
    return {"ns": ns, "skipped": skipped}


def build(program: Path) -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    words = [compiler, "-O2", "-std=c11", "-pthread", "-o", str(program), str(SOURCE)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)


def pair(program: Path, kind: str, cores: str, turns: int) -> tuple[float, float]:
    """(ns by the clock, ns of CPU) of one turn."""
    done = subprocess.run(
        [program, kind, cores, str(turns)], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split()
    return float(done[0]), float(done[1])
