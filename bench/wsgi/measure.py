"""Take the figures of gunicorn's workers: a server for each side, in turns, the median of the turns.

A server is one arbiter with one worker. What is measured is the CPU time of the worker, by its own clock; the clients are a
process of their own. It does not show latency, nor what a database driver in C costs under each worker.
"""

import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..workers import ROOT

SIDES = {
    "roamlet": ("-k", "roamlet.gunicorn.Worker"),
    "gevent": ("-k", "gevent"),
    "threads": ("-k", "gthread", "--threads", "100"),
}

# What is measured: its title, path and connections.
FIGURES = {
    "query_1": ("a query, 1 connection", "/product/7", 1),
    "query_100": ("a query, 100 connections", "/product/7", 100),
    "waiting_100": ("5 ms of waiting and a query, 100 connections", "/waiting/7", 100),
}


@dataclass(frozen=True)
class Settings:
    """How much work a run does: turns of each figure, and requests of a turn."""

    rounds: int = 9
    requests: int = 5_000


QUICK = Settings(rounds=3, requests=1_500)


@contextmanager
def serving(options: tuple[str, ...]) -> Iterator[int]:
    """A gunicorn with one worker; its port."""
    words = ["-m", "gunicorn", *options, "-b", "127.0.0.1:0", "--keep-alive", "60", "bench.wsgi.app:app"]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "ROAMLET_DEADLOCK": "auto"}
        server = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
        )
        with server:
            assert server.stderr is not None
            try:
                for line in server.stderr:
                    if found := re.search(r"Listening at: http://127\.0\.0\.1:(\d+) ", line):
                        yield int(found[1])
                        break
                else:
                    raise RuntimeError(f"gunicorn {' '.join(options)} did not start: it ended with {server.wait()}")
            finally:
                server.terminate()
                server.stderr.read()


def used(port: int) -> float:
    """CPU seconds of the worker so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/cpu", timeout=60) as answered:
        return float(answered.read())


def requests_per_second(port: int, path: str, connections: int, requests: int) -> float:
    """Of CPU of the worker."""
    each = max(requests // connections, 1)
    before = used(port)
    words = ["-S", "-m", "bench.wsgi.client", str(port), str(connections), str(each), path]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, timeout=600)
    return connections * each / (used(port) - before)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{figure: {side: requests per CPU second, "ratio": the median of the turns' roamlet / gevent, "turns": those}}."""
    say(f"wsgi: {', '.join(SIDES)}; {settings.rounds} rounds")
    taken: dict[str, Any] = {}
    with ExitStack() as stack:
        ports = {side: stack.enter_context(serving(options)) for side, options in SIDES.items()}
        for name, (_, path, connections) in FIGURES.items():
            for port in ports.values():
                requests_per_second(port, path, connections, 2 * connections)
            turns = [
                {side: requests_per_second(port, path, connections, settings.requests) for side, port in ports.items()}
                for _ in range(settings.rounds)
            ]
            ratios = [turn["roamlet"] / turn["gevent"] for turn in turns]
            taken[name] = {side: median(turn[side] for turn in turns) for side in SIDES}
            taken[name] |= {"ratio": median(ratios), "turns": ratios}
    return taken
