"""What pages have from the code: import graphs, maps, signatures."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import architecture_map, front_picture, marked, mkdocs_hook, signatures
from tools.import_graph import Room, circles, first_comment, first_sentence, read, rooms


@pytest.fixture
def sources(tmp_path):
    """A package of three layers. `high` imports inside a function, `middle` for type checking alone."""
    files = {
        "house/__init__.py": '"""A house. Nothing else."""\nfrom house.high import roof\n',
        "house/high/__init__.py": '"""What is above."""\n',
        "house/high/roof.py": "def build():\n    from house import middle\n    from ..low import ground\n",
        "house/middle.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.low.ground import Ground\n",
        "house/low/__init__.py": "",
        "house/low/ground.py": "import os\nclass Ground: ...\n",
        "other/__init__.py": "import house.high.roof\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read([tmp_path])


def test_imports_inside_functions_and_for_type_checking_count(sources):
    assert sources["house.high.roof"].imports == {"house.middle", "house.low.ground"}
    assert sources["house.middle"].imports == {"house.low.ground"}
    assert sources["house.low.ground"].imports == set()


def test_a_room_has_the_modules_of_a_package_and_imports_other_rooms(sources):
    found = rooms(sources, "house", beside={"other"})
    assert {name: (room.modules, room.imports) for name, room in found.items()} == {
        "house": (1, {"house.high"}),
        "house.high": (2, {"house.middle", "house.low"}),
        "house.middle": (1, {"house.low"}),
        "house.low": (2, set()),
        "other": (1, {"house.high"}),
    }
    assert found["house.high"].purpose == "What is above."


def test_a_file_without_a_docstring_is_described_by_the_first_sentence_of_its_comment():
    assert (
        first_comment("#!/bin/sh\n# Saves it. And more.\n#\n# Later.\nset -e\n# no\n")
        == "Saves it. And more.\n\nLater."
    )
    assert first_comment("import os\n# no\n") == ""
    assert architecture_map.purpose_of("#!/bin/sh\n# Saves it. And more.\n") == "Saves it."
    assert architecture_map.purpose_of("/* A queue,\n   in C. Rest. */\n") == "A queue, in C."
    assert architecture_map.purpose_of("[Unit]\nDescription=Keep the time\n") == "Keep the time."


def test_rooms_lie_above_what_they_import_and_arrows_that_follow_are_left_out(sources):
    found = rooms(sources, "house", beside={"other"})
    rank = architecture_map.ranks(found)
    assert rank == {"house.low": 0, "house.middle": 1, "house.high": 2, "house": 3, "other": 3}
    assert architecture_map.arrows(found, rank) == [
        ("house", "house.high"),
        ("house.high", "house.middle"),
        ("house.middle", "house.low"),
        ("other", "house.high"),
    ]


def test_rooms_that_import_each_other_are_a_circle_and_share_a_row():
    edges = {"a": {"b"}, "b": {"c", "a"}, "c": set()}
    assert circles(edges) == [{"c"}, {"a", "b"}]
    found = {name: Room(name, 1, "", frozenset(imports)) for name, imports in edges.items()}
    assert architecture_map.ranks(found) == {"c": 0, "a": 1, "b": 1}
    assert 'class="circle"' in architecture_map.picture(found, "")


def test_no_two_boxes_of_a_map_overlap():
    modules = read([architecture_map.ROOT / "src", *sorted(architecture_map.ROOT.glob("apps/*/src"))])
    for parent in architecture_map.MAPS.values():
        drawing = architecture_map.arranged(architecture_map.shown(modules, parent), parent)
        for row in drawing.rows:
            for left, right in pairwise(row):
                assert left.x + left.width / 2 <= right.x - right.width / 2


def test_no_files_import_each_other_in_a_circle_not_even_for_type_checking():
    modules = read([architecture_map.ROOT / "src", *sorted(architecture_map.ROOT.glob("apps/*/src"))])
    assert len(modules) > 400
    found = circles({name: module.imports for name, module in modules.items()})
    assert [sorted(circle) for circle in found if len(circle) > 1] == []


def test_every_package_has_its_files_listed():
    page = (architecture_map.DESIGN / "files.md").read_text(encoding="utf-8")
    packages = [path.parent.name for path in architecture_map.ROOT.glob("src/roamlet/*/__init__.py")]
    apps = [path.parent.name for path in architecture_map.ROOT.glob("apps/*/src/*/__init__.py")]
    assert len(packages) > 10 and len(apps) > 5
    listed = set(re.findall(r"<!-- modules: (\S+) -->", page))
    assert {f"roamlet.{name}" for name in packages} | set(apps) <= listed


def test_no_folder_but_one_of_equals_has_more_than_15_modules():
    equals = {"src/roamlet/remote/transports"}
    folders = [
        path.parent for pattern in ("src/**/*.py", "apps/*/src/**/*.py") for path in architecture_map.ROOT.glob(pattern)
    ]
    counts = Counter(str(folder.relative_to(architecture_map.ROOT)) for folder in folders)
    assert len(counts) > 40
    assert {folder: count for folder, count in counts.items() if count > 15 and folder not in equals} == {}


def test_the_first_sentence_of_a_docstring():
    assert first_sentence("What it is\nfor. More.\n\nEven more.") == "What it is for."
    assert first_sentence("No end") == "No end"


def test_a_marked_piece_is_filled_and_the_text_around_it_stays():
    page = "a\n<!-- kind: x.y -->\nold\n<!-- end -->\nb\n<!-- other: z -->\nold\n<!-- end -->\n"
    filled = marked.filled(page, "kind", lambda name: f"new {name}")
    assert filled == "a\n<!-- kind: x.y -->\n\nnew x.y\n\n<!-- end -->\nb\n<!-- other: z -->\nold\n<!-- end -->\n"
    assert marked.filled(filled, "kind", lambda name: f"new {name}") == filled


def test_what_is_out_of_date_fails_until_it_is_written(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("old")
    assert marked.settle({page: "new"}, "tools.x", write=False) == 1
    assert f"{page}" in capsys.readouterr().err
    assert marked.settle({page: "new"}, "tools.x", write=True) == 0
    assert (page.read_text(), marked.settle({page: "new"}, "tools.x", write=False)) == ("new", 0)


@pytest.mark.parametrize("name", ["local", "ssh"])
def test_the_signatures_of_transports_have_every_option(name):
    written = signatures.signature(f"roamlet.remote.{name}")
    for option in ("name", "timeout", "output", "modules", "tasklets", "via"):
        assert f"    {option}: " in written
    assert "**" not in written


def test_a_short_signature_is_one_line():
    assert signatures.signature("roamlet.remote.Context.closed") == "```python\nclosed: bool\n```"
    assert "def heartbeat(seconds: float | None) -> None: ..." in signatures.signature(
        "roamlet.remote.Context.heartbeat"
    )


def test_every_page_is_in_the_contents_and_so_in_the_navigation():
    docs = Path(signatures.ROOT, "docs")
    front, *sections, contents = mkdocs_hook.navigation((docs / "contents.md").read_text(encoding="utf-8"))
    pages = [page for section in sections for links in section.values() for link in links for page in link.values()]
    pages += [*front.values(), *contents.values()]
    assert sorted(pages) == sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))


def test_the_figures_of_the_front_page_are_those_of_the_benchmarks():
    docs = Path(signatures.ROOT, "docs")
    rows = [line for line in (docs / "index.md").read_text(encoding="utf-8").splitlines() if line.startswith("| a ")]
    rows += [line for line in (docs / "index.md").read_text(encoding="utf-8").splitlines() if " HTTP " in line]
    figures = [figure for row in rows for figure in re.findall(r"\d[\d,]*\.\d+|\d+,\d+", row)]
    measured = (docs / "reference/benchmarks.md").read_text(encoding="utf-8")
    assert len(figures) > 10
    assert [figure for figure in figures if f"| {figure} |" not in measured] == []


def test_the_picture_of_the_front_page_is_drawn_from_the_table_of_servers():
    values = front_picture.figures(front_picture.TABLE.read_text(encoding="utf-8"))
    assert set(front_picture.NAMES) <= set(values)
    assert front_picture.PICTURE.read_text(encoding="utf-8") == front_picture.drawn(values)
    assert f">{values['gevent']}</text>" in front_picture.drawn(values)
    assert front_picture.figures("") == {}


def test_the_page_of_the_examples_has_each_program():
    folder = Path(signatures.ROOT, "examples")
    page = mkdocs_hook.on_page_markdown(
        f"# Them\n\n{mkdocs_hook.PROGRAMS}\n", SimpleNamespace(docs_dir=str(folder.parent / "docs"))
    )
    for path in folder.glob("*.py"):
        assert f"[{path.name}](#{path.stem}py)" in page
        assert f"## {path.name}\n\n```python\n{path.read_text(encoding='utf-8')}```" in page
    assert mkdocs_hook.PROGRAMS in Path(signatures.ROOT, "docs/examples.md").read_text(encoding="utf-8")


def test_links_to_files_outside_of_the_documentation_become_their_text():
    page = "see [`Link`](../../src/roamlet/remote/link/link.py), [how](../CONTRIBUTING.md#x) and [wire](wire.md)"
    assert mkdocs_hook.on_page_markdown(page) == "see `Link`, how and [wire](wire.md)"
