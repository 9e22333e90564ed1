"""Commands that other packages bring: found by the entry-point group, imported when needed, and never in roamlet's way."""

import sys
from importlib.metadata import EntryPoint

import pytest

from roamlet.cli import _apps, main

WORKING = """
def add_parser(commands):
    parser = commands.add_parser("knit", help="a command from elsewhere")
    parser.add_argument("--rows", type=int, default=1)
    parser.set_defaults(command=lambda options: options.rows)
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes commands out of sources, as if each had been installed."""
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)

    def install(**sources):
        found = []
        for name, source in sources.items():
            (tmp_path / f"app_of_{name}.py").write_text(source)
            found.append(EntryPoint(name, f"app_of_{name}", _apps.GROUP))
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)

    yield install
    for name in set(sys.modules) - known:
        if name.startswith("app_of_"):
            del sys.modules[name]


def test_a_command_of_another_package_is_run_and_gives_the_exit_code(installed):
    installed(knit=WORKING)
    assert main(["knit", "--rows", "7"]) == 7


def test_its_unknown_options_are_named_as_roamlet_names_its_own(installed, capsys):
    installed(knit=WORKING)
    assert main(["knit", "--row"]) == 64
    assert "roamlet knit: error: there is no option --row; did you mean --rows?" in capsys.readouterr().err


def test_its_options_may_be_called_as_roamlet_calls_its_own_values(installed, capsys):
    installed(
        knit="""
def interrupted(options):
    raise KeyboardInterrupt


def add_parser(commands):
    parser = commands.add_parser("knit")
    parser.add_argument("--name", default="scarf")
    parser.set_defaults(command=interrupted)
"""
    )
    assert main(["knit", "--name", "sock"]) == 130
    assert capsys.readouterr().err == "roamlet knit: interrupted\n"


def test_an_interrupt_while_it_is_imported_ends_with_130(installed, capsys):
    installed(knit="raise KeyboardInterrupt")
    assert main(["knit"]) == 130
    assert capsys.readouterr().err == "roamlet: interrupted\n"


def test_help_lists_it(installed, capsys):
    installed(knit=WORKING)
    assert main(["--help"]) == 0
    assert "a command from elsewhere" in capsys.readouterr().out


def test_one_that_cannot_be_imported_says_why_and_the_others_work(installed, capsys):
    installed(knit=WORKING, purl="import nothing_like_it")
    assert main(["purl", "--any"]) == 64
    assert capsys.readouterr().err == (
        "roamlet purl cannot be loaded from the package app_of_purl: ModuleNotFoundError: No module named 'nothing_like_it'. "
        "Install it again\n"
    )
    assert main(["--help"]) == 0
    assert "cannot be loaded" in capsys.readouterr().out
    assert main(["knit"]) == 1


def test_one_without_a_parser_is_named(installed, capsys):
    installed(purl="")
    assert main(["purl"]) == 64
    assert "app_of_purl has no add_parser()" in capsys.readouterr().err


def test_the_commands_of_roamlet_load_none_and_cannot_be_replaced(installed, capsys):
    installed(demo="raise SystemExit('imported')", run="raise SystemExit('imported')")
    assert main(["demo", "--help"]) == 0
    assert main(["run", "--help"]) == 0
    assert main(["--help"]) == 0
    assert "app_of_demo" not in sys.modules


def test_the_command_that_is_named_is_the_only_one_imported(installed):
    installed(knit=WORKING, purl="raise SystemExit('imported')")
    assert main(["knit"]) == 1
    assert "app_of_purl" not in sys.modules


def test_an_app_that_raises_its_usage_error_ends_with_2(installed, capsys):
    installed(
        knit="""
from roamlet.cli import UsageError

def knit(options):
    raise UsageError("no wool")

def add_parser(commands):
    commands.add_parser("knit").set_defaults(command=knit)
"""
    )
    assert main(["knit"]) == 64
    assert capsys.readouterr().err == "roamlet knit: no wool\n"


def test_a_command_of_a_package_that_is_not_installed_names_the_package(monkeypatch, capsys):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [])
    assert main(["vpn", "plan"]) == 64
    assert "roamlet vpn comes with the package roamlet-vpn, which is not installed" in capsys.readouterr().err
    assert main(["nonsense"]) == 64
    assert "comes with" not in capsys.readouterr().err
