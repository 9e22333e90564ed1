"""`make test`: the whole suite on the default switching backend, and what must hold on every backend on the others too.

Several processes of pytest share the work, where there are two cores: one more at a time than there are cores, for tests of
contexts wait a lot. The main run prints as it goes. What those beside it print appears when one has failed; their last lines,
and what they skipped, are repeated by tests/conftest.py right above the summary of the main run, or below it where they took
longer, so that the end of the output shows all; the last line is the sum. Further arguments go to pytest, in every run.
"""

import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started by its path

from tools.run_lab import summed  # noqa: E402

# Each test is looked at for exceptions that it has left alive, which takes about a millisecond.
PYTEST = [sys.executable, "-m", "pytest", "--color=no", "-q", "--roamlet-leaks"]

OTHER_BACKENDS = ("greenlet", "stacks")

# What runs on every backend: the core and what stands directly on its switching.
ON_EVERY_BACKEND = ["tests/core", "tests/io", "tests/sync", "tests/snapshot"]

# The longest folder that runs once: beside the main run, which takes as long without it.
BESIDE = ["tests/remote"]

# Servers of others, which mostly wait for each other: beside it as well.
SERVERS = [
    "tests/test_gunicorn.py",
    "tests/test_celery.py",
    "tests/docs/test_wsgi_howto.py",
    "tests/bench/test_wsgi_figures.py",
]

NOTHING_COLLECTED = 5


def run_on(backend: str, arguments: list[str]) -> tuple[int, str]:
    """Run the tests of every backend on this one; return what `run_with` does."""
    if backend == "stacks" and importlib.util.find_spec("roamlet.core._stacks") is None:
        return 0, f"{backend} backend: does not know this Python or this machine"
    return run_with(f"{backend} backend", {"ROAMLET_SWITCH": backend}, ON_EVERY_BACKEND, arguments)


def run_with(title: str, changes: dict[str, str], folders: list[str], arguments: list[str]) -> tuple[int, str]:
    """Run the tests of these folders in a changed environment; print them if they fail.

    Returns the status and the summary: a line, and one more for each test skipped where the environment is as it was.
    """
    started = time.monotonic()
    command = [*PYTEST, *folders, *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **changes},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    status = done.returncode
    took = f"took {time.monotonic() - started:.0f} s in all"
    failed = ""
    if status not in (0, NOTHING_COLLECTED):
        failed = "  <-- FAILED"
        print(f"\n== {title}\n{done.stdout}", flush=True)
    lines = done.stdout.strip().splitlines() or [""]
    skipped = "".join(f"\n    {line}" for line in lines if line.startswith("SKIPPED") and not changes)
    return status, f"{title} ({' '.join(folders)}): {lines[-1].strip('= ')} ({took}){failed}{skipped}"


def other_runs(arguments: list[str]) -> list[Callable[[], tuple[int, str]]]:
    """The runs beside the main one, those that take longest first."""
    poll = {"ROAMLET_POLLER": "poll"}
    return [
        functools.partial(run_with, "contexts", {}, BESIDE, arguments),
        functools.partial(run_with, "default backend", {}, ON_EVERY_BACKEND, arguments),
        *(functools.partial(run_on, one, arguments) for one in OTHER_BACKENDS),
        functools.partial(run_with, "servers", {}, SERVERS, arguments),
        functools.partial(run_with, "poll(2) in place of epoll", poll, ["tests/io"], arguments),
    ]


def noted(run: Callable[[], tuple[int, str]], summaries: Path) -> int:
    """Make one run and write how it ended into a file; return its status."""
    status, summary = run()
    with summaries.open("a") as file:
        file.write(summary + "\n")
    return status


def main_run(arguments: list[str], summaries: Path) -> tuple[int, str]:
    """All folders that no other run has; shown as it goes. Returns the status and the last line."""
    rest = [f"--ignore={folder}" for folder in (*ON_EVERY_BACKEND, *BESIDE, *SERVERS)]
    command = [*PYTEST, "tests", "apps", *rest, *arguments]
    environment = {**os.environ, "ROAMLET_OTHER_RUNS": str(summaries)}
    last = ""
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while piece := process.stdout.read1():
            sys.stdout.buffer.write(piece)
            sys.stdout.flush()
            last = (last + piece.decode(errors="replace"))[-1000:]
    return process.returncode, (last.strip().splitlines() or [""])[-1]


def main(arguments: list[str]) -> int:
    """Run all; the status is 0 only when all passed, and there was something to run."""
    started = time.monotonic()
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(cores) as executor:
        summaries = Path(folder) / "summaries"
        summaries.touch()
        others = [executor.submit(noted, run, summaries) for run in other_runs(arguments)]
        if cores < 2:
            wait(others)
        status, line = main_run(arguments, summaries)
        told = summaries.read_text()
        statuses = [status, *(other.result() for other in others)]
        outcome = summaries.read_text()
        for later in outcome.removeprefix(told).splitlines():
            print(later)
    counts = [summary.rpartition("): ")[2] for summary in outcome.splitlines() if not summary.startswith(" ")]
    print(f"{summed([line, *counts])} in {time.monotonic() - started:.0f}s, in {len(statuses)} runs")
    return next((status for status in statuses if status not in (0, NOTHING_COLLECTED)), min(statuses))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
