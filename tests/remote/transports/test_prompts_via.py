"""Passwords where the command that asks for them runs in another context."""

import getpass
import os
import resource

import pytest
import roamlet_sent

from roamlet import remote
from tests.remote.interpreters import found
from tests.remote.raising import raises
from tests.remote.transports.private_system import CALLER, OPEN, OTHER, PASSWORD, PYTHON

VERSIONS = {version: path for version, path in found().items() if version in ("2.7", "3.6", "own")}


@pytest.mark.parametrize("kind", OPEN)
def test_the_password_is_typed_on_the_target(kind, called_by):
    called_by(CALLER)
    with remote.local() as via:
        with OPEN[kind](OTHER, python=PYTHON, password=PASSWORD, via=via) as context:
            assert context.call(getpass.getuser) == OTHER
            assert context.call(roamlet_sent.add, (1, 2)) == 3
        while terminals(via):  # it is closed after the context
            pass


def terminals(via):
    """Which of the context's descriptors lead to a terminal."""
    links = [f"/proc/self/fd/{name}" for name in via.call(os.listdir, ("/proc/self/fd",))]
    return [path for path in links if "/pt" in via.call(os.path.realpath, (path,))]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_python_can_be_in_between(version, called_by):
    called_by(CALLER)
    asked = []

    def password(prompt, who):
        asked.append((prompt, who))
        return PASSWORD

    with remote.local(VERSIONS[version]) as via:
        with remote.doas(OTHER, python=PYTHON, password=password, via=via) as context:
            assert context.call(getpass.getuser) == OTHER
    assert len(asked) == 1 and "assword" in asked[0][0]


@pytest.mark.parametrize("kind", ["su", "sudo"])
def test_a_wrong_password_is_an_error_on_the_target_too(kind, called_by):
    called_by(CALLER)
    with remote.local() as via:
        with raises(remote.AuthenticationFailed, match="not accepted|does not take the password") as caught:
            OPEN[kind](OTHER, python=PYTHON, password="wrong-" + PASSWORD, via=via)
        assert PASSWORD not in str(caught.value)
        assert via.call(roamlet_sent.add, (1, 2)) == 3


@pytest.mark.parametrize("kind", ["su"])  # the others are told not to ask
def test_without_a_password_the_error_says_how_to_give_one(kind, called_by):
    called_by(CALLER)
    with remote.local() as via:
        with raises(remote.AuthenticationFailed, match="and none was given.*password="):
            OPEN[kind](OTHER, python=PYTHON, via=via)


def test_what_the_function_raises_comes_out_and_the_context_in_between_goes_on(called_by):
    called_by(CALLER)

    def password(prompt, who):
        raise LookupError("the vault is closed")

    with remote.local() as via:
        with raises(LookupError, match="the vault is closed"):
            remote.sudo(OTHER, password=password, via=via)
        assert via.call(roamlet_sent.add, (1, 2)) == 3


def test_where_calls_are_tasklets_prompts_keep_none_of_them_waiting(called_by):
    called_by(CALLER)
    with remote.local(tasklets=True) as via:
        with remote.su(OTHER, python=PYTHON, password=PASSWORD, via=via, timeout=8) as context:
            assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_a_terminal_that_cannot_be_had_is_an_error_of_connecting():
    with remote.local() as via:
        with raises(remote.TargetNotFound, match="there is no user missing-user"):
            remote.su("missing-user", via=via)
        assert via.call(roamlet_sent.add, (1, 2)) == 3
        via.call(resource.setrlimit, (resource.RLIMIT_NOFILE, (3, 3)))
        with raises(remote.ConnectError, match="was not started: it got no terminal in 'local': .*Too many open files"):
            remote.su("missing-user", via=via)
        assert via.call(roamlet_sent.add, (1, 2)) == 3
