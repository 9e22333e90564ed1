"""A run of pytest whose few failures run once more.

Several runs share the processors, and what people would wait for has limits of seconds. So where a test or two of a run have
failed, those run once more, when all else has ended. They count by that, and what they printed first stays to be read.
Nothing else is tried again: not a run that crashed, ended before its last test or could not collect them all.

A run that prints nothing for a long time is ended: pytest's own limits hold for tests alone, not for what the process does
after the last test.

    python tools/pytest_run.py TITLE ...     one run with these words for pytest
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started by its path

from tools import supervised  # noqa: E402

PYTEST = [sys.executable, "-X", "faulthandler", "-m", "pytest", "--color=no", "-q"]

# Longer than any test may take (pyproject.toml), and than those in labs have taken on a busy machine.
SILENT_SECONDS = 900.0

SOME_FAILED = 1
INTERNAL_ERROR = 3
NOTHING_COLLECTED = 5

# A change that breaks something breaks more tests than these, in one run or in several.
AGAIN_AT_MOST = 3

COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed|warnings?)\b")
LAST_LINE = re.compile(r"\bin \d+\.\d+s\b")
# Between exclamation marks: pytest has not run all of its tests, for -x has told it to, or a test.
CUT_SHORT = re.compile(r"^!+ .* !+$", re.MULTILINE)


@dataclass
class Run:
    """One process of pytest, and how it ended."""

    title: str
    arguments: list[str]
    """Folders, files and options."""

    changes: dict[str, str]
    """Of the environment."""

    cache: Path
    """pytest notes there what has failed."""

    again_at_most: int = AGAIN_AT_MOST
    """How many failed tests run once more; where more have failed, none does."""

    status: int = 0
    output: str = ""
    seconds: float = 0
    unstable: list[str] = field(default_factory=list)
    """Tests that have passed in their second run alone."""

    def command(self, *further: str) -> list[str]:
        """What runs these tests with these further arguments."""
        return [*PYTEST, "-o", f"cache_dir={self.cache}", *self.arguments, *further]

    def failed_tests(self) -> list[str]:
        """The tests that failed when this ran last."""
        file = self.cache / "v/cache/lastfailed"
        return sorted(json.loads(file.read_text())) if file.exists() else []

    def go(self, *further: str, show: bool = False) -> None:
        """Run them; blocks until they have ended. Their output is shown as it comes, or at the end where they failed."""
        started = time.monotonic()
        whole = self.cache / "v/cache/nodeids"  # written when the session is finished
        whole.unlink(missing_ok=True)
        pieces = []
        with subprocess.Popen(
            self.command(*further),
            cwd=ROOT,
            env={**os.environ, **self.changes},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            for piece in _printed(process):
                pieces.append(piece)
                if show:
                    sys.stdout.buffer.write(piece)
                    sys.stdout.flush()
        self.status, self.output = process.returncode, b"".join(pieces).decode(errors="replace")
        self.seconds = time.monotonic() - started
        if self.status == 0 and not whole.exists() and not LAST_LINE.search(self.last_line):
            self.status = INTERNAL_ERROR  # os._exit(0), somewhere in a test
        if self.failed and not show:
            print(f"\n== {self.title}\n{self.output}", flush=True)

    def go_again(self) -> None:
        """Where few tests have failed, run those once more; they count by that, if each of them ran and passed."""
        tests = self.failed_tests()
        if self.status != SOME_FAILED or not 0 < len(tests) <= self.again_at_most:
            return
        if CUT_SHORT.search(self.output) or not all("::" in test for test in tests):  # a file: it was not collected
            return
        print(f"\n== {self.title}: {len(tests)} that failed, once more, beside nothing else", flush=True)
        first = self.output
        self.go("--last-failed")
        counts = summed([self.last_line])
        self.output = first
        if self.status == 0 and counts.total() - counts["warning"] == counts["passed"] == len(tests):
            self.unstable = tests
        else:
            self.status = self.status if self.failed else SOME_FAILED  # skipped, or not found: it has not passed

    def print_verdicts(self) -> None:
        """A line for each test that has failed at last, or in its first run alone; one for a run that ended by itself."""
        failed = self.failed_tests() or [f"the run ended with status {self.status}"]
        for test in failed if self.failed else []:
            print(f"FAILED: {test} ({self.title})")
        for test in self.unstable:
            print(f"UNSTABLE: failed beside others, and passed alone: {test} ({self.title})")

    @property
    def failed(self) -> bool:
        return self.status not in (0, NOTHING_COLLECTED)

    @property
    def last_line(self) -> str:
        """How many tests passed, and so on, in the first run. What is printed after pytest's own last line is no part of it."""
        lines = self.output.strip().splitlines() or [""]
        return next((line for line in reversed(lines) if LAST_LINE.search(line)), lines[-1]).strip("= ")

    def summary(self) -> str:
        """A line, and one more for each test skipped where the environment is as it was."""
        skipped = [line for line in self.output.splitlines() if line.startswith("SKIPPED") and not self.changes]
        line = f"{self.title}: {self.last_line} (took {self.seconds:.0f} s in all)"
        return "\n    ".join([line + "  <-- FAILED" * self.failed, *skipped])


def _printed(process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    """What it prints, as it comes, until it has ended: a process that it has left behind may hold its output open.

    Where it prints nothing for SILENT_SECONDS, it is ended by SIGABRT, at which it says where its threads are.
    """
    assert process.stdout is not None
    ended = False
    last = time.monotonic()
    while True:
        if select.select([process.stdout], [], [], 0 if ended else min(1, SILENT_SECONDS))[0]:
            if not (piece := os.read(process.stdout.fileno(), 1 << 16)):
                return
            yield piece
            last = time.monotonic()
        elif ended:
            return
        elif time.monotonic() - last >= SILENT_SECONDS:
            yield f"\nended, as nothing was printed for {SILENT_SECONDS:.0f} s\n".encode()
            process.send_signal(signal.SIGABRT)
            last = time.monotonic()
        ended = ended or process.poll() is not None


def summed(last_lines: Iterable[str]) -> Counter[str]:
    """How many tests passed, and so on, in several runs together."""
    sums: Counter[str] = Counter()
    for line in last_lines:
        for count, what in COUNTS.findall(line):
            sums[what.replace("errors", "error").replace("warnings", "warning")] += int(count)
    return sums


def in_words(sums: Counter[str], unstable: int) -> str:
    """These sums as pytest would say them; `unstable` of the failed have passed alone."""
    order = ("failed", "error", "passed", "skipped", "xfailed", "xpassed", "warning")
    words = ", ".join(f"{sums[what]} {what}" for what in order if sums[what]) or "no tests ran"
    return words + f", {unstable} of the failed passed alone" * bool(unstable)


def status_of(runs: Iterable[Run]) -> int:
    """0 only when all passed, and there was something to run."""
    statuses = [run.status for run in runs]
    return next(
        (status for status in statuses if status not in (0, NOTHING_COLLECTED)),
        min(statuses, default=NOTHING_COLLECTED),
    )


def main(title: str, arguments: list[str]) -> int:
    """Run pytest with these words; the status is its own, and the last line of the output counts."""
    with tempfile.TemporaryDirectory() as cache:
        run = Run(title, arguments, {}, Path(cache))
        run.go(show=True)
        run.go_again()
        run.print_verdicts()
    print(run.last_line + f", {len(run.unstable)} of the failed passed alone" * bool(run.unstable))
    return run.status


if __name__ == "__main__":
    supervised.supervise()  # however it ends, pytest and what that has started end too
    sys.exit(main(sys.argv[1], sys.argv[2:]))
