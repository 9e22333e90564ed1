"""Running a piece of Python in an interpreter of its own: for what would take the test process down with it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_script(
    source: str, *options: str, timeout: float = 60, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `source`, with warnings as errors, on the same backend as this process; `options` go to the interpreter."""
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", *options, "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        check=False,
    )


def output_of(source: str, *options: str, timeout: float = 60, env: dict[str, str] | None = None) -> str:
    """What `source` printed. Fails when it did not end with status 0, or wrote anything to stderr."""
    done = run_script(source, *options, timeout=timeout, env=env)
    assert (done.returncode, done.stderr) == (0, ""), f"{done.returncode}: {done.stderr[-3000:]}"
    return done.stdout.strip()
