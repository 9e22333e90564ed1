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


FOLDERS = ("src", "apps", "tests", "tools", "docs", "bench", "examples", "prototypes")
TO_BE_WRITTEN = re.compile("NAME|XYZ|^x.py|^_name.py|^__init__.py")


def missing(page, pattern):
    """The paths in backticks that match `pattern` and are the end of no file or folder of the repository."""
    named = {path for path in re.findall(pattern, page.read_text(encoding="utf-8")) if not TO_BE_WRITTEN.search(path)}
    there = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    ends = [f"/{path.relative_to(ROOT)}{'/' if path.is_dir() else ''}" for path in (*there, *ROOT.glob("*"))]
    return sorted(path for path in named if not any(end.endswith(f"/{path}") for end in ends))


def test_the_files_that_contributing_names_exist():
    assert missing(ROOT / "CONTRIBUTING.md", r"`([\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|pyi|h|md|toml)))`") == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/design").glob("*.md")), ids=lambda page: page.name)
def test_the_files_that_a_page_of_the_design_names_exist(page):
    if page.name != "files.md":  # which is made from them
        assert missing(page, r"`((?:[\w-]+/)+[\w-]+\.(?:py|pyi|c|h))`") == []


def test_no_block_of_code_is_fenced_inside_a_list():
    """Python-Markdown, which makes the pages, knows fences at the beginning of a line alone."""
    for page in (ROOT / "docs").rglob("*.md"):
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            assert not re.match(r" +```", line), f"{page.relative_to(ROOT)}:{number}"
