"""The apps stand on weft's public names alone: none of their sources names a private module of weft, or a private name of one."""

import ast

import pytest

from tests.docs.blocks import ROOT

SOURCES = sorted((ROOT / "apps").glob("*/src/**/*.py"))


def private_names(source):
    """What `source` imports of weft that has a part with a leading underscore."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found += [
            name for name in names if name.split(".")[0] == "weft" and any(part[:1] == "_" for part in name.split("."))
        ]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_app_imports_only_public_names_of_weft(path):
    assert private_names(path.read_text(encoding="utf-8")) == []


def test_a_private_name_is_seen():
    assert private_names("from weft.remote import _link, ssh\nimport weft.cli._errors, os") == [
        "weft.remote._link",
        "weft.cli._errors",
    ]
