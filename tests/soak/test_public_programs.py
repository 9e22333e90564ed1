"""Programs of public packages and of the standard library, saved at random places and resumed in other processes: no wrong result.

Each snapshot ends as one of these: right (the result of the program that nobody interrupted), refused when it was saved or when
it was loaded, or wrong, which is anything else: another result, an exception, a crash, no end.
"""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import roamlet
from tests.snapshot.conftest import KNOWN

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames"),
]
FOLDER = Path(__file__).parent
PROGRAM = FOLDER / "public_programs.py"
COUNT = int(os.environ.get("ROAMLET_SOAK_POINTS", "20"))  # places in each program
FEWEST = 60  # programs
LIMIT = 600  # seconds

sys.path.append(str(FOLDER))  # the programs are modules of their own, as public_programs.py imports them
import public_programs  # noqa: E402

NEVER_RIGHT = {
    "cerberus": "its classes are made by a metaclass under names that no module has",
    "csv": "the writers and readers of _csv are C objects that pickle does not know",
    "decimal": "_pydecimal calls itself decimal, which is the module in C",
    "mako": "a template is code with globals that are no module's",
    "marshmallow": "its schema is a class made inside of the function",
    "pint": "its registry has weak references",
    "rich": "a console has a thread-local",
    "reportlab": "a document has a hash object of hashlib",
    "singledispatch": "the dispatcher has weak references",
    "voluptuous": "a marker has a lambda of its __init__, which pickle looks for by name",
}
"""Programs of which no place could be saved and resumed, and why."""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An interpreter of a private venv that has the packages, and roamlet as it is here."""
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", *public_programs.installed()], check=True)
    return folder / "bin" / "python"


def said(python, seed, *words):
    """What it prints. The seed of hashes differs where a snapshot is resumed, as it does between machines."""
    environment = {**os.environ, "PYTHONPATH": str(Path(roamlet.__file__).parents[1]), "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [python, PROGRAM, *map(str, words)],
        capture_output=True, text=True, check=False, timeout=LIMIT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", public_programs.PROGRAMS)
def test_what_is_resumed_comes_to_the_same_result(python, name, tmp_path, told):
    begun = said(python, "0", "save", name, tmp_path, COUNT, 7)[-1]
    outcomes = collections.Counter(refused_when_saved=sum(begun["refused"].values()))
    for file, came in said(python, "1", "resume", name, tmp_path):
        right = came.get("out") == begun["expected"]
        outcomes["right" if right else "refused_when_loaded" if "refused" in came else "wrong"] += 1
        if not right and "refused" not in came:
            told(f"{name} {file}: {came} in the place of {begun['expected']}")
    told(f"{name}: {dict(outcomes)}")
    for reason, count in begun["refused"].items():
        told(f"    {count} x {reason}")
    assert not begun["disturbed"], "the program itself, after it was saved and went on, came to another result"
    assert not outcomes["wrong"]
    assert outcomes["right"] or name in NEVER_RIGHT, begun["refused"]


def test_enough_programs_can_be_saved():
    assert len(set(public_programs.PROGRAMS) - set(NEVER_RIGHT)) >= FEWEST
    assert set(NEVER_RIGHT) <= set(public_programs.PROGRAMS)
