"""A run of pytest whose few failures run once more.

Several runs share the processors, and what people would wait for has limits of seconds. So where a test or two of a run have
failed, those run once more, when all else has ended. They count by that, and what they printed first stays to be read.

    python tools/pytest_run.py TITLE ...     one run with these words for pytest
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PYTEST = [sys.executable, "-m", "pytest", "--color=no", "-q"]

SOME_FAILED = 1
NOTHING_COLLECTED = 5

# A change that breaks something breaks more tests than these, in one run or in several.
AGAIN_AT_MOST = 3


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
        pieces = []
        with subprocess.Popen(
            self.command(*further),
            cwd=ROOT,
            env={**os.environ, **self.changes},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            while piece := process.stdout.read1():
                pieces.append(piece)
                if show:
                    sys.stdout.buffer.write(piece)
                    sys.stdout.flush()
        self.status, self.output = process.returncode, b"".join(pieces).decode(errors="replace")
        self.seconds = time.monotonic() - started
        if self.failed and not show:
            print(f"\n== {self.title}\n{self.output}", flush=True)

    def go_again(self) -> None:
        """Where few tests have failed, run those once more; they count by that."""
        tests = self.failed_tests()
        if self.status != SOME_FAILED or not 0 < len(tests) <= AGAIN_AT_MOST:
            return
        print(f"\n== {self.title}: {len(tests)} that failed, once more, beside nothing else", flush=True)
        first = self.output
        self.go("--last-failed")
        self.output = first
        if not self.failed:
            self.unstable = tests

    def print_verdicts(self) -> None:
        """A line for each test that has failed at last, or in its first run alone."""
        for test in self.failed_tests() if self.failed else []:
            print(f"FAILED: {test} ({self.title})")
        for test in self.unstable:
            print(f"UNSTABLE: failed beside others, and passed alone: {test} ({self.title})")

    @property
    def failed(self) -> bool:
        return self.status not in (0, NOTHING_COLLECTED)

    @property
    def last_line(self) -> str:
        """How many tests passed, and so on, in the first run."""
        return (self.output.strip().splitlines() or [""])[-1].strip("= ")

    def summary(self) -> str:
        """A line, and one more for each test skipped where the environment is as it was."""
        skipped = [line for line in self.output.splitlines() if line.startswith("SKIPPED") and not self.changes]
        line = f"{self.title}: {self.last_line} (took {self.seconds:.0f} s in all)"
        return "\n    ".join([line + "  <-- FAILED" * self.failed, *skipped])


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
    sys.exit(main(sys.argv[1], sys.argv[2:]))
