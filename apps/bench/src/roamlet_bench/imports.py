"""Bytes over time while a bare interpreter at the end of a slow line imports a package: pulled one by one, and as a bundle.

One by one is how an import system works that sends a module only when it is missed: roamlet's own, changed to answer each question
with the requested module alone. Sources travel both ways, no bytecode. The line is programs/relay.py: constant delay,
no slow start, no loss.
"""

import importlib
import shlex
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roamlet import remote
from roamlet.remote import modules
from roamlet.remote.modules.finding import sources
from roamlet.remote.shipping import shipping
from roamlet.wire.modules import bundle as wire_bundle
from roamlet_bench.programs import relay
from roamlet_bench.show import Table

WAYS = {"one by one": "each module when it is missed", "bundle": "one bundle ahead of the call"}
CALLED = "roamlet_bench_called"
SAMPLE = 0.002  # seconds
SOURCES = remote.Modules(bytecode=False)


def check(module: str) -> None:
    """Raise ImportError when it cannot be imported here."""
    importlib.import_module(module)


def measure(module: str, round_trip: float, say: Callable[[str], None]) -> dict[str, Any]:
    """{"module", "rtt_ms", "ways": {way: {"seconds", "bytes", "modules", "round_trips", "points": [[seconds, bytes], ...]}}}."""
    with tempfile.TemporaryDirectory(prefix="roamlet-bench-") as name:
        folder = Path(name)
        say("making a bare interpreter")
        venv.create(folder / "bare", symlinks=True, with_pip=False)
        (folder / f"{CALLED}.py").write_text(f"import {module}\n\ndef nothing():\n    return None\n", "utf-8")
        sys.path.insert(0, name)
        try:
            called = importlib.import_module(CALLED)
            ways = {}
            for way, words in WAYS.items():
                say(f"{module}, {words}")
                ways[way] = _taken(folder, way, round_trip, called)
        finally:
            sys.path.remove(name)
            sys.modules.pop(CALLED, None)
    return {"module": module, "rtt_ms": round_trip * 1000, "ways": ways}


def _taken(folder: Path, way: str, round_trip: float, called: Any) -> dict[str, Any]:
    counters = folder / f"counters {way}"
    counters.touch()
    words = [
        sys.executable,
        "-I",
        "-S",
        relay.__file__,
        str(round_trip),
        "0",
        str(counters),
        str(folder / "bare/bin/python"),
    ]
    python = folder / f"python {way}"
    python.write_text(f'#!/bin/sh\nunset PYTHONPATH PYTHONHOME\ncd /\nexec {shlex.join(words)} "$@"\n', "utf-8")
    python.chmod(0o755)
    with remote.local(str(python), modules=SOURCES) as context, _sampled(counters) as points:
        before, began = context.stats, time.monotonic()
        if way == "bundle":
            context.call(called.nothing)
        else:
            with _one_by_one():
                context.call(exec, (f"import {CALLED}",))
        seconds = time.monotonic() - began
        after = context.stats
    sent = [(at - began, count) for at, count in points if began <= at <= began + seconds]
    first = min((count for at, count in points if at <= began), default=0)
    start = max((count for at, count in points if at <= began), default=first)
    return {
        "seconds": seconds,
        "bytes": after.bytes_down - before.bytes_down,
        "modules": after.modules - before.modules,
        "round_trips": after.round_trips - before.round_trips,
        "points": [[0.0, 0]]
        + [[at, count - start] for at, count in sent]
        + [[seconds, sent[-1][1] - start if sent else 0]],
    }


@contextmanager
def _sampled(counters: Path) -> Iterator[list[tuple[float, int]]]:
    """The number of bytes that have passed down, recorded by a thread each time it changes."""
    points: list[tuple[float, int]] = []
    over = threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE):
            down = relay.read_counters(str(counters))["down"]
            if not points or points[-1][1] != down:
                points.append((time.monotonic(), down))

    thread = threading.Thread(target=sample, name="roamlet-bench-sample")
    thread.start()
    try:
        yield points
    finally:
        over.set()
        thread.join()


@contextmanager
def _one_by_one() -> Iterator[None]:
    """Let each question for a module be answered with that module alone."""
    whole = modules.pull

    def alone(name: str, *rest: Any) -> modules.Bundle:
        found = sources.find(name)
        if isinstance(found, sources.Missing) or found.native is not None or "/" in name or name[0] in "@!":
            return whole(name, *rest)
        kinds = (wire_bundle.MODULE, wire_bundle.PACKAGE, wire_bundle.NAMESPACE)
        kind = kinds[2 if found.is_namespace else found.is_package]
        data = wire_bundle.pack([(name, kind, found.read(), found.origin or "")])
        return modules.Bundle((name,), (), (), data)

    shipping.modules.pull = alone  # type: ignore[attr-defined]
    try:
        yield
    finally:
        shipping.modules.pull = whole  # type: ignore[attr-defined]


def table(taken: dict[str, Any]) -> Table:
    """The end points of the curves."""
    shown = Table(
        f"{taken['module']} imported by a bare interpreter, round trip {taken['rtt_ms']:g} ms",
        ["", "seconds", "kB down", "modules", "round trips waited for"],
        notes=["The line has a constant delay and no limit of rate: no TCP slow start, no loss."],
    )
    for way, row in taken["ways"].items():
        shown.rows.append(
            [
                WAYS[way],
                f"{row['seconds']:.2f}",
                f"{row['bytes'] / 1000:.0f}",
                str(row["modules"]),
                str(row["round_trips"]),
            ]
        )
    return shown


def curves(taken: dict[str, Any]) -> list[tuple[str, list[tuple[float, float]]]]:
    """For plot.curves: kB over seconds."""
    return [
        (f"{WAYS[way]}: {row['seconds']:.2f} s", [(at, count / 1000) for at, count in row["points"]])
        for way, row in taken["ways"].items()
    ]
