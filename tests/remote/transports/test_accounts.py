"""The real sudo, su and doas: with passwords, without, with wrong ones, and where they are not wanted."""

import contextlib
import getpass
import os
import re
import signal
import tempfile
from pathlib import Path

import pytest
import roamlet_sent

from roamlet import remote
from roamlet.remote.link import process
from tests.remote.fakes import script
from tests.remote.inside import link_of
from tests.remote.raising import raises
from tests.remote.stopping import gone
from tests.remote.transports.private_system import CALLER, FREE, OPEN, OTHER, PASSWORD, PYTHON, STRANGER

ASKS_FOR = {"sudo": CALLER, "su": OTHER, "doas": CALLER}  # whose password it wants, called by CALLER


@pytest.mark.parametrize("kind", OPEN)
def test_root_is_asked_for_nothing(kind, called_by):
    called_by("root")
    with OPEN[kind](OTHER) as context:
        assert context.call(getpass.getuser) == OTHER
        assert context.name == OTHER


@pytest.mark.parametrize("kind", OPEN)
def test_the_password_that_was_given_is_typed_at_the_prompt(kind, called_by):
    called_by(CALLER)
    with OPEN[kind](OTHER, python=PYTHON, password=PASSWORD) as context:
        assert context.call(getpass.getuser) == OTHER
        assert context.call(roamlet_sent.add, (1, 2)) == 3


@pytest.mark.parametrize("kind", OPEN)
def test_a_function_is_asked_with_the_prompt_and_the_command(kind, called_by):
    called_by(CALLER)
    asked = []

    def password(prompt, who):
        asked.append((prompt, who))
        return PASSWORD

    with OPEN[kind](OTHER, python=PYTHON, password=password) as context:
        assert context.call(getpass.getuser) == OTHER
    ((prompt, who),) = asked
    assert "assword" in prompt
    assert who == f"{kind} to {OTHER!r}"


@pytest.mark.parametrize("kind", OPEN)
def test_a_password_in_the_environment_is_used_and_not_handed_on(kind, called_by, monkeypatch):
    called_by(CALLER)
    monkeypatch.setenv(f"ROAMLET_{kind.upper()}_PASSWORD", PASSWORD)
    with OPEN[kind](OTHER, python=PYTHON) as context:
        assert context.call(getpass.getuser) == OTHER
        processes = _processes_below(link_of(context).process._popen.pid)
        assert context.facts.pid in processes
        assert not any(PASSWORD.encode() in Path(f"/proc/{pid}/environ").read_bytes() for pid in processes)


STUBBORN = """#!/bin/sh
trap "" HUP TERM INT
echo "this is $$" >&2
while :; do read _ || sleep 1; done
"""


@pytest.fixture
def stubborn():
    """The path, for every account, of a command that ignores all signals that can be ignored, and never answers."""
    with tempfile.TemporaryDirectory(prefix="roamlet-") as folder:
        os.chmod(folder, 0o755)
        yield script(Path(folder), STUBBORN)


