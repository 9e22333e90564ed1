"""What roamlet.remote's messages propose, in the words of `roamlet run`: taken from the messages as they are made."""

import re
import sys

import pytest

from roamlet import remote
from roamlet.cli import main
from roamlet.remote.errors import RemoteError
from roamlet.remote.transports.ssh import Ssh
from roamlet.remote.transports.sudo import Sudo
from tests.cli.test_run import run
from tests.remote.raising import raises

PYTHON = re.compile(r"\b(python|user|port|password|timeout)=(?!\w)|remote\.\w+\(")


def too_large():
    with remote.local() as context:
        context.largest_result = 10
        with raises(remote.CannotTravel, match=r"context\.largest_result = ") as caught:
            context.call(str.upper, ("x" * 100,))
        return caught.value.with_traceback(None)


def denied(**options):
    return Ssh("alpha", **options).explain(255, ["me@alpha: Permission denied (publickey)."])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (too_large, "Let the function return less, or write it to a file on the target."),
        (lambda: Ssh("alpha").missing(), "Give the path of one: --python /path/to/python3; a target"),
        (lambda: Sudo(python="/no").missing(), "Give the path of one as --python PATH: a target"),
        (denied, "Load the key with ssh-add, or name an IdentityFile in ~/.ssh/config and the user as -H USER@HOST"),
        (
            lambda: Ssh("alpha:22").explain(
                255, ["ssh: Could not resolve hostname alpha:22: Name or service not known"]
            ),
            "A port is no part of the name: -H alpha:22",
        ),
        (
            lambda: Ssh("local").explain(255, ["ssh: Could not resolve hostname local: Name or service not known"]),
            "This machine as a host is a line of an inventory, -i: here ansible_connection=local",
        ),
        (
            lambda: Ssh("alpha").explain(255, ["connect to host alpha port 22: Connection refused"]),
            r"right (-H HOST:PORT)",
        ),
        (lambda: Ssh("alpha").explain(255, ["connect to host alpha port 22: Connection timed out"]), "--at-once 5"),
        (
            lambda: Sudo().explain(1, ["sudo: a password is required"]),
            "Use --ask-password, or give one in ROAMLET_SUDO_PASSWORD",
        ),
    ],
)
def test_a_hint_says_what_can_be_done_at_the_command_line(make, says):
    error = make()
    assert "context.largest_result" in str(error) or PYTHON.search(str(error)), "nothing is to be said in other words"
    _, output, _ = run(["-H", "alpha", "--json", "platform:system"], {"alpha": error})
    assert says in output
    assert not PYTHON.search(output)


def test_what_a_function_raised_is_shown_as_it_is():
    error = RemoteError("mine.Error: give the path of one as python=", type_name="mine.Error")
    _, output, _ = run(["-H", "alpha", "--json", "platform:system"], {"alpha": error})
    assert "give the path of one as python=" in output
    assert sys.modules["roamlet.cli.output.hints"].for_command_line("nothing to say") == "nothing to say"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["local", "--python", "/no/such"], "Give the path of one as --python PATH: a target"),
        (["127.0.0.1:1"], "is the port right (HOST:PORT)"),
    ],
)
def test_the_prompt_says_it_in_words_of_its_own(words, says, capsys):
    assert main(["shell", *words]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert not PYTHON.search(said)
