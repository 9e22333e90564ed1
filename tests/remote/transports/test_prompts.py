"""Passwords: what may be given, what is typed where, and that nothing secret is seen afterwards."""

import contextlib
import os
import sys
import traceback

import pytest

from roamlet import remote
from roamlet.remote.terminal.prompts import Answers, Held, environment
from tests.remote.fakes import script
from tests.remote.raising import raises

SECRET = "s3cret-and-nowhere"


@pytest.mark.parametrize(
    "function", [remote.sudo, remote.su, remote.doas, lambda **options: remote.ssh("alpha", **options)]
)
@pytest.mark.parametrize(
    ("password", "error", "says"),
    [
        (7, TypeError, "password= takes a str, or a function of a prompt and the name of the command, not a int"),
        (b"bytes", TypeError, "not a bytes"),
        ("", ValueError, "password= gave what cannot be typed at a prompt"),
        (SECRET + "\n", ValueError, "cannot be typed"),
        (SECRET + "\x03", ValueError, "cannot be typed"),
        (SECRET * 100, ValueError, "more than 1024 bytes"),
    ],
)
def test_what_cannot_be_typed_is_refused_before_anything_is_started(function, password, error, says, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(error, match=says) as caught:
        function(password=password)
    assert SECRET not in str(caught.value)


def test_a_password_is_wiped_where_it_was_held_and_is_in_no_repr():
    answers = Answers(Held(SECRET), "ROAMLET_SU_PASSWORD", "su to 'root'")
    held = answers._secret
    assert bytes(held) == SECRET.encode()
    assert SECRET not in repr(answers)
    typed = answers.answer("Password:", hidden=True)
    assert bytes(typed) == SECRET.encode() + b"\n"
    answers.wipe()
    assert set(held) == {0}
    assert not answers.available


def test_a_password_that_was_given_is_typed_only_where_one_is_asked_for_and_nothing_is_shown():
    for prompt, hidden in (("Verification code: ", True), ("Password: ", False)):
        with raises(remote.AuthenticationFailed, match="the password that was given is not for that.*Give a function"):
            Answers(Held(SECRET), "ROAMLET_SU_PASSWORD", "su to 'root'").answer(prompt, hidden=hidden)


def test_a_function_is_asked_for_everything_but_for_nothing_twice():
    answers = Answers(Held(lambda prompt, who: prompt[::-1]), "ROAMLET_SU_PASSWORD", "su to 'root'")
    assert bytes(answers.answer("Code", hidden=False)) == b"edoC\n"
    with raises(remote.AuthenticationFailed, match="what was typed at 'Code' was not accepted.*typed once"):
        answers.answer("Code", hidden=False)


@pytest.mark.parametrize(
    ("value", "error"), [(None, TypeError), (b"x", TypeError), ("a\nb", ValueError), ("", ValueError)]
)
def test_a_function_that_returns_no_password_is_told(value, error):
    answers = Answers(Held(lambda prompt, who: value), "ROAMLET_SU_PASSWORD", "su to 'root'")
    with raises(error, match="the function that was given as password="):
        answers.answer("Password: ", hidden=True)


def test_the_prompts_of_one_command_have_an_end():
    answers = Answers(Held(lambda prompt, who: "x"), "ROAMLET_SU_PASSWORD", "su to 'root'")
    with raises(remote.AuthenticationFailed, match="asks again"):
        for number in range(100):
            answers.answer(f"Code {number}", hidden=True)


def test_the_language_of_messages_changes_alone(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("LC_", "LANG"))]:
        monkeypatch.delenv(name)
    assert environment(translated=False, asked=False) is None
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LC_TIME", "fr_FR.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("ROAMLET_SUDO_PASSWORD", SECRET)
    theirs = environment(translated=True, asked=False)
    language = {name: value for name, value in theirs.items() if name.startswith(("LC_", "LANG"))}
    assert language == {"LANG": "de_DE.UTF-8", "LC_MESSAGES": "C"}
    assert SECRET not in theirs.values()


FAKE_SUDO = """\
#!{python}
import os, sys, termios
terminal = open("/dev/tty", "r+b", 0)
modes = termios.tcgetattr(terminal)
modes[3] &= ~termios.ECHO
termios.tcsetattr(terminal, termios.TCSAFLUSH, modes)
terminal.write(b"[sudo] password for me: ")
answer = terminal.readline()
open({seen!r}, "w").write(repr((sys.argv, answer, dict(os.environ))))
{then}
"""


