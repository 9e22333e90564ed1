"""`make lab-demo`: three offices are joined with the commands that a person types, and all are taken down again."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[3]


def test_the_demo_joins_three_offices_and_finds_nothing_wrong():
    done = subprocess.run(
        [sys.executable, "examples/three_offices.py"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:  # what went wrong stands at the end; the beginning is long
        pytest.fail(f"{done.stderr}\n{done.stdout[-4000:]}", pytrace=False)
    for said in (
        "a client of alpha reaches one of gamma: no",
        "a client of alpha reaches one of gamma: yes",
        "nothing is wrong",
        "Nothing to do: every server is as the file says.",
    ):
        assert said in done.stdout
    assert done.stdout.endswith("all taken down again\n")
    assert (ROOT / "build/lab-demo/network.svg").read_text().startswith("<svg")
