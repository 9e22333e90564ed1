"""What holds for the repository's own files: links lead somewhere, the licence and the change log are there."""

import re

import pytest

from tests.docs.blocks import ROOT

LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


@pytest.mark.parametrize(
    "page",
    [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: page.name,
)
def test_links_between_pages_lead_to_files_that_exist(page):
    broken = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("name", ["LICENSE", "CHANGELOG.md", "README.md", "CONTRIBUTING.md", "Makefile", ".ci/run"])
def test_the_files_that_people_look_for_are_there_and_not_empty(name):
    assert (ROOT / name).read_text(encoding="utf-8").strip()
