"""`make test`: the whole suite on the default switching backend, and what must hold on every backend on both.

Several processes of pytest share the work, where there are two cores: two more at a time than there are cores, for most tests
start processes and wait for them. The main run prints as it goes. What those beside it print appears when one has failed;
their last lines, and what they skipped, are repeated by tests/conftest.py right above the summary of the main run, or below it
where they took longer, so that the end of the output shows all; the last line is the sum. Further arguments go to pytest, in
every run.

Where a test or two of a run have failed, those run once more when all else has ended (tools/pytest_run.py).
"""

import importlib.util
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started by its path

from tools import supervised  # noqa: E402
from tools.pytest_run import Run, in_words, status_of, summed  # noqa: E402

# Each test is looked at for exceptions that it has left alive, which takes about a millisecond.
LEAKS = "--roamlet-leaks"

NATIVE = importlib.util.find_spec("roamlet.core._native") is not None  # it knows this Python and this machine
BACKENDS = ("native", "greenlet") if NATIVE else ("greenlet",)

# What runs on every backend: the core and what stands directly on its switching.
ON_EVERY_BACKEND = ["tests/core", "tests/io", "tests/sync", "tests/snapshot"]

# Folders that run once, beside the main run, which has the others. Each of these takes about as long as it.
CONTEXTS = ["tests/remote"]
MODULES = ["tests/remote/modules", "tests/remote/transports"]
# distributed leaves threads and descriptors in its process, where tests of contexts look at both.
DASK = ["tests/remote/dask"]
COMMANDS = ["tests/cli", "tests/diagnose", "tests/patch"]
APPS = ["apps"]

# Servers of others, which mostly wait for each other: beside it as well.
SERVERS = [
    "tests/test_gunicorn.py",
    "tests/test_celery.py",
    "tests/docs/test_wsgi_howto.py",
    "tests/bench/test_library_figures.py",
    "tests/bench/test_wsgi_figures.py",
]


CPYTHONS_SUBPROCESS = "tests/io/test_standard_subprocess.py"


def other_runs(caches: Path, arguments: list[str]) -> list[Run]:
    """The runs beside the main one, those that take longest first."""

    def of(title: str, folders: list[str], changes: dict[str, str] | None = None, without: Sequence[str] = ()) -> Run:
        name = f"{title} ({' '.join(folders)})"
        words = [LEAKS, *folders, *ignored(*without), *arguments]
        return Run(name, words, changes or {}, caches / title.partition("(")[0])

    return [
        of("contexts", CONTEXTS, without=MODULES + DASK),
        of("commands", COMMANDS),
        of("apps", APPS),
        *(of(f"{one} backend", ON_EVERY_BACKEND, {"ROAMLET_SWITCH": one}) for one in BACKENDS),
        of("modules and transports", MODULES),
        of("Dask", DASK),
        of("servers", SERVERS),
        # What waits there for a process waits for its pipes, as other tests do: the usual poller is enough.
        of("poll(2) in place of epoll", ["tests/io"], {"ROAMLET_POLLER": "poll"}, [CPYTHONS_SUBPROCESS]),
    ]


def ignored(*paths: str) -> list[str]:
    """Words for pytest that leave these out."""
    return [f"--ignore={path}" for path in paths]


def noted(run: Run, summaries: Path) -> None:
    """Run it, and write how it ended into a file."""
    run.go()
    with summaries.open("a") as file:
        file.write(run.summary() + "\n")


def main(arguments: list[str]) -> int:
    """Run all; the status is 0 only when all passed, and there was something to run."""
    started = time.monotonic()
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(cores + (cores > 1)) as executor:
        summaries = Path(folder) / "summaries"
        summaries.touch()
        rest = ignored(*ON_EVERY_BACKEND, *CONTEXTS, *COMMANDS, *SERVERS)
        # All folders that no other run has. tests/conftest.py repeats the summaries.
        repeated = {"ROAMLET_OTHER_RUNS": str(summaries)}
        first = Run("main run", [LEAKS, "tests", *rest, *arguments], repeated, Path(folder) / "main")
        others = other_runs(Path(folder), arguments)
        waiting = [executor.submit(noted, run, summaries) for run in others]
        if cores < 2:
            wait(waiting)
        first.go(show=True)
        told = summaries.read_text()
        for future in waiting:
            future.result()
        for later in summaries.read_text().removeprefix(told).splitlines():
            print(later)
        runs = [first, *others]
        for run in runs:
            run.go_again()
        for run in runs:
            run.print_verdicts()
    words = in_words(summed(run.last_line for run in runs), sum(len(run.unstable) for run in runs))
    if not NATIVE:
        print("native backend: does not know this Python or this machine")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = f"{time.monotonic() - started:.0f}s ({used.ru_utime + used.ru_stime:.0f} s of processors)"
    print(f"{words} in {took}, in {len(runs)} runs")
    return status_of(runs)


if __name__ == "__main__":
    supervised.supervise()  # however it ends, what it has started ends too
    sys.exit(main(sys.argv[1:]))
