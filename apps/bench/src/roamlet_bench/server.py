"""`roamlet bench server`: a threaded web server and its peers under load, alone and beside a CPU-bound thread.

Each turn starts the server in a process of its own (programs/), and one other process makes the load (programs/load.py). Variants
take turns and the median counts.
"""

import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roamlet_bench.show import NONE, STOCK, Table, number
from roamlet_bench.variants import PROGRAMS, Implementation, Turns, Variant, compact, rows, variants
from roamlet_bench.workers import Worker, WorkerFailed

IMPLEMENTATIONS = (
    Implementation("threads", "threaded.py"),
    Implementation("roamlet.threads", "threaded.py", needs="roamlet.threads", under="roamlet.threads"),
    Implementation("roamlet.patch", "threaded.py", needs="roamlet.patch", under="roamlet.patch"),
    Implementation("Flask", "flask_threads.py", needs="flask"),
    Implementation("Flask, roamlet.patch", "flask_threads.py", needs="flask roamlet.patch", under="roamlet.patch"),
    Implementation("one thread", "threaded.py", ("--alone",)),
    Implementation("gevent", "on_gevent.py", needs="gevent"),
    Implementation("asyncio", "on_asyncio.py", needs="asyncio"),
    Implementation("uvloop", "on_asyncio.py", ("--uvloop",), needs="uvloop"),
    Implementation("roamlet", "on_roamlet.py", needs="roamlet"),
    Implementation("roamlet", "on_roamlet.py", ("--responsive",), needs="roamlet", responsive=True),
)

BESIDE = "+cpu"
START_SECONDS = 30.0

WAITED = re.compile(r"(?m)^voluntary_ctxt_switches:\s+(\d+)")

# Above this share of its core the load itself was the limit: the server could have done more.
SATURATED = 0.95


@dataclass(frozen=True)
class Settings:
    """How much is measured. `seconds` is the length of one turn of one figure. `pin` keeps the servers off the load's core."""

    seconds: float = 0.5
    warm_up: float = 0.1
    rounds: int = 3
    pythons: tuple[str, ...] = (sys.executable,)
    intervals: tuple[float, ...] = (0.005, 0.0005)
    connections: tuple[int, ...] = (1, 10)
    pin: bool = False


QUICK = Settings(seconds=0.2, warm_up=0.05, rounds=1)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """All figures as plain data: {"rows": [{"variant", "1", "10", "1+cpu", "10+cpu"}], "skipped", "failed", settings}.

    A variant that cannot be had here is in `skipped` with the reason; one that could not be measured is in `failed`. `say` is told
    what goes on. Blocks for some seconds a variant and round.
    """
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    present = list(variants(IMPLEMENTATIONS, settings.pythons, settings.intervals, skipped))
    turns: Turns = {variant: {} for variant in present}
    loading, serving = cores(settings.pin)
    with Worker("the load", [sys.executable, str(PROGRAMS / "load.py")]) as load:
        load.ask("begin", cores=loading)
        for turn in range(settings.rounds):
            for variant in list(turns):
                say(f"server: round {turn + 1} of {settings.rounds}, {variant.title}")
                try:
                    for figure, value in one_turn(variant, load, settings, serving):
                        turns[variant].setdefault(figure, []).append(value)
                except WorkerFailed as failure:
                    failed[variant.title] = str(failure)
                    del turns[variant]
    return {
        "seconds": settings.seconds,
        "rounds": settings.rounds,
        "connections": list(settings.connections),
        "cores": {"load": loading, "server": serving},
        "rows": rows(turns),
        "skipped": skipped,
        "failed": failed,
    }


def cores(pin: bool) -> tuple[list[int], list[int]]:
    """The cores of the load and of the servers: the last one for the load where there are two; empty for all."""
    present = sorted(os.sched_getaffinity(0))
    if len(present) < 2:
        return [], []
    return present[-1:], present[:-1] if pin else []


