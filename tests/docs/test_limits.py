"""docs/design/limits.md says what the code says: each constant is in its file, with the value of the table."""

import re

import pytest

from tests.docs.blocks import ROOT

PAGE = ROOT / "docs/design/limits.md"
ROW = re.compile(
    r"^\| (?P<limit>[^|]+) \|(?P<value>[^|]*)\| `(?P<code>(?:\\\||[^|`])+)` \| \[`[^`]+`\]\((?P<file>[^)]+)\) \|$"
)
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
NUMBER = re.compile(r"(?P<number>[\d,.]+)(?: (?P<unit>[KMG]iB))?(?: less (?P<less>\d+) bytes)?(?: s)?")
CONSTANT = re.compile(r"[\w.]*[A-Za-z_]+ (?:= )?(?P<expression>\(?[\d_.][\d_.<() -]*)")


def rows():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith(("| Limit |", "| --- |"))]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip())
def test_a_limit_has_the_value_that_its_file_gives_it(row):
    found = ROW.match(row)
    assert found, f"not a row of the limits: {row}"
    code, value = found["code"].replace("\\|", "|"), found["value"].strip()
    source = (PAGE.parent / found["file"]).read_text(encoding="utf-8")
    lines = [line for line in source.splitlines() if re.search(rf"(?<![\w.]){re.escape(code)}(?![\w.])", f"{line} ")]
    assert lines, f"{found['file']} has no {code}"
    if constant := CONSTANT.fullmatch(code):
        assert all(re.search(rf"{re.escape(code)}\s*(#.*|/\*.*)?$", line) for line in lines), f"more is in {lines}"
        said = NUMBER.fullmatch(value)
        assert said, f"no number: {value}"
        number = float(said["number"].replace(",", "")) * UNITS.get(said["unit"], 1) - int(said["less"] or 0)
        assert number == eval(constant["expression"])
    elif value:
        numbers = re.findall(r"\d+", code)
        assert all(word in numbers for word in re.findall(r"\d+", value.replace(",", ""))), f"{value} is not in {code}"
