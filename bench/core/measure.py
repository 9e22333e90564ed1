"""Take the core's figures: every peer in a process of its own, in turns of a few milliseconds, the best turn of each."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from ..workers import ROOT, Worker, WorkerFailed
from . import FIGURES, blocked, million

UNIT_OPERATIONS = 20_000


@dataclass(frozen=True)
class Runtime:
    """A column of the tables: a peer, and for roamlet the switching backend that it runs on."""

    title: str
    peer: str
    environment: dict[str, str]


RUNTIMES = (
    Runtime("roamlet", "roamlet", {"ROAMLET_SWITCH": "native"}),
    Runtime("roamlet on greenlet", "roamlet", {"ROAMLET_SWITCH": "greenlet"}),
    Runtime("greenlet", "greenlet", {}),
    Runtime("gevent", "gevent", {}),
    Runtime("asyncio", "asyncio", {}),
    Runtime("generators", "generators", {}),
    Runtime("threading", "threading", {}),
)


@dataclass(frozen=True)
class Settings:
    """How much work a run does. `turn` is the length of one turn in seconds of CPU time; a slow peer may need more for one step."""

    rounds: int = 40
    turn: float = 0.008
    members: int = 100_000
    memory_rounds: int = 1
    depths: tuple[int, ...] = blocked.DEPTHS
    many: int = 1_000_000


QUICK = Settings(rounds=7, turn=0.004, members=20_000, many=50_000)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the core as plain data: see `times` and `memory` for their form. `say` is told what goes on."""
    skipped: dict[str, str] = {}
    timed = times(settings, skipped, say)
    present = [runtime for runtime in RUNTIMES if runtime.title not in skipped]
    return {
        **timed,
        "members": settings.members,
        "blocked": memory(settings, present, skipped, say),
        "many": settings.many,
        "million": a_million(settings, present, skipped, say),
        "skipped": skipped,
    }


@contextmanager
def workers(skipped: dict[str, str]) -> Iterator[dict[str, Worker]]:
    """A worker per runtime that can be had here; the others get their reason in `skipped`."""
    with ExitStack() as stack:
        present = {}
        for runtime in RUNTIMES:
            worker = stack.enter_context(Worker("bench.core.worker", runtime.peer, environment=runtime.environment))
            try:
                worker.ask("about", timeout=30)
            except WorkerFailed as failure:
                skipped[runtime.title] = str(failure)
            else:
                present[runtime.title] = worker
        yield present


def times(settings: Settings, skipped: dict[str, str], say: Callable[[str], None]) -> dict[str, Any]:
    """Nanoseconds per operation: {"unit_ns", "times": {figure: {runtime: {"ns", "unit_ns", "operations", "turns"}}}}.

    The unit of a ratio is the best one of the same process, as its code lies at the same addresses and its core runs as fast.
    """
    with workers(skipped) as present:
        say(f"core: {', '.join(present)}; {settings.rounds} rounds")
        plan = {}
        for title, worker in present.items():
            for name in figures_of(title):
                try:
                    plan[title, name] = operations(worker, name, settings.turn)
                except WorkerFailed as failure:
                    skipped[f"{title}, {FIGURES[name].title}"] = str(failure)
        turns: dict[tuple[str, str], list[float]] = {key: [] for key in plan}
        units: dict[str, list[float]] = {title: [] for title in present}
        for _ in range(settings.rounds):
            for (title, name), count in plan.items():
                worker = present[title]
                units[title].append(worker.ask("unit", operations=UNIT_OPERATIONS) / UNIT_OPERATIONS * 1e9)
                turns[title, name].append(worker.ask(name, operations=count) / count * 1e9)
    taken: dict[str, dict[str, Any]] = {name: {} for name in FIGURES}
    for (title, name), all_turns in turns.items():
        taken[name][title] = {
            "ns": min(all_turns),
            "unit_ns": min(units[title]),
            "operations": plan[title, name],
            "turns": all_turns,
        }
    return {"unit_ns": min((min(each) for each in units.values()), default=None), "times": taken}


def figures_of(title: str) -> list[str]:
    peer = next(runtime.peer for runtime in RUNTIMES if runtime.title == title)
    return [name for name, figure in FIGURES.items() if peer in figure.peers]


def operations(worker: Worker, name: str, turn: float) -> int:
    """How many operations make a turn, in whole steps and at least 20 of them: by three tries, each as long as the one before says.

    The first ones warm the caches: taken for the cost, they would make a turn of a short operation a tenth as long as it is to be.
    """
    step = FIGURES[name].step
    count = least = max(20 * step, 1000)
    for _ in range(3):
        cost = worker.ask(name, operations=count) / count
        count = max(least, int(turn / cost) // step * step)
    return count


def memory(
    settings: Settings, present: list[Runtime], skipped: dict[str, str], say: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Resident bytes per blocked tasklet: {runtime: {frames: bytes}}, the least of `memory_rounds` fresh processes each."""
    taken: dict[str, dict[str, float]] = {}
    for runtime in present:
        if runtime.peer not in blocked.PEERS:
            continue
        say(f"core: memory of {settings.members} blocked, {runtime.title}")
        taken[runtime.title] = {}
        for frames in settings.depths:
            found = [resident(runtime, settings.members, frames) for _ in range(settings.memory_rounds)]
            failed = [one for one in found if isinstance(one, str)]
            if failed:
                skipped[f"{runtime.title}, blocked {frames} deep"] = failed[0]
            else:
                taken[runtime.title][str(frames)] = min(one for one in found if not isinstance(one, str))
    return taken


def a_million(
    settings: Settings, present: list[Runtime], skipped: dict[str, str], say: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Seconds of CPU and resident bytes for `many` members that block and end: {runtime: {"seconds", "bytes"}}."""
    taken: dict[str, dict[str, float]] = {}
    for runtime in present:
        if runtime.peer in million.PEERS and runtime.environment.get("ROAMLET_SWITCH") in (None, "native"):
            say(f"core: {settings.many:,} at once, {runtime.title}")
            found = child(runtime, "bench.core.million", settings.many)
            if isinstance(found, str):
                skipped[f"{runtime.title}, {settings.many:,} at once"] = found
            else:
                taken[runtime.title] = found
    return taken


def resident(runtime: Runtime, count: int, frames: int) -> float | str:
    """The bytes, or the reason why they could not be measured."""
    found = child(runtime, "bench.core.blocked", count, frames)
    return found if isinstance(found, str) else float(found)


def child(runtime: Runtime, module: str, *arguments: int) -> Any:
    """What a fresh process printed as JSON, or a text that says why it printed nothing."""
    command = [sys.executable, "-m", module, runtime.peer, *map(str, arguments)]
    environment = {**os.environ, **runtime.environment}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return "did not end within 120 s"
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"
    return json.loads(done.stdout)
