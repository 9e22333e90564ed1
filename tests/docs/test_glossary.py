"""Each word of the glossary is the name of something: its file has it. And no word is explained twice."""

import re
from collections import Counter

import pytest

from tests.docs.blocks import ROOT

PAGE = ROOT / "docs/design/glossary.md"
ROW = re.compile(
    r"^\| (?P<word>[^|]+) \| (?P<meaning>[^|]+) \| \[`(?P<name>\w+)`\]\((?P<file>[^)]+)\) \|(?P<old>[^|]*)\|$"
)


def rows():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith(("| Word |", "| --- |"))]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip())
def test_the_name_of_a_word_is_in_its_file(row):
    found = ROW.match(row)
    assert found, f"not a row of the glossary: {row}"
    text = (PAGE.parent / found["file"]).read_text(encoding="utf-8")
    assert re.search(rf"\b{found['name']}\b", text), f"{found['file']} has no {found['name']}"


def test_no_word_is_explained_twice_but_facts_which_two_packages_have():
    words = Counter(row.split("|")[1].strip() for row in rows())
    assert {word for word, number in words.items() if number > 1} <= {"facts"}


def test_the_glossary_has_about_a_hundred_words():
    assert 50 <= len(rows()) <= 110
