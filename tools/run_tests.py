"""`make test`: the whole suite on the default switching backend, then once more what must hold on both backends.

The run on the greenlet backend comes first. Its last line is repeated by tests/conftest.py right above the summary of the
main run, so that the end of the output shows both. Further arguments go to pytest, in both runs.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "--color=no", "-q"]

# What runs on both backends: the core and what stands directly on its switching.
ON_BOTH_BACKENDS = ["tests/core", "tests/io", "tests/sync"]

NOTHING_COLLECTED = 5


def run_on_greenlet(arguments: list[str]) -> tuple[int, str]:
    """Run the tests of both backends on greenlet; print what they print, return the status and the summary line."""
    folders = [folder for folder in ON_BOTH_BACKENDS if any((ROOT / folder).glob("**/test_*.py"))]
    if not folders:
        return 0, "greenlet backend: no tests"
    environment = {**os.environ, "WEFT_SWITCH": "greenlet"}
    last = ""
    command = [*PYTEST, *folders, *arguments]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    status = 0 if process.returncode == NOTHING_COLLECTED else process.returncode
    return status, f"greenlet backend ({' '.join(folders)}): {last.strip('= ')}{'' if status == 0 else '  <-- FAILED'}"


def main(arguments: list[str]) -> int:
    """Run both; the status is 0 only when both passed."""
    started = time.monotonic()
    first, summary = run_on_greenlet(arguments)
    environment = {**os.environ, "WEFT_EARLIER_RUNS": f"{summary} (took {time.monotonic() - started:.0f} s in all)"}
    second = subprocess.run([*PYTEST, "tests", *arguments], cwd=ROOT, env=environment, check=False).returncode
    return first or second


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
