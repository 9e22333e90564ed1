"""The `weft` command itself: its exit codes, and that `python -m weft` is the same."""

import subprocess
import sys

import pytest

from weft.cli import main


def test_help_names_the_commands_and_ends_well(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert "demo" in said
    assert "run" in said


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["--no-such-option"], ["demo", "too", "many"]])
def test_a_wrong_command_line_ends_with_2_and_a_message(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("usage: weft")


def test_python_m_weft_is_the_same_command():
    done = subprocess.run(
        [sys.executable, "-m", "weft", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "weft")


def test_an_interrupt_ends_with_130(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("weft.cli._interpreters.interpreters", interrupted)
    monkeypatch.setattr("weft.cli.demo.interpreters", interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "weft demo: interrupted\n"
