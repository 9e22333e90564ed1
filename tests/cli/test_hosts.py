"""`roamlet hosts`: what -H and -i mean, as a table and as JSON, without touching any host."""

import argparse
import io
import json

import pytest

from roamlet.cli import _parser, main
from roamlet.cli.commands import hosts as command

TOML = """
[groups]
web = ["web[01-03]", "deploy@extra:2222"]
everything = ["web", "db"]

[hosts.db]
address = "10.0.0.7"
python = "/usr/bin/python3.8"
via = "gate"
ssh_args = ["-o", "ProxyJump=gate"]

[hosts.alone]
port = 2200
"""


@pytest.fixture
def inventory(tmp_path):
    path = tmp_path / "hosts.toml"
    path.write_text(TOML)
    return str(path)


def printed(*words):
    out = io.StringIO()
    options: argparse.Namespace = _parser().parse_args(["hosts", *words])
    assert command.hosts(options, out) == 0
    return out.getvalue()


def test_without_hosts_all_groups_and_hosts_of_the_inventory_are_shown(inventory):
    said = printed("-i", inventory)
    lines = said.splitlines()
    assert lines[0] == "web: 4 hosts: deploy@extra:2222,web[01-03]"
    assert lines[1] == "everything: 5 hosts: db,deploy@extra:2222,web[01-03]"
    assert lines[-1] == "6 hosts"
    assert all(
        name in said for name in ("web01", "web02", "web03", "10.0.0.7", "alone", "2200", "ProxyJump=gate", "gate")
    )


def test_each_host_is_one_object_with_what_is_known_of_it(inventory):
    db, extra = map(
        json.loads, printed("-i", inventory, "-H", "db,deploy@extra:2222", "--json", "-o", "Port=5").splitlines()
    )
    assert db == {
        "host": "db", "address": "10.0.0.7", "local": False, "user": None, "port": None, "python": "/usr/bin/python3.8",
        "via": "gate", "ssh_args": ["-o", "Port=5", "-o", "ProxyJump=gate"], "groups": ["everything", "all"],
    }  # fmt: skip
    assert (extra["user"], extra["port"], extra["groups"]) == ("deploy", 2222, ["web", "everything", "all"])


def test_columns_that_say_nothing_are_left_out(inventory):
    said = printed("-H", "a[1-2]")
    assert "a1" in said and "a2" in said and "port" not in said and said.endswith("\n2 hosts\n")
    assert printed("-H", "a").endswith("\n1 host\n")


def test_ansibles_local_hosts_are_this_machine(tmp_path):
    (tmp_path / "hosts").write_text("[here]\nlocalhost ansible_connection=local\n")
    assert "this machine" in printed("-i", str(tmp_path / "hosts"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name hosts with -H, or an inventory with -i"),
        (["-H", "a b"], "'a b' is no host name; give HOST, USER@HOST or USER@HOST:PORT\n"),
        (
            ["-H", "web[1-"],
            "'web[1-' is no host name; give HOST, USER@HOST or USER@HOST:PORT; a range is written web[01-20]\n",
        ),
        (["-i", "/no/such.toml"], "-i /no/such.toml: the file cannot be read"),
        (["-H", "a", "--ssh-config", "/no/such"], "--ssh-config /no/such: there is no such file"),
    ],
)
def test_what_means_no_host_is_refused(words, message, capsys):
    assert main(["hosts", *words]) == 64
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_inventory_is_named_as_the_cause(tmp_path, capsys):
    (tmp_path / "jobs.py").write_text("jobs, results = channel()\n")
    assert main(["hosts", "-i", str(tmp_path / "jobs.py")]) == 64
    assert capsys.readouterr().err == (
        "roamlet hosts: -i: 'jobs,', a host of the inventory, is no host name. Is that file an inventory?\n"
    )
