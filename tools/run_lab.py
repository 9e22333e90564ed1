"""`make test-lab`: the tests that build offices, file by file, a file for each core at a time, and one more: they wait a lot.

A lab is namespaces of its own, so those of several processes do not see each other. A line tells how each file ended, and
everything it printed where one of its tests failed; the last line sums up. Further arguments go to pytest; paths among them
say which files.

What has failed beside others runs once more when all else has ended (tools/pytest_run.py), however many tests of a file that
are: they share its offices, and one that came up too late fails them all.
"""

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started by its path

from tools import supervised  # noqa: E402
from tools.pytest_run import Run, in_words, status_of, summed  # noqa: E402

LABS = ["-m", "lab and not soak", "-o", "faulthandler_timeout=0"]

# Those that take longest begin first, so that no lane is left with one of them at the end.
LONG = ("test_names", "test_faults", "test_checks", "test_apply", "test_systemd", "test_demo", "test_killed")


def files_with_labs() -> list[str]:
    """The test files of the apps that have tests of labs, the long ones first."""
    files = [path for path in sorted(ROOT.glob("apps/*/tests/**/test_*.py")) if "mark.lab" in path.read_text("utf-8")]
    files.sort(key=lambda path: LONG.index(path.stem) if path.stem in LONG else len(LONG))
    return [str(path.relative_to(ROOT)) for path in files]


def main(arguments: list[str]) -> int:
    """Run all; the status is 0 only when all passed, and there was something to run."""
    started = time.monotonic()
    named = [word for word in arguments if (ROOT / word.partition("::")[0]).exists()]
    others = [word for word in arguments if word not in named]
    lanes = (os.cpu_count() or 1) + 1
    with tempfile.TemporaryDirectory() as caches, ThreadPoolExecutor(lanes) as executor:
        runs = [
            Run(file, [*LABS, file, *others], {}, Path(caches, str(number)), again_at_most=sys.maxsize)
            for number, file in enumerate(named or files_with_labs())
        ]
        running = {executor.submit(run.go): run for run in runs}
        for future in as_completed(running):
            future.result()
            tell(running[future], asked=bool(others))
        for run in runs:
            run.go_again()
        for run in runs:
            run.print_verdicts()
    words = in_words(summed(run.last_line for run in runs), sum(len(run.unstable) for run in runs))
    print(f"{words} in {time.monotonic() - started:.0f}s, {lanes} files at once")
    return status_of(runs)


def tell(run: Run, *, asked: bool) -> None:
    """Print how a file ended; `asked` when somebody wants to know more than whether it passed."""
    if asked and not run.failed:
        print(run.output, flush=True)
    for line in run.output.splitlines():
        if line.startswith(("SKIPPED", "measured: ")) and not asked:
            print(line)
    print(f"{run.title}: {run.last_line} (took {run.seconds:.0f} s in all)", flush=True)


if __name__ == "__main__":
    supervised.supervise()  # however it ends, what it has started ends too
    sys.exit(main(sys.argv[1:]))