def one_turn(
    variant: Variant, load: Worker, settings: Settings, serving: list[int]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Every figure once: the server alone, then a fresh one beside a CPU-bound thread."""
    for threads in (0, 1):
        with server(variant, threads, serving) as (port, pid, computing):
            for connections in settings.connections:
                before, computed, begun = used(pid), ran(pid, computing), time.monotonic()
                taken = load.ask(
                    "load", port=port, connections=connections, seconds=settings.seconds, warm_up=settings.warm_up
                )
                after, took = used(pid), time.monotonic() - begun
                if computed is not None and (now := ran(pid, computing)) is not None:
                    taken["computing"] = (now - computed) / took
                if not threads and before is not None and after is not None:
                    # The warm-up's requests are in them, so they are counted at the rate of the others.
                    requests = taken["value"] * (settings.warm_up + taken["seconds"])
                    taken["cpu_us"] = (after[0] - before[0]) / requests * 1e6
                    taken["switches"] = (after[1] - before[1]) / requests
                yield f"{connections}{BESIDE * threads}", taken


@contextmanager
def server(variant: Variant, threads: int, serving: list[int]) -> Iterator[tuple[int, int, int]]:
    """The server of a variant in a process of its own: its port, its process id, and that of the thread that computes, or 0.

    Raises WorkerFailed with its last words.
    """
    words = ["--interval", str(variant.interval), "--cpu", str(threads)]
    if serving:
        words += ["--cores", ",".join(map(str, serving))]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            variant.command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            said = first_line(process).split()
            if len(said) < 2:
                raise WorkerFailed("did not start")
            yield int(said[0]), int(said[1]), int(said[2]) if len(said) > 2 else 0
        except WorkerFailed as failure:
            process.kill()
            process.wait()
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip()[-2000:]
            # Not a new one: its context would lead back here, a reference cycle.
            failure.args = (f"the server '{variant.title}' failed: {failure}" + (f"\n{last}" if last else ""),)
            raise
        finally:
            process.stdin.close()  # it ends with its input
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            process.stdout.close()


def first_line(process: "subprocess.Popen[bytes]") -> str:
    """What a server says when it listens; empty when it has ended or says nothing for 30 seconds."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(START_SECONDS):
            return ""
    return process.stdout.readline().decode(errors="replace")


def used(pid: int) -> tuple[float, int] | None:
    """Seconds of CPU that a process has used, and how often a thread of it gave its core up to wait; None where the
    system does not tell.
    """
    try:
        seconds = time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(pid), which Python does not have, on Linux
        texts = [path.read_text(encoding="utf-8") for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:
        return None
    return seconds, sum(int(count) for text in texts for count in WAITED.findall(text))


def ran(pid: int, thread: int) -> float | None:
    """Seconds for which a thread has run; None for thread 0 and where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def tables(taken: dict[str, Any]) -> list[Table]:
    """One table: a row for each variant, its features on or off, and requests a second."""
    connections = taken["connections"]
    figures = [f"{count}{beside}" for beside in ("", BESIDE) for count in connections]
    heads = [f"c={count}{', beside' if beside else ''}" for beside in ("", BESIDE) for count in connections]
    many = str(connections[-1])
    table = Table(
        "Server: requests a second, each on a connection of its own, c of them at once",
        [
            "",
            "Python",
            "under",
            "responsive",
            "interval",
            *heads,
            f"us CPU, c={many}",
            f"p99 ms beside, c={many}",
        ],
        notes=[
            "beside: a thread of the server's process computes all the time. us CPU: of the server a request, alone.",
            "A figure with + was limited by the load, which had its core busy.",
            "Flask: an application on 20 threads of wsgiref's server.",
        ],
    )
    for row in taken["rows"]:
        variant = row["variant"]
        own = variant["name"] == "roamlet"
        table.rows.append(
            [
                variant["name"].partition(",")[0]
                if variant["name"].startswith("Flask")
                else "threads"
                if variant["under"]
                else variant["name"],
                variant["version"],
                variant["under"] or (STOCK if variant["name"] in ("threads", "Flask") else NONE),
                ("on" if variant["responsive"] else "off") if own else NONE,
                f"{variant['interval'] * 1e3:g} ms",
                *(rate_of(row, figure) for figure in figures),
                f"{row[many]['cpu_us']:.0f}" if "cpu_us" in row.get(many, {}) else NONE,
                f"{row[many + BESIDE]['p99'] * 1e3:.1f}" if many + BESIDE in row else NONE,
            ]
        )
    return [table, beside_and_alone(taken), comparison(taken, figures, heads)]


def beside_and_alone(taken: dict[str, Any]) -> Table:
    """What is left of a server's rate beside a CPU-bound thread, and what that thread gets meanwhile."""
    connections = [str(count) for count in taken["connections"]]
    table = Table(
        "Server: requests a second beside a CPU-bound thread / alone",
        [
            "",
            "Python",
            "responsive",
            "interval",
            *(f"c={count}" for count in connections),
            *(f"that thread, c={count}" for count in connections),
            *(f"p99 ms, c={count}" for count in connections),
        ],
        notes=["that thread: the part of the time in which it computes; alone it is near to 1."],
    )
    for row in taken["rows"]:
        variant = row["variant"]
        pairs = [(row.get(count), row.get(count + BESIDE)) for count in connections]
        table.rows.append(
            [
                variant["name"],
                variant["version"],
                ("on" if variant["responsive"] else "off") if variant["name"] == "roamlet" else NONE,
                f"{variant['interval'] * 1e3:g} ms",
                *(number(beside["value"] / alone["value"] if alone and beside else None, 3) for alone, beside in pairs),
                *(number(beside.get("computing") if beside else None, 2) for _, beside in pairs),
                *(number(beside["p99"] * 1e3 if beside else None, 1) for _, beside in pairs),
            ]
        )
    return table


COMPARED = {"stock": "threads", "roamlet.threads": "roamlet.threads", "one thread": "one thread"}


def comparison(taken: dict[str, Any], figures: list[str], heads: list[str]) -> Table:
    """roamlet.threads as a multiple of the stock threads, and what handing over costs at most."""
    many = str(taken["connections"][-1])
    table = Table(
        "Server: roamlet.threads / stock threads",
        ["Python", "interval", *heads, *(f"{what}, {name}" for what in ("us CPU", "waits") for name in COMPARED)],
        notes=[
            f"us CPU, waits: of the server a request, alone, c={many}; how often a thread gives its core up, for the GIL or for "
            "another thread. One thread never hands over: stock / one thread is what a hand-over that costs nothing would win.",
        ],
    )
    found: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for row in taken["rows"]:
        variant = row["variant"]
        found.setdefault((variant["version"], variant["interval"]), {})[variant["name"]] = row
    for (version, interval), by_name in found.items():
        ours, stock = by_name.get("roamlet.threads"), by_name.get("threads")
        if ours is None or stock is None:
            continue
        ratios = [
            f"{ours[figure]['value'] / stock[figure]['value']:.2f}" if figure in ours and figure in stock else NONE
            for figure in figures
        ]
        costs = [
            f"{by_name[name][many][what]:.{digits}f}" if what in by_name.get(name, {}).get(many, {}) else NONE
            for what, digits in (("cpu_us", 0), ("switches", 1))
            for name in COMPARED.values()
        ]
        table.rows.append([version, f"{interval * 1e3:g} ms", *ratios, *costs])
    return table


def rate_of(row: dict[str, Any], figure: str) -> str:
    if figure not in row:
        return NONE
    limited = row[figure]["busy"] > SATURATED
    return compact(row[figure]["value"]) + ("+" if limited else "")
