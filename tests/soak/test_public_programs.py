"""Programs of public packages and of the standard library, saved at random places and resumed in other processes: no wrong result.

Each snapshot ends as one of these: right (the result of the uninterrupted program), refused when it was saved or when
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
SHOWN = 2  # reasons for each program

sys.path.append(str(FOLDER))  # the programs are modules of their own, as public_programs.py imports them
import public_programs  # noqa: E402

SELDOM_RIGHT = {
    "astroid": "its manager has the attributes of a class, as the __dict__ of that has them",
    "cerberus": "its classes are made by a metaclass, under names that no module has",
    "copy": "deepcopy has a dictionary whose keys are id()s",
    "csv": "the writers and readers of _csv are C objects that pickle does not know",
    "dataclasses": "its class is made while the program runs, under a name that no module has",
    "decimal": "_pydecimal calls itself decimal, which is the module in C",
    "html5lib": "its trees are of classes that are made inside of functions",
    "jinja2": "a template is code with globals that are no module's",
    "logging": "a logger that logging does not know by its name is refused by logging itself",
    "mako": "a template is a module that no import finds",
    "marshmallow": "its schema is a class that is made inside of the function",
    "mpmath": "before CPython 3.12, generators that C code runs are on the stack; its contexts have classes of their own",
    "networkx": "its functions get other code when they are called first",
    "pprint": "it has a dictionary whose keys are id()s",
    "pygments": "before CPython 3.12, generators that C code runs are on the stack",
    "reportlab": "a document has a hash object of hashlib",
    "rich": "a console has a thread-local",
    "singledispatch": "a dispatcher has weak references",
    "voluptuous": "a marker has a lambda, which pickle looks for by name",
    "xlsxwriter": "its cells are of named tuples that no module has by their names",
}
"""Programs of which all places may be refused, and why."""


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
    for reason in list(begun["refused"])[:SHOWN]:
        told(f"    such as: {reason}")
    assert not begun["disturbed"], "the program itself, after it was saved and went on, came to another result"
    assert not outcomes["wrong"]
    assert outcomes["right"] or name in SELDOM_RIGHT, begun["refused"]


def test_enough_programs_can_be_saved():
    assert len(set(public_programs.PROGRAMS) - set(SELDOM_RIGHT)) >= FEWEST
    assert set(SELDOM_RIGHT) <= set(public_programs.PROGRAMS)
