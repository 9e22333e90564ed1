"""Programs of public packages, saved after random numbers of instructions and resumed in another process: no wrong result."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import roamlet
from tests.snapshot.conftest import KNOWN
from tests.soak import public_programs

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames"),
]
PROGRAM = Path(public_programs.__file__)
COUNT = int(os.environ.get("ROAMLET_SOAK_POINTS", "40"))  # places in each program


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An interpreter of a private venv that has the packages, and roamlet as it is here."""
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    names = sorted({name for name in map(public_programs.package_of, public_programs.PROGRAMS) if name})
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", *names], check=True)
    return folder / "bin" / "python"


def said(python, *words):
    environment = {**os.environ, "PYTHONPATH": str(Path(roamlet.__file__).parents[1]), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [python, PROGRAM, *map(str, words)], capture_output=True, text=True, check=False, timeout=600, env=environment
    )
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr[-2000:]}


@pytest.mark.parametrize("name", public_programs.PROGRAMS)
def test_what_is_resumed_comes_to_the_same_result(python, name, tmp_path, told):
    begun = said(python, "save", name, tmp_path, COUNT, 7)
    assert "failed" not in begun, begun
    outcomes = collections.Counter(refused_when_saved=begun["refused"])
    for file in sorted(tmp_path.iterdir()):
        came = said(python, "resume", file)
        right = came.get("out") == begun["expected"]
        outcomes["right" if right else "refused_when_loaded" if "refused" in came else "wrong"] += 1
        if not right and "refused" not in came:
            told(f"{file.name}: {came} in the place of {begun['expected']}")
    told(f"{name}: {dict(outcomes)}")
    assert not outcomes["wrong"]
