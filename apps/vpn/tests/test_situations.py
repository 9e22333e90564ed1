"""The table of situations in docs/design/vpn.md: all of them are there, and every test that it names."""

import ast
import re

from tests.docs.blocks import ROOT

TABLE = re.compile(r"^\| (\d+)\. [^|]+ \| (.+) \|$", re.MULTILINE)
SITUATIONS = 24


def found_in(path):
    """The tests of a file, as NAME or CLASS::NAME."""
    tree = ast.parse(path.read_text("utf-8"))
    return {
        f"{prefix}{function.name}"
        for prefix, body in [("", tree.body)]
        + [(f"{part.name}::", part.body) for part in tree.body if isinstance(part, ast.ClassDef)]
        for function in body
        if isinstance(function, ast.FunctionDef)
    }


def test_every_situation_has_tests_and_all_of_them_are_there():
    rows = TABLE.findall((ROOT / "docs/design/vpn.md").read_text("utf-8"))
    assert [int(number) for number, _ in rows] == list(range(1, SITUATIONS + 1))
    for number, cell in rows:
        named = re.findall(r"`(?:([\w/]+\.py)::([\w:]+))`", cell)
        assert named and ", ".join(f"`{file}::{name}`" for file, name in named) == cell, number
        missing = [f"{file}::{name}" for file, name in named if name not in found_in(ROOT / "apps/vpn/tests" / file)]
        assert missing == [], number
