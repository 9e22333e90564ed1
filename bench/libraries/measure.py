"""Take the figures of libraries: each side in a process of its own, in turns, the median of the turns.

The same program on each side. Servers are processes of their own, Redis, PostgreSQL and MariaDB those of Debian, and not
measured. It does not show requests by the clock, which on one machine are those of the server.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tools import servers
from tools.unpack_debian import CannotUnpack

from ..workers import ROOT, Worker, WorkerFailed

SIDES = ("roamlet", "gevent", "threads")

# The same operations one after the other on one thread, over stock sockets that block, nothing patched: what the library itself
# costs. A side that does nothing to the library takes that much.
ALONE = "alone"

# What is measured: its title, and the server that it needs.
FIGURES = {
    "socket": ("socket: 100 bytes there and back", ""),
    "urllib3": ("urllib3", ""),
    "requests": ("requests", ""),
    "requests_tls": ("requests over TLS", "tls"),
    "tls": ("ssl: a connection with one request", "tls"),
    "redis": ("redis GET", "redis"),
    "psycopg": ("psycopg SELECT 1", "postgresql"),
    "pymysql": ("PyMySQL SELECT 1", "mariadb"),
}
STARTED = {"redis": "redis-server", "postgresql": "postgresql", "mariadb": "mariadb"}


@dataclass(frozen=True)
class Settings:
    """How much work a run does: turns of each figure, operations of a turn, how many at once; requests that wait, and how long."""

    rounds: int = 9
    operations: int = 2_000
    together: int = 50
    waiting: int = 1_000
    milliseconds: int = 5_000


QUICK = Settings(rounds=3, operations=500, waiting=200)


def certificate(folder: Path) -> None:
    """A certificate for localhost that is its own authority, and its key: cert.pem, key.pem."""
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(["openssl", *words, *named, *files], cwd=folder, check=True, capture_output=True, timeout=60)


@contextmanager
def http_server(folder: Path) -> Iterator[dict[str, Any]]:
    """What `bench.libraries.server` serves: its ports and the certificate of its authority."""
    certificate(folder)
    files = [str(folder / "cert.pem"), str(folder / "key.pem")]
    words = [sys.executable, "-m", "bench.libraries.server", *files]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            plain, tls = map(int, server.stdout.readline().split())
            yield {"plain": plain, "tls": tls, "authority": files[0]}
        finally:
            server.kill()


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"cpu": {way: {side: us for each operation, "ratio": the median of the turns' roamlet / gevent, "turns": those,
    "floor": the median of the turns' alone / gevent}},
    "gap": {way: {side: the longest hold-up in ms}}, "memory": {side: bytes}, "skipped": {way: reason}}.
    """
    say(f"libraries: {', '.join(SIDES)}; {settings.rounds} rounds")
    skipped: dict[str, str] = {}
    taken: dict[str, Any] = {"cpu": {}, "gap": {}, "memory": {}, "skipped": skipped}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        known = stack.enter_context(http_server(folder))
        for name, program in STARTED.items():
            try:
                known[name] = str(stack.enter_context(servers.running(program, ROOT / ".venv" / program)))
            except (CannotUnpack, servers.CannotRun) as reason:
                skipped[name] = str(reason)
        for side in SIDES:
            taken["memory"][side] = memory(side, known, settings)
        workers = {side: stack.enter_context(worker(side, known)) for side in (*SIDES, ALONE)}
        for way, (_, needed) in FIGURES.items():
            if not needed or needed in known:
                try:
                    taken["cpu"][way], taken["gap"][way] = figures(way, workers, settings)
                except WorkerFailed as failure:
                    skipped[way] = str(failure)
    return taken


def worker(side: str, known: dict[str, Any]) -> Worker:
    made = Worker("bench.libraries.worker", side)
    made.ask("servers", **known)
    return made


def memory(side: str, known: dict[str, Any], settings: Settings) -> float:
    """Of a fresh process."""
    with worker(side, known) as fresh:
        taken: float = fresh.ask("memory", together=settings.waiting, milliseconds=settings.milliseconds)
        return taken


def figures(way: str, workers: dict[str, Worker], settings: Settings) -> tuple[dict[str, Any], dict[str, float]]:
    """What an operation costs on each side, and how long a side holds up its thread, in ms: the least of the turns."""

    def us(worker: Worker) -> float:
        seconds: float = worker.ask("cpu", way=way, count=settings.operations, together=settings.together)
        return seconds / (settings.operations // settings.together * settings.together) * 1e6

    turns = [{side: us(worker) for side, worker in workers.items()} for _ in range(settings.rounds)]
    held = {
        side: 1000 * min(workers[side].ask("gap", way=way, together=settings.together) for _ in range(3))
        for side in ("roamlet", "gevent")
    }
    ratios = [turn["roamlet"] / turn["gevent"] for turn in turns]
    cpu = {side: median(turn[side] for turn in turns) for side in workers}
    floor = median(turn[ALONE] / turn["gevent"] for turn in turns)
    return {**cpu, "ratio": median(ratios), "turns": ratios, "floor": floor}, held
