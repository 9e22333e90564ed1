"""Take the figures: a busy process with many tasklets, in turns with and without `roamlet top` beside it."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from ..workers import ROOT, Worker


@dataclass(frozen=True)
class Settings:
    """How much work a run does: by the number of tasklets the length of a turn in seconds, several looks long."""

    turns: tuple[tuple[int, float], ...] = ((2_000, 12.0), (100_000, 45.0))
    rounds: int = 2
    interval: float = 1.0
    listings: int = 5


QUICK = Settings(turns=((2_000, 6.0), (20_000, 10.0)), rounds=1, listings=2)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"looked_at": {tasklets: {...}}}: of each number of tasklets what `_of` says."""
    found = {}
    for count, seconds in settings.turns:
        say(f"seeing: {count:,} tasklets; {2 * settings.rounds} turns of {seconds:.0f} s")
        found[str(count)] = _of(count, seconds, settings)
    return {"looked_at": found, "skipped": {}}


def _of(count: int, seconds: float, settings: Settings) -> dict[str, Any]:
    """Messages a second with and without, the seconds of each stop and what part of the time all stops are.

    The first look comes before the turn, of a process that waits; that at its end is not counted, as what it asks for is the time
    after it.
    """
    alone, watched, stops, shares, longest = [], [], list[float](), list[float](), 0.0
    with Worker("bench.seeing.worker") as worker:
        pid = worker.ask("begin", count=count)
        listed = _listed(pid, settings.listings)  # it waits for what it is asked
        worker.ask("turn", seconds=min(seconds, 1.0))
        for _ in range(settings.rounds):
            alone.append(worker.ask("turn", seconds=seconds)["per_s"])
            with _top(pid, settings.interval) as seen:
                taken = worker.ask("turn", seconds=seconds)
            watched.append(taken["per_s"])
            longest = max(longest, taken["longest"])
            mine, span = _stops(seen)
            stops += mine
            if span:
                shares.append(sum(mine[:-1]) / span)
    return {
        "alone_per_s": median(alone),
        "watched_per_s": median(watched),
        "loss": 1 - median(after / before for before, after in zip(alone, watched, strict=True)),
        "stop": median(stops) if stops else None,
        "looks": len(stops),
        "share": max(shares) if shares else None,
        "longest": longest,
        "listed": median(listed),
    }


def _listed(pid: int, times: int) -> list[float]:
    """Seconds of `roamlet ps` as a whole, of a process that is idle. As where it is installed, its modules were compiled before."""
    found = []
    with TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        words = [str(Path(sys.executable).with_name("roamlet")), "ps", str(pid)]
        for _ in range(times + 1):
            began = time.perf_counter()
            subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=environment)
            found.append(time.perf_counter() - began)
    return found[1:]


@contextmanager
def _top(pid: int, interval: float) -> Iterator[list[dict[str, Any]]]:
    """`roamlet top --json` beside the block, which gets the objects that it has printed, complete when the block is left."""
    words = [sys.executable, "-m", "roamlet", "top", "--json", "--interval", str(interval), str(pid)]
    seen: list[dict[str, Any]] = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        lines = process.stdout
        first = lines.readline()  # the command has been loaded, and looks from now on

        def read() -> None:
            seen.extend(json.loads(line) for line in (first, *lines) if line)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield seen
        finally:
            process.terminate()
            reader.join()


def _stops(seen: list[dict[str, Any]]) -> tuple[list[float], float]:
    """The stops, one for each look at tasklets that stopped it, and the seconds from the first such look to the last."""
    looks: list[dict[str, Any]] = []
    for before, each in zip([None, *seen], seen, strict=False):
        new = before is None or each["age"] < before["age"] or each["stopped"] != before["stopped"]
        if new and each["stopped"] > 0:
            looks.append(each)
    span = looks[-1]["taken"] - looks[0]["taken"] if looks else 0.0
    return [each["stopped"] for each in looks], span
