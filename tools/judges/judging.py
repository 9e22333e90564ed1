"""Running one module stock or patched to its end, however many of its tests hang, and what the two runs say together."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Protocol

INSIDE = Path(__file__).with_name("inside.py")

# Seconds: for one test, and for all that a module's process does.
TEST_LIMIT, MODULE_LIMIT = 60.0, 900.0

# A module whose tests hang is started anew without them, at most so often.
MOST_STARTS = 25

# A thread that is held up for so many seconds is worth a line.
LATE = 0.5


@dataclass
class Outcome:
    """How one test ended: passed, failed, skipped, hangs or dies (with its process)."""

    outcome: str
    text: str = ""
    late: float = 0.0
    """Seconds for which a tasklet beside it was held up."""


@dataclass
class Run:
    """One module, stock or patched."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    state: str = "done"
    """absent or skipped where the module could not be imported; unfinished where it was given up."""
    text: str = ""
    seconds: float = 0.0

    def passed(self) -> set[str]:
        """The names of the tests that have passed."""
        return {name for name, outcome in self.outcomes.items() if outcome.outcome == "passed"}


def run_module(
    python: Sequence[str], module: str, *, patch: Sequence[str] | None, only: Collection[str] | None = None
) -> Run:
    """Run the tests of test.MODULE with this Python's command, as run_tests() does."""
    return run_tests(python, [str(INSIDE), module], patch=patch, only=only)


def run_tests(
    python: Sequence[str],
    script: Sequence[str],
    *,
    patch: Sequence[str] | None,
    only: Collection[str] | None = None,
    cwd: Path | None = None,
) -> Run:
    """Run a script such as inside.py to its end; start again behind each test that hangs or dies.

    The file with the choice of tests and the descriptor are appended to `script`. `patch`: the options of `python -m
    roamlet.patch`; None for the stock library.
    """
    run, started = Run(), time.monotonic()
    words = [*python, *(["-m", "roamlet.patch", *patch] if patch is not None else []), *script]
    for _ in range(MOST_STARTS):
        begun, state = _once(words, patch is not None, only, cwd, run)
        if state == "":
            if begun is None:  # before its first test, or between two
                run.state, run.text = "unfinished", run.text or "its process ended or hung outside of a test"
                break
            continue
        run.state = state
        break
    else:
        run.state = "unfinished"
    run.seconds = time.monotonic() - started
    return run


def _once(
    words: Sequence[str], patched: bool, only: Collection[str] | None, cwd: Path | None, run: Run
) -> tuple[str | None, str]:
    """One process: the test in which it was ended, None when in none, and the state, "" when it was not done."""
    with tempfile.TemporaryDirectory() as folder:
        tests, errors = Path(folder, "tests.json"), Path(folder, "errors")
        choice = {"skip": list(run.outcomes), "only": None if only is None else list(only), "ticker": patched}
        tests.write_text(json.dumps(choice), "utf-8")
        read_fd, write_fd = os.pipe()
        with errors.open("wb") as output:
            process = subprocess.Popen(
                [*words, str(tests), str(write_fd)],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[write_fd],
                start_new_session=True,
                env={**os.environ, "PYTHONFAULTHANDLER": "1", "TMPDIR": folder},
            )
        os.close(write_fd)
        try:
            begun, state = _listen(read_fd, run)
            if state == "" and begun is not None:
                try:
                    process.wait(1)  # its end of the pipe is closed before it has ended
                    what = "dies"
                except subprocess.TimeoutExpired:
                    what = "hangs"
                    process.send_signal(signal.SIGABRT)  # faulthandler tells where
                    time.sleep(0.5)
                run.outcomes[begun] = Outcome(what, errors.read_text("utf-8", "replace")[-4000:])
            elif state == "":
                run.text = errors.read_text("utf-8", "replace")[-4000:]
            return begun, state
        finally:
            os.close(read_fd)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def _listen(fd: int, run: Run) -> tuple[str | None, str]:
    """Take down the lines until the module is done, a test takes too long or the process has ended."""
    begun: str | None = None
    rest, end = b"", time.monotonic() + MODULE_LIMIT
    with DefaultSelector() as selector:
        selector.register(fd, EVENT_READ)
        while selector.select(min(TEST_LIMIT, max(end - time.monotonic(), 0))):
            data = os.read(fd, 65536)
            if not data:
                return begun, ""
            *lines, rest = (rest + data).split(b"\n")
            for each in map(json.loads, lines):
                if "begins" in each:
                    begun = each["begins"]
                elif "ends" in each:
                    begun = None
                    run.outcomes[each["ends"]] = Outcome(each["outcome"], each["text"], each["late"])
                else:
                    run.text = each["text"]
                    return None, each["module"]
    return begun, ""


@dataclass
class Verdict:
    """One module on one Python: what passes stock and does not pass patched."""

    python: str
    module: str
    stock: Run
    patched: Run
    lost: dict[str, Outcome] = field(default_factory=dict)
    excepted: dict[str, str] = field(default_factory=dict)
    """Of the lost ones, those that the committed list names, with the reason."""
    needless: list[str] = field(default_factory=list)
    """Tests that the list names and that pass."""

    def unexpected(self) -> list[str]:
        """The lost tests that no line of the list explains."""
        return sorted(set(self.lost) - set(self.excepted))

    def late(self) -> dict[str, float]:
        """Tests beside which a tasklet was held up, with the seconds."""
        return {name: each.late for name, each in self.patched.outcomes.items() if each.late >= LATE}


class Runner(Protocol):
    """How tests are run: a module of CPython's, a suite of a library."""

    def __call__(self, *, patch: Sequence[str] | None, only: Collection[str] | None = None) -> Run:
        """Run them all, or these only, as run_tests() does."""


def judge(
    run: Runner,
    version: str,
    name: str,
    exceptions: Mapping[str, str],
    *,
    retries: int = 2,
    patch: Sequence[str] = (),
) -> Verdict:
    """Run the tests both ways; what is lost gets another try, alone: this machine may have been busy."""
    stock = run(patch=None)
    patched = run(patch=patch) if stock.state not in ("absent", "skipped") else stock
    for _ in range(retries):
        again = stock.passed() - patched.passed() - set(exceptions)
        if not again or patched is stock:
            break
        for test, outcome in run(patch=patch, only=again).outcomes.items():
            if outcome.outcome == "passed":
                patched.outcomes[test] = outcome
    verdict = Verdict(version, name, stock, patched)
    for test in sorted(stock.passed() - patched.passed()):
        verdict.lost[test] = patched.outcomes.get(test, Outcome("did not run", patched.text))
        if test in exceptions:
            verdict.excepted[test] = exceptions[test]
    verdict.needless = sorted(test for test in patched.passed() if test in exceptions)
    return verdict
