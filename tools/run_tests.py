"""`make test`: the whole suite on the default switching backend, and what must hold on every backend on the others too.

Where there are two cores what must hold on every backend is run on each of them beside the rest, which is the main run and takes
longer. What those beside it print appears when one has failed; their last lines, and what they skipped, are repeated by
tests/conftest.py right above the summary of the main run, so that the end of the output shows all. Further arguments go to
pytest, in every run.
"""

import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each test is looked at for exceptions that it has left alive, which takes about a millisecond.
PYTEST = [sys.executable, "-m", "pytest", "--color=no", "-q", "--roamlet-leaks"]

OTHER_BACKENDS = ("greenlet", "stacks")

# What runs on every backend: the core and what stands directly on its switching.
ON_EVERY_BACKEND = ["tests/core", "tests/io", "tests/sync", "tests/snapshot"]

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


def run_others(arguments: list[str], summaries: Path) -> list[int]:
    """Make the runs beside the main one; write how each ended into a file, and return their statuses."""
    statuses = []
    default = functools.partial(run_with, "default backend", {}, ON_EVERY_BACKEND, arguments)
    runs: list[Callable[[], tuple[int, str]]] = [default]
    runs += [functools.partial(run_on, one, arguments) for one in OTHER_BACKENDS]
    poll = {"ROAMLET_POLLER": "poll"}
    runs.append(functools.partial(run_with, "poll(2) in place of epoll", poll, ["tests/io"], arguments))
    for run in runs:
        status, summary = run()
        statuses.append(status)
        with summaries.open("a") as file:
            file.write(summary + "\n")
    return statuses


def main(arguments: list[str]) -> int:
    """Run all; the status is 0 only when all passed, and there was something to run."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as executor:
        summaries = Path(folder) / "summaries"
        summaries.touch()
        others = executor.submit(run_others, arguments, summaries)
        if (os.cpu_count() or 1) < 2:
            others.exception()
        environment = {**os.environ, "ROAMLET_OTHER_RUNS": str(summaries)}
        rest = [f"--ignore={folder}" for folder in ON_EVERY_BACKEND]
        command = [*PYTEST, "tests", "apps", *rest, *arguments]
        last = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        told = summaries.read_text()
        statuses = [last, *others.result()]
        for line in summaries.read_text().removeprefix(told).splitlines():  # of those that took longer
            print(line)
    return next((status for status in statuses if status not in (0, NOTHING_COLLECTED)), min(statuses))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
