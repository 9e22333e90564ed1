"""The apps stand on roamlet's public names alone: none of their sources has a private module or name of roamlet's."""

import ast
import importlib
import tomllib

import pytest

import roamlet
from tests.docs.blocks import ROOT

SOURCES = sorted((ROOT / "apps").glob("*/src/**/*.py"))


def private_names(source):
    """What `source` imports of roamlet that has a part with a leading underscore."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found += [
            name
            for name in names
            if name.split(".")[0] == "roamlet" and any(part[:1] == "_" for part in name.split("."))
        ]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_app_imports_only_public_names_of_roamlet(path):
    assert private_names(path.read_text(encoding="utf-8")) == []


def test_a_private_name_is_seen():
    assert private_names("from roamlet.remote import _link, ssh\nimport roamlet.cli._errors, os") == [
        "roamlet.remote._link",
        "roamlet.cli._errors",
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "apps").glob("*/pyproject.toml")), ids=lambda path: path.parent.name)
def test_an_app_is_pinned_to_the_roamlet_of_its_own_version(path):
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    own = importlib.import_module(project["name"].replace("-", "_")).__version__
    assert own == roamlet.__version__
    assert f"roamlet == {own}" in project["dependencies"]
