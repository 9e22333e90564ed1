"""What is said of an import that fails on a target: which file of which version was sent, and which Pythons there are."""

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from roamlet import remote
from tests.remote import interpreters
from tests.remote.modules.conftest import Make

FAILS = {
    "roamlet_dated/__init__.py": "",
    "roamlet_dated/syntax.py": "value = 1\nif True:\n    print 'of Python 2'\n",
    "roamlet_dated/names.py": "from json import what_no_version_has\n",
    "Roamlet_Dated-4.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: Roamlet-Dated\nVersion: 4.2\n",
    "Roamlet_Dated-4.2.dist-info/top_level.txt": "roamlet_dated\n",
    "roamlet_asks_for.py": """
        def value(name):
            __import__("roamlet_dated." + name)

        def no_package(name):
            __import__(name)
    """,
    "roamlet_direct.py": "from roamlet_dated import names\ndef call():\n    return 1\n",
    "roamlet_loose.py": "import json\nfrom json import what_no_version_has\n",
}
HERE = "{} {}.{}.{}".format(sys.implementation.name, *sys.version_info[:3])


def sent(file: str, context: remote.Context) -> str:
    facts = context.facts
    return f"{file} was sent by this process, which is {HERE}; 'local' is {facts.implementation} {facts.version}."


def failed(kind: type[Exception], context: remote.Context, function: Callable[..., object], *args: object) -> list[str]:
    """The text of the error that a call raises, and its notes."""
    try:
        context.call(function, args)
    except kind as error:
        return [str(error), *error.__notes__]
    pytest.fail(f"no {kind.__name__} was raised")


@pytest.mark.parametrize("version", [one for one in interpreters.found() if one != "2.7"])
@pytest.mark.parametrize(
    ("name", "kind", "line"), [("syntax", SyntaxError, 3), ("names", ImportError, 1)], ids=["syntax", "names"]
)
def test_the_package_its_version_and_both_pythons_are_named(
    make: Make, version: str, name: str, kind: type[Exception], line: int
) -> None:
    make(FAILS)
    asks = importlib.import_module("roamlet_asks_for")
    with remote.local(python=interpreters.found()[version]) as context:
        last = failed(kind, context, asks.value, name)[-1]
        assert last == sent(f"roamlet_dated/{name}.py, line {line}, of Roamlet-Dated 4.2,", context)


def test_a_call_whose_module_cannot_be_imported_says_so_in_its_message(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(FAILS)
    json = importlib.import_module("json")
    monkeypatch.setattr(json, "what_no_version_has", 1, raising=False)
    direct = importlib.import_module("roamlet_direct")
    with remote.local() as context:
        text = failed(remote.RemoteModuleNotFound, context, direct.call)[0]
        assert text.endswith(sent("roamlet_dated/names.py, line 1, of Roamlet-Dated 4.2,", context))


def test_a_module_of_no_distribution_is_named_by_its_file(make: Make) -> None:
    make(FAILS)
    asks = importlib.import_module("roamlet_asks_for")
    with remote.local() as context:
        last = failed(ImportError, context, asks.no_package, "roamlet_loose")[-1]
        assert last == sent("roamlet_loose.py, line 2,", context)


IN_C = """
    import os, sqlite3
    path = os.path.join(os.path.dirname(__file__), "rules.txt")

    def opened():
        raise OSError("failed to load '%s': No such file or directory" % path)

    def without_path():
        count, font = 1, path
        os.close(-1 if font else font)  # fails in C, and says nothing of a path

    def other_reason():
        font = path
        raise OSError("no network " + font[:0])

    def written():
        open(path, "w")

    def absent():
        open(path + ".other")
"""


def test_a_path_in_memory_that_a_library_in_c_does_not_find_is_explained(make: Make) -> None:
    make({**FAILS, "roamlet_dated/paths.py": IN_C, "roamlet_dated/rules.txt": "text"})
    paths = importlib.import_module("roamlet_dated.paths")
    with remote.local() as context:
        assert failed(OSError, context, paths.opened)[-1] == (
            "roamlet_dated/rules.txt of Roamlet-Dated 4.2 is in memory on the target, where Python's own functions open it by that "
            "path and libraries in C do not. Give them a real path (importlib.resources.as_file), the bytes or an open file, or "
            "install roamlet_dated on the target."
        )
        assert (
            "roamlet_dated/rules.txt of Roamlet-Dated 4.2 is in memory on the target"
            in (failed(OSError, context, paths.without_path)[-1])
        )
        for function in (paths.written, paths.absent, paths.other_reason):
            assert not any("libraries in C" in text for text in failed(OSError, context, function))


def test_an_import_that_fails_as_c_opens_a_path_is_explained_in_its_message(make: Make) -> None:
    files = {**FAILS, "roamlet_dated/rules.txt": "text"}
    make({**files, "roamlet_dated/paths.py": IN_C + "    if path.startswith('roamlet:'): opened()\n"})
    paths = importlib.import_module("roamlet_dated.paths")
    with remote.local() as context:
        text = failed(remote.RemoteError, context, paths.opened)[0]
    assert "roamlet_dated/rules.txt of Roamlet-Dated 4.2 is in memory on the target" in text


SCRIPT = """
import sys
from roamlet import remote

def work():
    return 1

path = sys.argv[1]
with remote.local(python=path) as context:
    context.call(work)
"""
GUARDED = """
import sys
from roamlet import remote

class Only:
    it = sys.argv[1]

def work():
    return 1

if __name__ == "__main__":
    with remote.local(python=sys.argv[1]) as context:
        context.call(work)
"""
OTHER = [one for one in interpreters.others() if one in ("2.7", "3.8")]


def last_words(folder: Path, script: str, python: str) -> str:
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, str(folder / "script.py"), python], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "importing __main__ failed there: IndexError: list index out of range.\n" in done.stderr
    return done.stderr


@pytest.mark.parametrize("python", [sys.executable, *(interpreters.found()[one] for one in OTHER)])
def test_a_main_script_without_a_guard_is_said_to_have_none_whatever_the_versions(tmp_path: Path, python: str) -> None:
    text = last_words(tmp_path, SCRIPT, python)
    assert "The main script has no main guard, so that all of it runs there when it is imported" in text
    assert "if __name__ == '__main__':" in text


def test_a_main_script_with_a_guard_is_not_said_to_lack_one(tmp_path: Path) -> None:
    assert "does it use what only this machine or process has?" in last_words(tmp_path, GUARDED, sys.executable)


@pytest.mark.parametrize("version", OTHER[:1])
def test_another_version_is_suspected_only_where_it_is_another(tmp_path: Path, version: str) -> None:
    text = last_words(tmp_path, GUARDED, interpreters.found()[version])
    assert "does it use what that version lacks?" in text
