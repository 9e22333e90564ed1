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


def test_the_files_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|pyi|h|md|toml)))`", text))
    named = {path for path in named if not re.search("NAME|XYZ|^x.py|^_name.py", path)}  # of files to be written
    assert len(named) > 60
    there = [
        path for folder in ("src", "apps", "tests", "tools", "docs", "bench") for path in (ROOT / folder).rglob("*")
    ]
    ends = [f"/{path.relative_to(ROOT)}{'/' if path.is_dir() else ''}" for path in (*there, *ROOT.glob("*"))]
    missing = sorted(path for path in named if not any(end.endswith(f"/{path}") for end in ends))
    assert missing == []
