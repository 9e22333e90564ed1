"""The apps stand on roamlet's public names alone: none of their sources has a private module or name of roamlet's."""

import ast
import importlib
import re
import shutil
import tomllib

import pytest

import roamlet
from tests.docs.blocks import ROOT
from tools import version

SOURCES = sorted((ROOT / "apps").glob("*/src/**/*.py"))


# The modules of roamlet that apps may import from. Their sub-packages are rooms of roamlet's own.
PUBLIC = {
    "roamlet",
    "roamlet.cli",
    "roamlet.cli.targets",
    "roamlet.io",
    "roamlet.remote",
    "roamlet.snapshot",
    "roamlet.sync",
}

# `roamlet bench import` changes roamlet's own import system to answer with one module at a time, to show what bundles save.
PRIVATE = {
    "roamlet_bench/imports.py": [
        "roamlet.remote.modules",
        "roamlet.remote.modules.finding.sources",
        "roamlet.remote.shipping.shipping",
        "roamlet.wire.modules.bundle",
    ]
}


def private_names(source):
    """What `source` imports of roamlet besides public modules and the names in their __all__."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names if one.name.split(".")[0] == "roamlet" and one.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "roamlet":
            public = importlib.import_module(node.module).__all__ if node.module in PUBLIC else []
            names = [f"{node.module}.{one.name}" for one in node.names if one.name not in public]
            found += [name for name in names if name not in PUBLIC]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_app_imports_only_public_names_of_roamlet(path):
    allowed = PRIVATE.get(f"{path.parent.name}/{path.name}", [])
    assert private_names(path.read_text(encoding="utf-8")) == allowed


def test_a_private_name_is_seen():
    source = "from roamlet.remote import link, ssh\nfrom roamlet import remote\nimport roamlet.cli._errors, os"
    assert private_names(source) == ["roamlet.remote.link", "roamlet.cli._errors"]


@pytest.mark.parametrize("path", sorted((ROOT / "apps").glob("*/pyproject.toml")), ids=lambda path: path.parent.name)
def test_an_app_is_pinned_to_the_roamlet_of_its_own_version(path):
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    own = importlib.import_module(project["name"].replace("-", "_")).__version__
    assert own == roamlet.__version__
    optional = project.get("optional-dependencies", {}).get("roamlet", [])
    needed = {*project.get("dependencies", []), *optional}
    assert {f"roamlet == {own}", f"roamlet[cli] == {own}"} & needed


def test_an_app_that_imports_rich_has_it_from_roamlets_extra(path=ROOT / "apps"):
    for app in sorted(path.glob("*/pyproject.toml")):
        if any(
            re.search(r"^from rich", one.read_text("utf-8"), re.MULTILINE) for one in app.parent.glob("src/**/*.py")
        ):
            assert any(
                need.startswith("roamlet[cli]")
                for need in tomllib.loads(app.read_text("utf-8"))["project"]["dependencies"]
            )


def test_all_versions_are_written_from_one_place(tmp_path):
    copy = tmp_path / "sources"
    for one in version.places(ROOT):
        (copy / one).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / one, copy / one)
    assert version.current(copy) == roamlet.__version__
    assert version.others(copy) == []
    version.write(copy, "9.8.7")
    assert (version.current(copy), version.others(copy)) == ("9.8.7", [])
    left = [one for one in version.places(ROOT) if roamlet.__version__ in (copy / one).read_text("utf-8")]
    assert left == []
    (copy / "apps/lab/src/roamlet_lab/__init__.py").write_text('__version__ = "0.0.1"\n')
    assert version.others(copy) == [("apps/lab/src/roamlet_lab/__init__.py", "0.0.1")]


@pytest.mark.parametrize("word", ["1", "v1.2.3", "1.2.3-beta", "1.2"])
def test_a_version_that_is_none_is_refused(word, capsys):
    assert version.main([word]) == 64
    assert "is no version" in capsys.readouterr().err
