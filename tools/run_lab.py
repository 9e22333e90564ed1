"""`make test-lab`: the tests that build offices, file by file, a file for each core at a time, and one more: they wait a lot.

A lab is namespaces of its own, so those of several processes do not see each other. A line tells how each file ended, and
everything it printed where one of its tests failed; the last line sums up. Further arguments go to pytest; paths among them
say which files.

Offices share the processors with those of the other files, and what people would wait for has limits of seconds. So a file that
has failed beside others runs once more when all else has ended. It counts by that, and what it printed first stays to be read.
"""

import collections
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "--color=no", "-q", "-m", "lab and not soak", "-o", "faulthandler_timeout=0"]

# Those that take longest begin first, so that no lane is left with one of them at the end.
LONG = ("test_names", "test_faults", "test_checks", "test_apply", "test_systemd", "test_demo", "test_killed")

NOTHING_COLLECTED = 5
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed|warnings?)")


def files_with_labs() -> list[str]:
    """The test files of the apps that have tests of labs, the long ones first."""
    files = [path for path in sorted(ROOT.glob("apps/*/tests/**/test_*.py")) if "mark.lab" in path.read_text("utf-8")]
    files.sort(key=lambda path: LONG.index(path.stem) if path.stem in LONG else len(LONG))
    return [str(path.relative_to(ROOT)) for path in files]


def run(file: str, arguments: list[str]) -> tuple[str, int, str, float]:
    """One process of pytest for one file: its name, status, output and seconds."""
    started = time.monotonic()
    done = subprocess.run(
        [*PYTEST, file, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return file, done.returncode, done.stdout, time.monotonic() - started


def summed(outputs: list[str]) -> str:
    """What the last lines of several runs say, as one."""
    sums: collections.Counter[str] = collections.Counter()
    for output in outputs:
        for count, what in COUNTS.findall((output.strip().splitlines() or [""])[-1]):
            sums[what.replace("errors", "error").replace("warnings", "warning")] += int(count)
    order = ("failed", "error", "passed", "skipped", "xfailed", "xpassed", "warning")
    return ", ".join(f"{sums[what]} {what}" for what in order if sums[what]) or "no tests ran"


def main(arguments: list[str]) -> int:
    """Run all; the status is 0 only when all passed, and there was something to run."""
    started = time.monotonic()
    named = [word for word in arguments if (ROOT / word.partition("::")[0]).exists()]
    others = [word for word in arguments if word not in named]
    lanes = (os.cpu_count() or 1) + 1
    ended: dict[str, tuple[int, str]] = {}
    with ThreadPoolExecutor(lanes) as executor:
        waiting = [executor.submit(run, file, others) for file in named or files_with_labs()]
        for future in as_completed(waiting):
            ended[future.result()[0]] = told(*future.result(), asked=bool(others))
    again = [file for file, (status, _) in ended.items() if status not in (0, NOTHING_COLLECTED)]
    for file in again:
        print(f"\n== {file} once more, beside nothing else", flush=True)
        ended[file] = told(*run(file, others), asked=bool(others))
    failed = [f"{file} ({status})" for file, (status, _) in ended.items() if status not in (0, NOTHING_COLLECTED)]
    if unstable := [file for file in again if ended[file][0] == 0]:
        print(f"UNSTABLE: failed beside others, and passed alone: {', '.join(unstable)}")
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    sums = summed([output for _, output in ended.values()])
    print(f"{sums} in {time.monotonic() - started:.0f}s, {lanes} files at once")
    ran = any(status == 0 for status, _ in ended.values())
    return 1 if failed else 0 if ran else NOTHING_COLLECTED


def told(file: str, status: int, output: str, took: float, *, asked: bool) -> tuple[int, str]:
    """Print how a file ended; `asked` when somebody wants to know more than whether it passed. Its status and output."""
    lines = output.strip().splitlines() or [""]
    if status not in (0, NOTHING_COLLECTED):
        print(f"\n== {file}\n{output}", flush=True)
    elif asked:
        print(output, flush=True)
    for line in lines:
        if line.startswith(("SKIPPED", "measured: ")) and not asked:
            print(line)
    print(f"{file}: {lines[-1].strip('= ')} (took {took:.0f} s in all)", flush=True)
    return status, output


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