def _fake_sudo(commands, then):
    seen = commands / "seen"
    script(commands, FAKE_SUDO.format(python=sys.executable, seen=str(seen), then=then), "sudo")
    return seen


def test_a_password_is_in_no_argument_variable_message_or_frame_of_a_failure(commands):
    seen = _fake_sudo(commands, "sys.exit('it is all too much')")
    try:
        remote.sudo(password=SECRET)
    except remote.ConnectError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    argv, answer, variables = eval(seen.read_text())
    assert answer == SECRET.encode() + b"\n"
    assert SECRET not in str(argv) and SECRET not in str(variables)
    assert "it is all too much" in shown
    assert "password" in shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (remote.sudo, {"user": "-x", "password": SECRET}),
        (remote.su, {"python": "-c", "password": SECRET}),
        (remote.doas, {"nmae": "x", "password": SECRET}),
        (lambda **options: remote.ssh("-x", **options), {"password": SECRET}),
        (remote.sudo, {"password": SECRET + "\n"}),
        (remote.su, {"password": SECRET + "\n"}),
    ],
)
def test_a_password_is_in_no_frame_of_a_call_that_was_wrong(function, options):
    try:
        function(**options)
    except (TypeError, ValueError) as error:
        ours = error.__traceback__.tb_next
        while "roamlet/remote" not in ours.tb_frame.f_code.co_filename:
            ours = ours.tb_next
        shown = traceback.TracebackException(type(error), error, ours, capture_locals=True)
        assert SECRET not in "".join(shown.format())
        del ours
    else:
        pytest.fail("nothing was raised")


def test_a_command_that_asks_and_then_neither_ends_nor_answers_is_given_up_in_time(commands):
    _fake_sudo(commands, "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_DFL); time.sleep(600)")
    with raises(
        remote.ConnectTimeout, match=r"was not ready within 1 seconds, and said so far:\n +\[sudo\] password for me"
    ):
        remote.sudo(password=SECRET, timeout=1)


def test_a_command_under_another_account_that_may_not_be_killed_is_hung_up_on(commands, monkeypatch):
    _fake_sudo(commands, "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_DFL); time.sleep(600)")

    def forbidden(self):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("subprocess.Popen.terminate", forbidden)
    monkeypatch.setattr("subprocess.Popen.kill", forbidden)
    with raises(remote.ConnectTimeout, match="was not ready"):
        remote.sudo(password=SECRET, timeout=1)


def test_the_time_that_a_person_takes_to_type_does_not_count(commands):
    import sys

    import roamlet

    _fake_sudo(commands, f"os.execv({sys.executable!r}, sys.argv[sys.argv.index('--') + 1 :])")

    def slowly(prompt, who):
        roamlet.sleep(1.5)
        return SECRET

    with remote.sudo(password=slowly, python=sys.executable, timeout=1.2) as context:
        assert context.call(os.getpid) > 0


FAKE_SSH = """\
#!{python}
import sys, termios
if "-G" in sys.argv:
    print("user me\\nhostname target")
    sys.exit()
terminal = open("/dev/tty", "r+b", 0)
modes = termios.tcgetattr(terminal)
modes[3] &= ~termios.ECHO
termios.tcsetattr(terminal, termios.TCSAFLUSH, modes)
terminal.write({prompt!r})
answer = terminal.readline()
open({seen!r}, "wb").write(answer)
sys.exit("Permission denied (password).")
"""


@pytest.mark.parametrize("is_behind", [False, True], ids=["here", "behind"])
@pytest.mark.parametrize(
    ("prompt", "is_typed"),
    [
        (b"me@target's password: ", True),
        (b"(me@jump) one more thing\nme@target's password: ", False),
        (b"(me@jump) " + b"and " * 2000 + b"me@target's password: ", False),
    ],
    ids=["plain", "several lines", "a long line"],
)
def test_a_server_in_between_cannot_ask_as_another_one_would(commands, prompt, is_typed, is_behind):
    seen = commands / "seen"
    script(commands, FAKE_SSH.format(python=sys.executable, prompt=prompt, seen=str(seen)), "ssh")
    says = "does not take the password" if is_typed else "the password that was given is not for that.*Give a function"
    with contextlib.ExitStack() as stack:
        way = {"via": stack.enter_context(remote.local())} if is_behind else {}
        with raises(remote.AuthenticationFailed, match=says):
            remote.ssh("target", password=SECRET, **way)
    assert (seen.exists() and SECRET.encode() in seen.read_bytes()) == is_typed
