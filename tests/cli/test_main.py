"""The `roamlet` command itself: its exit codes, and that `python -m roamlet` is the same."""

import subprocess
import sys

import pytest

from roamlet.cli import main


def test_help_names_the_commands_and_ends_well(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert "demo" in said
    assert "run" in said


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["--no-such-option"], ["demo", "too", "many"]])
def test_a_wrong_command_line_ends_with_2_and_a_message(words, capsys):
    assert main(words) == 64
    assert capsys.readouterr().err.startswith("usage: roamlet")


def test_python_m_roamlet_is_the_same_command():
    done = subprocess.run(
        [sys.executable, "-m", "roamlet", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "roamlet")


def test_an_interrupt_ends_with_130(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("roamlet.cli.programs.interpreters.interpreters", interrupted)
    monkeypatch.setattr("roamlet.cli.commands.demo.interpreters", interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "roamlet demo: interrupted\n"


def test_an_interrupt_while_roamlet_is_imported_ends_with_130_and_no_traceback():
    program = (
        "import sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'roamlet.cli._options': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "import roamlet_command\n"
        "sys.exit(roamlet_command.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "roamlet: interrupted\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--locla", "2", "os:getpid"], "roamlet run: error: there is no option --locla; did you mean --local?"),
        (["run", "--local", "2", "--time=3", "os:getpid"], "there is no option --time; did you mean --timeout?"),
        (["bench", "gli"], "roamlet bench: error: there is no command gli; did you mean gil?"),
        (["bench"], "roamlet bench: error: name a COMMAND; `roamlet bench --help` lists them"),
        (
            ["run", "--local", "2", "os:listdir", "-x"],
            "there is no option -x; `roamlet run --help` lists them. An argument that begins with a dash",
        ),
        (["resume", "-s", "job.py", "job.roamlet"], "there is no option -s; `roamlet resume --help` lists them."),
        (["bench", "gil", "--qick"], "roamlet bench gil: error: there is no option --qick; did you mean --quick?"),
    ],
)
def test_an_option_that_there_is_not_is_named_before_what_is_missing(words, says, capsys):
    assert main(words) == 64
    said = capsys.readouterr().err
    assert says in said
    assert said.startswith(f"usage: roamlet {words[0]}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ps", "1", "2"], "too many arguments: leave out 2; `roamlet ps --help` shows what it takes"),
        (["hosts", "a", "b"], "too many arguments: leave out a b; `roamlet hosts --help` shows what it takes"),
        (["hosts", "--foo"], "there is no option --foo; `roamlet hosts --help` lists them.\n"),
    ],
)
def test_what_a_command_has_no_place_for_is_refused_in_its_own_words(words, says, capsys):
    assert main(words) == 64
    said = capsys.readouterr().err
    assert said.startswith(f"usage: roamlet {words[0]}")
    assert f"roamlet {words[0]}: error: {says}" in said


def test_a_command_that_there_is_not_is_named_with_the_one_that_was_meant(capsys):
    assert main(["rnu", "--local", "2", "os:getpid"]) == 64
    assert "roamlet: error: there is no command rnu; did you mean run?" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["-5", "-.5", "-", "-not an option", "-Hnowhere.invalid"])
def test_a_word_that_argparse_takes_is_no_unknown_option(word, capsys):
    main(["run", word, "--local", "0", "os:getpid"])
    assert "no option" not in capsys.readouterr().err


def test_behind_two_dashes_every_word_is_an_argument(capsys):
    assert main(["run", "--local", "0", "os:listdir", "--", "--no-such"]) == 64
    assert "--local 0" in capsys.readouterr().err


def after_command(words, then):
    """What a process prints that has carried out a command line as the script does, and then runs this program."""
    program = f"import sys; sys.argv = ['roamlet', *{words!r}]; import roamlet_command; roamlet_command.main(); {then}"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_a_command_loads_no_tasklets_that_needs_none():
    heavy = (
        "roamlet.core",
        "roamlet.io",
        "roamlet.remote",
        "roamlet.cli.reaching.options",
        "tomllib",
        "importlib.metadata",
    )
    heavy = (*heavy, "roamlet.cli.commands.run")
    said = after_command(["ps", "1"], f"print([name for name in {heavy!r} if name in sys.modules])")
    assert said == "[]\n"


def test_the_package_is_loaded_when_the_first_of_its_names_is_asked_for():
    then = "import roamlet; print(callable(roamlet.schedule), '__getattr__' in vars(roamlet)); import roamlet.remote"
    assert after_command(["ps", "1"], then) == "True False\n"
    assert after_command(["ps", "1"], "from roamlet import channel; print(channel.__name__)") == "channel\n"


def test_a_package_that_was_not_loaded_to_its_end_is_loaded_anew():
    then = """
import roamlet.core
class Interrupts:
    def find_spec(self, name, *rest):
        if name == 'roamlet.sync._scope': raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
try:
    roamlet.scope
except KeyboardInterrupt:
    del sys.meta_path[0]
print(roamlet.scope.__name__)"""
    assert after_command(["ps", "1"], then) == "scope\n"
