"""Without root the tests that touch no network run, and the others are skipped with a reason."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[4]
NOBODY = 65534
# The second where this Python, or the sources, are in a folder that root alone may enter: its owner is then unmapped.
WAYS = (
    ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"],
    ["unshare", "--user"],
)
# setpriv itself may still start what its user may not.
LOOKING = """
import os, subprocess, sys, roamlet_vpn.wireguard.plan
subprocess.run([sys.executable, "-c", ""], check=True)
print(os.geteuid())
"""


def as_somebody_else():
    """The words that start this Python as a user without root that may read the sources."""
    looking = [sys.executable, "-c", LOOKING]
    for way in WAYS:
        done = subprocess.run([*way, *looking], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.stdout == f"{NOBODY}\n":
            return way
    pytest.skip("only root can start this Python on this machine")


@pytest.fixture
def open_folder():
    """One that everybody may write into, in a place that everybody may enter: pytest's own are root's."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield folder


def test_without_root_the_pure_tests_run_and_the_rest_is_skipped_with_a_reason(open_folder):
    words = ["-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "-m", "not soak"]
    done = subprocess.run(
        [
            *as_somebody_else(),
            sys.executable,
            *words,
            f"--basetemp={open_folder}/temp",
            "apps/vpn/tests",
            "apps/lab/tests",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HOME": open_folder},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, last = done.stdout.strip().splitlines()
    passed, skipped = (int(re.search(rf"(\d+) {what}", last)[1]) for what in ("passed", "skipped"))
    assert "failed" not in last and passed > skipped > 50
    reasons = [re.fullmatch(r"SKIPPED \[(\d+)\] ([^ ]+): (.+)", line) for line in lines if line.startswith("SKIPPED")]
    assert sum(int(reason[1]) for reason in reasons) == skipped, done.stdout
    assert all("root" in reason[3] for reason in reasons), done.stdout
    in_labs = {reason[2].partition(":")[0] for reason in reasons if "a lab takes root" in reason[3]}
    assert in_labs >= {f"apps/vpn/tests/lab/test_{name}.py" for name in ("apply", "faults", "systemd", "checks")}
