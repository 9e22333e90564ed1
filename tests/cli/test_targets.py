"""Hosts for commands of apps: from words to contexts that are all open at once, and all closed at the end."""

import argparse
import os

import pytest

from roamlet import remote
from roamlet.cli import UsageError
from roamlet.cli.targets import add_options, hosts_of, message_of, reached
from roamlet.remote import HostUnreachable


def options(*words):
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(words)


def test_words_ranges_groups_and_this_machine(tmp_path):
    inventory = tmp_path / "hosts.toml"
    inventory.write_text('[groups]\nweb = ["web[1-2]"]\n[hosts.web2]\nport = 2222\nssh_args = ["-v"]\n')
    conf = str(tmp_path / "conf")
    (tmp_path / "conf").touch()
    found = hosts_of(options("web", "me@db:22", "--local", "-i", str(inventory), "--ssh-config", conf))
    assert [host.name for host in found] == ["web1", "web2", "me@db:22", "local"]
    assert found[1].port == 2222 and found[1].ssh_args == ("-F", conf, "-v")
    assert found[2].user == "me" and found[3].address is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a HOST, or this machine with --local"),
        (["a", "a"], "HOST names 'a' more than once"),
        (["a", "--python=-x"], "give the name or path of an interpreter"),
        (["a", "--ssh-config", "/no/such"], "--ssh-config /no/such: there is no such file"),
        (["a", "--ssh-config", "/"], "--ssh-config /: ssh needs a file that this user may read"),
        (["a", "-i", "/no/such"], "-i /no/such: the file cannot be read: No such file or directory$"),
    ],
)
def test_what_names_no_hosts_is_refused(words, message):
    with pytest.raises(UsageError, match=message):
        hosts_of(options(*words))


def test_those_that_can_be_reached_are_open_together_and_the_others_have_their_errors(monkeypatch):
    asked = []

    def ssh(address, **settings):
        asked.append((address, settings.get("ssh_args")))
        if address == "gone":
            raise HostUnreachable("no route")
        return remote.local(name=settings["name"])

    monkeypatch.setattr(remote, "ssh", ssh)
    chosen = options("a", "gone", "b", "--ssh-config", "none")  # ssh's word for no file
    with reached(hosts_of(chosen), chosen) as hosts:
        assert list(hosts.contexts) == ["a", "b"]
        pids = {context.call(os.getpid) for context in hosts.contexts.values()}
        assert len(pids) == 2 and os.getpid() not in pids
        assert message_of(hosts.failed["gone"]) == "no route"
        kept = list(hosts.contexts.values())
        hosts.failed.clear()
    assert all(context.closed for context in kept)
    assert sorted(asked) == [("a", ("-F", "none")), ("b", ("-F", "none")), ("gone", ("-F", "none"))]


def test_the_host_on_the_way_is_reached_with_the_same_configuration(monkeypatch):
    asked = []

    def ssh(address, **settings):
        asked.append((address, settings["ssh_args"], "via" in settings))
        return remote.local(name=settings["name"])

    monkeypatch.setattr(remote, "ssh", ssh)
    chosen = options("a", "--via", "gate", "--ssh-config", "none", "-o", "Compression=yes")
    with reached(hosts_of(chosen), chosen):
        pass
    # A configuration is a file of the machine that ssh runs on: this one for the gate, and the gate for `a`.
    assert asked == [("gate", ("-F", "none", "-o", "Compression=yes"), False), ("a", ("-o", "Compression=yes"), True)]


def test_all_are_closed_when_the_block_ends_with_an_error():
    chosen = options("--local")
    kept = []

    def fail():
        with reached(hosts_of(chosen), chosen) as hosts:
            kept.extend(hosts.contexts.values())
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert kept[0].closed


def test_messages_are_for_the_command_line_and_obey_no_escapes():
    assert (
        message_of(HostUnreachable("\x1b[2Jno\nroute; another one as python="))
        == "\\x1b[2Jno\nroute; another one as --python PATH"
    )
    assert message_of(KeyError()) == "KeyError"
