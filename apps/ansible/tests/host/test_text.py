"""The text of a zygote: all of its files, each once, and none of them left to be imported."""

import ast
from pathlib import Path

from roamlet_ansible import host

FOLDER = Path(host.__file__).parent
FILES = [FOLDER / "accounts.py", *(path for path in (FOLDER / "zygote").glob("*.py") if path.name != "__init__.py")]


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def defined(tree):
    return [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def test_the_text_has_each_file_once_and_imports_nothing_of_the_package():
    tree = ast.parse(host.zygote_text())
    assert not [name for name in imported(tree) if name.startswith("roamlet")]
    assert sorted(defined(tree)) == sorted(name for path in FILES for name in defined(ast.parse(path.read_text())))


def test_no_two_files_have_the_same_name_as_they_share_one_dict():
    names = defined(ast.parse(host.zygote_text()))
    assert len(names) == len(set(names))


def test_hooks_are_changed_before_anything_else_is_imported():
    text = host.zygote_text().decode()
    assert text.index("os.register_at_fork = register_at_fork") < text.index("import random")
