"""`.ci/run`: what must pass before a change is taken, side by side, in as much time as the machine's cores need for all of it.

What a newcomer types, `make demo` and `make test`, runs in a fresh Debian in which nothing was installed by hand. Beside it,
on this machine: the tests in labs, which wait a lot, the static checks, and the core's tests on the other Pythons. All runs,
whatever fails. What a job prints appears when it has ended, and how each ended in the last lines. Nothing that was started
outlives this process.

    python3 tools/ci.py               everything
    python3 tools/ci.py check lab     these jobs alone
"""

import contextlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started by its path, before there is a .venv

from tools import supervised  # noqa: E402

# Of one job. A reader of the end of the output sees there what failed.
REPEATED_LINES = 25

# Longer than any of them has taken on a busy machine. One that hangs is ended, so that what it has printed is seen.
LIMIT_SECONDS = 50 * 60
TIDYING_SECONDS = 30

# What the jobs take beyond what README.md names: one package each.
PROGRAMS = {"clang-tidy": "clang-tidy", "debootstrap": "debootstrap"}


@dataclass(frozen=True)
class Job:
    title: str
    command: tuple[str, ...]
    shows: str
    """Which of its lines are repeated at the end."""

    environment: dict[str, str] = field(default_factory=dict)


def on_pythons(*others: str) -> Job:
    """The core's tests on this machine's Pythons but these."""
    return Job(
        f"make test-all: core, io, sync and threads, without {', '.join(others)}",
        ("make", "test-all"),
        r"^Python.*:|^FAILED|^UNSTABLE|^E  ",
        {
            "FOLDERS": "tests/core tests/io tests/sync tests/threads",
            "ROAMLET_TESTS": "telling",
            "WITHOUT": " ".join(others),
        },
    )


# The fresh Debian's own Python is 3.11, which `make test` runs there on both backends. C asserts are on in the others.
JOBS = {
    "room": Job(
        "make demo and make test in a fresh Debian",
        ("tools/cleanroom.sh", "root"),
        r" in [\d.]+s|FAILED|UNSTABLE|^ *E  ",
    ),
    "environment": Job("the environment of this machine", ("make", ".venv/.dev"), r"^$"),
    "lab": Job("make test-lab", ("make", "test-lab"), r" files at once$|^FAILED|^UNSTABLE|^E  "),
    "ansible": Job("make test-ansible", ("make", "test-ansible"), r" in [\d.]+s|^FAILED|^UNSTABLE|^E  "),
    "check": Job("make check", ("make", "check"), r"FAILED|^make check failed"),
    "newcomer": Job(
        "a newcomer with a wheel, in a fresh Debian without a compiler",
        ("sh", "-c", "make wheels ARGS='--once 3.11' && ALONE=1 make newcomer"),
        r" s  |in all|FAILED",
    ),
    "odd": on_pythons("3.11", "3.12", "3.14"),
    "even": on_pythons("3.11", "3.13", "3.15"),
}

# Those of a lane run one after the other; both take about as long. Those of the second work on .venv, none of the first does.
LANES = (("room", "odd", "even"), ("environment", "lab", "check", "newcomer", "ansible"))


@dataclass(frozen=True)
class Ended:
    job: Job
    status: int
    seconds: float
    lines: list[str]


def bring_programs() -> None:
    """Install what is missing where that is possible; the jobs say what they miss."""
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if not missing or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print(f"installing {', '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
        subprocess.run(["apt-get", *words], check=False, env=environment, **quiet)  # type: ignore[call-overload]


def run(job: Job, printing: threading.Lock) -> Ended:
    """Run it to its end, or its limit; print what it has printed."""
    print(f"== begun: {job.title}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            job.command,
            cwd=ROOT,
            env={**os.environ, **job.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            status = process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            supervised.end(lambda: supervised.below(process.pid))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TIDYING_SECONDS)  # a script prints what its last step has printed
            supervised.end(lambda: supervised.below(process.pid))
            process.kill()
            process.wait()
            status = 124
        output.seek(0)
        text = output.read()
    seconds = time.monotonic() - started
    with printing:
        print(f"\n== {job.title}\n{text}", end="")
        if status == 124:
            print(f"ended: it has taken longer than {LIMIT_SECONDS} s")
        print(f"== {job.title}: {'passed' if status == 0 else 'FAILED'} after {seconds:.0f} s", flush=True)
    return Ended(job, status, seconds, [line for line in text.splitlines() if re.search(job.shows, line)])


def main(names: list[str]) -> int:
    """Run the named jobs, or all; the status is 0 when all have passed."""
    if unknown := set(names) - set(JOBS):
        print(f"no such job: {', '.join(sorted(unknown))}; there are {', '.join(JOBS)}", file=sys.stderr)
        return 2
    supervised.supervise()
    started = time.monotonic()
    bring_programs()
    printing = threading.Lock()
    lanes = [[name for name in lane if not names or name in names] for lane in LANES]
    with ThreadPoolExecutor(len(lanes)) as executor:
        running = [executor.submit(lambda lane=lane: [run(JOBS[name], printing) for name in lane]) for lane in lanes]
        ended = [one for lane in running for one in lane.result()]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = f"{time.monotonic() - started:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors"
    print(f"\n== all of it: {took}")
    failed = [one for one in ended if one.status]
    # The last line is that of make test, or of what failed.
    for one in sorted(ended, key=lambda one: (one.status != 0, one.job is JOBS["room"])):
        print(f"{'FAILED' if one.status else 'passed'} after {one.seconds:.0f} s: {one.job.title}")
        for line in one.lines[-REPEATED_LINES:]:
            print(f"    {line.strip()}")
    if failed:
        print(f"CI: failed: {', '.join(one.job.title for one in failed)}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
