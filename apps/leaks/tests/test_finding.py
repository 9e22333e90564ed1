"""What a finding says: to editors, to people and as JSON."""

import json
import re

import pytest

from roamlet_leaks import CASES, Finding, Keeps
from roamlet_leaks.finding import size


def a_finding(**changes):
    fields = {
        "kind": "cycle",
        "code": "RL001",
        "path": "jobs.py",
        "line": 7,
        "function": "catch",
        "name": "result",
        "message": CASES["RL001"].message("result"),
        "mend": CASES["RL001"].mended("result"),
    }
    return Finding(**{**fields, **changes})


def test_editors_read_it():
    said = str(a_finding(column=9))
    assert (
        said
        == "jobs.py:7:9: RL001 result holds an exception whose traceback holds the frame of result, or of one that it called"
    )


def test_it_is_json_with_and_without_what_it_keeps():
    assert json.loads(json.dumps(a_finding().plain()))["keeps"] is None
    keeps = Keeps(3, 1234, ("jobs.py:7 in catch",))
    assert json.loads(json.dumps(a_finding(keeps=keeps).plain()))["keeps"] == {
        "objects": 3,
        "bytes": 1234,
        "frames": ["jobs.py:7 in catch"],
    }


@pytest.mark.parametrize(
    ("number", "says"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 KB"), (250_000, "250 KB"), (1_200_000, "1.2 MB"), (5e9, "5.0 GB")],
)
def test_sizes_are_as_people_read_them(number, says):
    assert size(number) == says


def test_one_object_is_one_object():
    assert (str(Keeps(1, 20, ())), str(Keeps(2000, 20, ()))) == ("1 object, 20 bytes", "2,000 objects, 20 bytes")


@pytest.mark.parametrize("code", CASES)
def test_each_case_has_its_code_and_a_mend_with_the_name_filled_in(code):
    case = CASES[code]
    assert re.fullmatch(r"RL\d{3}", code) and case.code == code
    assert "held_here" in case.message("held_here")
    assert not re.search(r"[{}]", case.message("held_here") + case.mended("held_here"))
