"""`roamlet` where rich is not installed: what needs tables says so before anything is touched, the rest works."""

import json
import sys

import pytest

from roamlet.cli import main


@pytest.fixture(autouse=True)
def without_rich(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.delitem(sys.modules, "roamlet.cli.top.terminal", raising=False)


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["demo"], ""),
        (["hosts", "-H", "a"], ", or add --json"),
        (["run", "--local", "1", "os:getpid"], ", or add --json"),
        (["top"], ", or add --once"),
    ],
)
def test_a_command_with_tables_says_what_to_install(words, instead, capsys):
    assert main(words) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"roamlet {words[0]}: it prints tables with the package rich, which is not installed beside roamlet. Type: "
        f"{sys.executable} -m pip install 'roamlet[cli]'{instead}\n"
    )


def test_json_needs_no_tables(capsys):
    assert main(["hosts", "-H", "a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["host"] == "a"
    assert main(["run", "--local", "1", "--json", "os.path:basename", "/a/b"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == "b"


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["ps", "--help"]])
def test_help_needs_nothing(words, capsys):
    assert main(words) == 0
    assert "roamlet" in capsys.readouterr().out