@pytest.mark.parametrize(("kind", "caller"), [*((kind, "root") for kind in OPEN), ("sudo", CALLER)])
def test_a_command_that_ignores_signals_does_not_outlive_a_failed_start(kind, caller, called_by, stubborn, monkeypatch):
    monkeypatch.setattr(process, "STEP", 0.3)
    called_by(caller)
    with raises(remote.ConnectTimeout, match="this is") as caught:
        OPEN[kind](OTHER, python=stubborn, password=PASSWORD if caller == CALLER else None, timeout=1.5)
    pid = int(re.search(r"this is (\d+)", str(caught.value))[1])
    try:
        assert gone(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _processes_below(pid):
    """`pid` and what it started, what that started, and so on."""
    found = [pid]
    for one in found:
        found += [int(child) for child in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
    return found


def test_no_command_below_a_context_gets_a_password_of_the_environment(monkeypatch):
    monkeypatch.setenv("ROAMLET_SSH_PASSWORD", PASSWORD)
    with remote.local() as context:
        assert context.call(os.getenv, ("ROAMLET_SSH_PASSWORD",)) is None


@pytest.mark.parametrize("kind", OPEN)
def test_a_wrong_password_is_an_error_and_is_typed_once(kind, called_by):
    called_by(CALLER)
    asked = []

    def password(prompt, who):
        asked.append(prompt)
        return "wrong-" + PASSWORD

    with raises(
        remote.AuthenticationFailed, match="not accepted, so it asks again|does not take the password"
    ) as caught:
        OPEN[kind](OTHER, python=PYTHON, password=password)
    assert len(asked) == 1
    assert PASSWORD not in str(caught.value)
    assert isinstance(caught.value, PermissionError)


@pytest.mark.parametrize("kind", OPEN)
def test_without_a_password_where_one_is_wanted_the_error_says_how_to_give_one(kind, called_by):
    called_by(CALLER)
    with raises(remote.AuthenticationFailed, match=f"and none was given.*password=.*ROAMLET_{kind.upper()}_PASSWORD"):
        OPEN[kind](OTHER, python=PYTHON)


@pytest.mark.parametrize("kind", OPEN)
def test_what_the_function_raises_comes_out_of_the_call_and_nothing_is_left(kind, called_by):
    called_by(CALLER)

    def password(prompt, who):
        raise LookupError("the vault is closed")

    with raises(LookupError, match="the vault is closed"):
        OPEN[kind](OTHER, python=PYTHON, password=password)


@pytest.mark.parametrize("kind", ["sudo", "doas"])
def test_rules_that_want_no_password_are_asked_without_one(kind, called_by):
    called_by(FREE)
    with OPEN[kind](OTHER, python=PYTHON) as context:
        assert context.call(getpass.getuser) == OTHER


@pytest.mark.parametrize(
    ("kind", "user", "options", "error", "says"),
    [
        ("sudo", STRANGER, {"password": PASSWORD}, remote.NotAllowed,
         "rules do not let this user do that.*not in the sudoers file.*sudo -l"),
        ("doas", STRANGER, {"password": PASSWORD}, remote.NotAllowed, "rules do not let this user do that.*doas.conf"),
        ("sudo", "roamlet-tty", {}, remote.NotAllowed, "requiretty.*Give a password="),
        ("sudo", "root", {"user": "roamlet-missing-user"}, remote.TargetNotFound, "there is no user roamlet-missing-user"),
        ("su", "root", {"user": "roamlet-missing-user"}, remote.TargetNotFound, "there is no user roamlet-missing-user"),
        ("doas", "root", {"user": "roamlet-missing-user"}, remote.TargetNotFound, "there is no user roamlet-missing-user"),
        ("sudo", "root", {"python": "/no/such/python"}, remote.NoPython, "no interpreter /no/such/python"),
        ("doas", "root", {"python": "/no/such/python"}, remote.NoPython, "no interpreter /no/such/python"),
        ("su", "root", {"python": "/no/such/python"}, remote.NoPython, "there is no /no/such/python, or this user may not"),
    ],
)  # fmt: skip
def test_a_refusal_is_named_with_the_next_step(kind, user, options, error, says, called_by):
    called_by(user)
    with raises(remote.ConnectError, match=says) as caught:
        OPEN[kind](**{"user": OTHER, **options})
    assert type(caught.value) is error


def test_su_reaches_an_account_without_a_login_when_root_asks(called_by):
    called_by("root")
    with remote.su("roamlet-closed", python=PYTHON) as context:
        assert context.call(getpass.getuser) == "roamlet-closed"


def test_a_program_that_asks_on_the_terminal_later_gets_an_end_of_file(called_by):
    called_by(CALLER)
    with remote.doas(OTHER, python=PYTHON, password=PASSWORD) as context:
        assert context.call(roamlet_sent.ask_on_the_terminal, ("And now? ",)) == ""


@pytest.mark.parametrize("kind", OPEN)
@pytest.mark.parametrize("user", ["-x", "", "a b", "a;id", "$(id)", "a\nb", "#-1"])
def test_a_user_that_cannot_be_one_is_refused_before_anything_is_started(kind, user, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(remote.BadHostName, match="cannot be the name of a user, so nothing was started"):
        OPEN[kind](user)


@pytest.mark.parametrize("kind", OPEN)
def test_a_program_that_is_missing_is_named_with_its_package(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises(remote.ConnectError, match=f"there is no program `{kind}` on PATH. It comes with the package"):
        OPEN[kind](OTHER, password=PASSWORD)
