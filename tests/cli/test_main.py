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
    assert main(words) == 64
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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--locla", "2", "os:getpid"], "weft run: error: there is no option --locla; did you mean --local?"),
        (["run", "--local", "2", "--time=3", "os:getpid"], "there is no option --time; did you mean --timeout?"),
        (["bench", "gli"], "weft bench: error: there is no command gli; did you mean gil?"),
        (["bench"], "weft bench: error: name a COMMAND; `weft bench --help` lists them"),
        (
            ["run", "--local", "2", "os:listdir", "-x"],
            "there is no option -x; `weft run --help` lists them. An argument that begins with a dash",
        ),
        (["resume", "-s", "job.py", "job.weft"], "there is no option -s; `weft resume --help` lists them."),
        (["bench", "gil", "--qick"], "weft bench gil: error: there is no option --qick; did you mean --quick?"),
    ],
)
def test_an_option_that_there_is_not_is_named_before_what_is_missing(words, says, capsys):
    assert main(words) == 64
    said = capsys.readouterr().err
    assert says in said
    assert said.startswith(f"usage: weft {words[0]}")


def test_a_command_that_there_is_not_is_named_with_the_one_that_was_meant(capsys):
    assert main(["rnu", "--local", "2", "os:getpid"]) == 64
    assert "weft: error: there is no command rnu; did you mean run?" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["-5", "-.5", "-", "-not an option", "-Hnowhere.invalid"])
def test_a_word_that_argparse_takes_is_no_unknown_option(word, capsys):
    main(["run", word, "--local", "0", "os:getpid"])
    assert "no option" not in capsys.readouterr().err


def test_behind_two_dashes_every_word_is_an_argument(capsys):
    assert main(["run", "--local", "0", "os:listdir", "--", "--no-such"]) == 64
    assert "--local 0" in capsys.readouterr().err
