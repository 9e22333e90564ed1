"""`make test`: the whole suite on the default switching backend, and what must hold on every backend on the others too.

The runs on the other backends come first. Their last lines are repeated by tests/conftest.py right above the summary of the
main run, so that the end of the output shows all. Further arguments go to pytest, in every run.
"""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "--color=no", "-q"]

OTHER_BACKENDS = ("greenlet", "stacks")

# What runs on every backend: the core and what stands directly on its switching.
ON_EVERY_BACKEND = ["tests/core", "tests/io", "tests/sync", "tests/snapshot"]

NOTHING_COLLECTED = 5


def run_on(backend: str, arguments: list[str]) -> tuple[int, str]:
    """Run the tests of every backend on this one; print what they print, return the status and the summary line."""
    folders = [folder for folder in ON_EVERY_BACKEND if any((ROOT / folder).glob("**/test_*.py"))]
    if not folders:
        return 0, f"{backend} backend: no tests"
    if backend == "stacks" and importlib.util.find_spec("weft.core._stacks") is None:
        return 0, f"{backend} backend: does not know this Python or this machine"
    return run_with(f"{backend} backend", {"WEFT_SWITCH": backend}, folders, arguments)


def run_with(title: str, changes: dict[str, str], folders: list[str], arguments: list[str]) -> tuple[int, str]:
    """Run the tests of these folders in a changed environment; print what they print, return the status and the summary line."""
    started = time.monotonic()
    environment = {**os.environ, **changes}
    last = ""
    command = [*PYTEST, *folders, *arguments]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    status = 0 if process.returncode == NOTHING_COLLECTED else process.returncode
    took = f"took {time.monotonic() - started:.0f} s in all"
    failed = "" if status == 0 else "  <-- FAILED"
    return status, f"{title} ({' '.join(folders)}): {last.strip('= ')} ({took}){failed}"


def main(arguments: list[str]) -> int:
    """Run all; the status is 0 only when all passed."""
    earlier = [run_on(backend, arguments) for backend in OTHER_BACKENDS]
    earlier.append(run_with("poll(2) in place of epoll", {"WEFT_POLLER": "poll"}, ["tests/io"], arguments))
    environment = {**os.environ, "WEFT_EARLIER_RUNS": "\n".join(summary for _, summary in earlier)}
    last = subprocess.run([*PYTEST, "tests", *arguments], cwd=ROOT, env=environment, check=False).returncode
    return next((status for status, _ in earlier if status), last)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
