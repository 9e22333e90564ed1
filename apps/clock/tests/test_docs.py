"""The page about roamlet clock's insides: each weakness of its peers that it lists has a test beside it, and the test is there."""

import ast
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "design" / "clock.md"
TABLE = re.compile(r"^\| (?!Weakness|---|File|`)(.+) \|$", re.MULTILINE)


def names_of_tests() -> set[str]:
    return {
        node.name
        for path in Path(__file__).parent.rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }


ROWS = [row.split(" | ") for row in TABLE.findall(PAGE.read_text())]


def test_the_table_has_the_peers_and_the_cases():
    header = re.search(r"^\| Weakness \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert header is not None
    assert [cell.strip() for cell in header[1].split("|")][:4] == [
        "soft-hwclock",
        "fake-hwclock",
        "timesyncd",
        "chronyd -s",
    ]
    assert len(ROWS) >= 15
    assert all(len(row) == 6 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_weakness_has_a_test_that_is_there(row):
    named = re.findall(r"`(test_\w+)`", row[-1])
    assert named, f"no test holds: {row[0]}"
    assert set(named) <= names_of_tests()
