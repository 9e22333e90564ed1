"""Take the figures of sockets: each server in a process of its own, in turns, under a load in C from another core; medians.

Alone the server has a core of its own, and what counts is what it answers in a second of its CPU time. Beside a thread that
computes that has a core of its own (on the server's it would seldom run when the server wants the GIL), server and load share the
other one, and what counts is what is answered in a second. A busy neighbour makes the thread give up its core and flatters
every server, most of all one that waits long for the GIL: these figures need a quiet machine.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roamlet_bench.server import first_line

from ..workers import ROOT, WorkerFailed

SHORT = 0.0005


@dataclass(frozen=True)
class Variant:
    """A server as it is started."""

    title: str
    peer: str
    words: tuple[str, ...] = ()


ALONE = (
    Variant("roamlet", "roamlet"),
    Variant("gevent", "gevent"),
    Variant("asyncio", "asyncio"),
    Variant("uvloop", "uvloop"),
)
BESIDE = (
    *ALONE,
    Variant("roamlet, responsive", "roamlet", ("--responsive",)),
    Variant("roamlet, 0.5 ms", "roamlet", ("--interval", str(SHORT))),
    Variant("gevent, 0.5 ms", "gevent", ("--interval", str(SHORT))),
    Variant("uvloop, 0.5 ms", "uvloop", ("--interval", str(SHORT))),
)
IDLE = ("roamlet", "gevent")


@dataclass(frozen=True)
class Settings:
    """How much is measured. `seconds` is the length of one turn."""

    seconds: float = 1.5
    warm_up: float = 0.3
    rounds: int = 5
    connections: tuple[int, ...] = (10, 100)
    idle: int = 50_000


QUICK = Settings(seconds=0.5, warm_up=0.1, rounds=3, idle=5_000)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"alone", "beside": {connections: {title: {"per_s", "per_cpu_s", "median", "p99", "busy"}}}, "idle": {peer: {"connections",
    "bytes"}}, "skipped"}. Blocks for about half a minute a round.
    """
    skipped: dict[str, str] = {}
    taken: dict[str, Any] = {"alone": {}, "beside": {}, "idle": {}, "skipped": skipped}
    with tempfile.TemporaryDirectory(prefix="roamlet-bench-") as folder:
        load = built(Path(folder), skipped)
        if load is not None:
            for kind, variants in (("alone", ALONE), ("beside", BESIDE)):
                taken[kind] = rates(kind, variants, load, settings, skipped, say)
    for peer in IDLE:
        say(f"io: idle connections of {peer}")
        try:
            taken["idle"][peer] = idle(peer, settings.idle)
        except WorkerFailed as failure:
            skipped[f"idle connections of {peer}"] = str(failure)
    return taken


def built(folder: Path, skipped: dict[str, str]) -> Path | None:
    """The load, compiled; None, with the reason in `skipped`, where that cannot be done."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    program = folder / "load"
    if shutil.which(compiler) is None:
        skipped["keep-alive HTTP"] = f"there is no compiler {compiler} to build the load with"
        return None
    command = [compiler, "-O2", "-o", str(program), str(ROOT / "bench/io/load.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        skipped["keep-alive HTTP"] = done.stderr
        return None
    return program


def rates(
    kind: str,
    variants: tuple[Variant, ...],
    load: Path,
    settings: Settings,
    skipped: dict[str, str],
    say: Callable[[str], None],
) -> dict[str, dict[str, dict[str, float]]]:
    """Every variant once a round, with each number of connections; the medians of all rounds."""
    present = list(variants)
    turns: dict[str, dict[str, list[dict[str, float]]]] = {str(count): {} for count in settings.connections}
    for turn in range(settings.rounds):
        for variant in list(present):
            title = f"{variant.title}{' beside a thread that computes' * (kind == 'beside')}"
            say(f"io: round {turn + 1} of {settings.rounds}, {title}")
            try:
                with server(variant, kind == "beside") as (port, pid):
                    for count in settings.connections:
                        found = loaded(load, cores()[kind == "alone"], port, pid, count, settings)
                        turns[str(count)].setdefault(variant.title, []).append(found)
            except WorkerFailed as failure:
                skipped[title] = str(failure)
                present.remove(variant)
    return {
        count: {title: {key: statistics.median(turn[key] for turn in all_turns) for key in all_turns[0]}
                for title, all_turns in found.items()}
        for count, found in turns.items()
    }  # fmt: skip


def cores() -> tuple[int, int]:
    """The core of the server and, alone, that of the load; beside, that of the thread that computes."""
    present = sorted(os.sched_getaffinity(0))
    return present[0], present[-1]


def loaded(load: Path, core: int, port: int, pid: int, connections: int, settings: Settings) -> dict[str, float]:
    """One turn under the load, which runs on this core. Raises WorkerFailed."""
    words = [port, connections, settings.seconds, settings.warm_up, pid]
    done = subprocess.run(
        [str(load), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=settings.seconds + settings.warm_up + 60,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, [core]),
    )
    if done.returncode:
        raise WorkerFailed(done.stderr)
    found = json.loads(done.stdout)
    return {
        "per_s": found["requests"] / found["seconds"],
        "per_cpu_s": found["requests"] / found["server_cpu"],
        **{key: found[key] for key in ("median", "p99", "busy")},
    }


@contextmanager
def server(variant: Variant, beside: bool) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its port and process id. Raises WorkerFailed with its last words."""
    words = ["--core", str(cores()[0]), *(["--compute-on", str(cores()[1])] if beside else [])]
    command = [sys.executable, "-m", "bench.io.servers", variant.peer, *variant.words, *words]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = first_line(process).split()
            if len(line) == 2:
                yield int(line[0]), int(line[1])
            else:
                errors.seek(0)
                raise WorkerFailed(errors.read().decode(errors="replace").strip()[-2000:])
        finally:
            process.stdin.close()  # it ends with its input
            process.kill()
            process.wait()
            process.stdout.close()


def idle(peer: str, count: int) -> dict[str, float]:
    """What bench.io.idle prints, from a fresh process. Raises WorkerFailed."""
    command = [sys.executable, "-m", "bench.io.idle", peer, str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise WorkerFailed(done.stderr.strip()[-2000:])
    found: dict[str, float] = json.loads(done.stdout)
    return found
