"""`roamlet vpn` at the command line: what is printed, what is asked, which exit codes, what is written. Servers are dicts."""

import contextlib
import json
import os
import signal
import sys
import time
from types import SimpleNamespace

import pytest

from apps.vpn.tests.servers import OFFICES, Offices, key, route
from apps.vpn.tests.ssh_servers import ssh_key
from roamlet import remote
from roamlet.cli import main
from roamlet.remote import Result
from roamlet_vpn.backends import make_plan
from roamlet_vpn.commands import changing, init, session
from roamlet_vpn.commands.apply import Survey
from roamlet_vpn.commands.transaction import Report, SiteReport
from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.network import Site
from roamlet_vpn.servers import open_site


class World:
    """Stands for the servers that the commands connect to."""

    def __init__(self, path):
        self.path = path
        self.offices = Offices()
        self.unreachable = {}

    def take_survey(self, network, servers, keys=None):
        away = self.unreachable
        facts = {
            site.name: self.offices[site.name].facts
            for site in network.sites
            if site.name in self.offices.servers and site.name not in away
        }
        return Survey(facts, make_plan(network, facts, keys, dict(away)), keys or {})

    def apply(self, network, servers, *, survey, partial, before, rollback_after, say):
        self.offices.network = network
        before(self.take_survey(network, servers).plan)
        self.offices.apply(unreachable=self.unreachable)
        say("confirmed")
        return Report(tuple(SiteReport(site.name, "changed") for site in network.sites))

    def roamlet(self, *words):
        return main(["vpn", *words, "-f", str(self.path)])


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = World(tmp_path / "network.toml")
    world.path.write_text(OFFICES)
    monkeypatch.setattr(changing, "take_survey", world.take_survey)
    monkeypatch.setattr(changing, "apply_plan", world.apply)
    monkeypatch.chdir(tmp_path)
    return world


def test_plan_shows_what_would_change_and_changes_nothing(world, capsys):
    assert world.roamlet("plan") == 2
    printed = capsys.readouterr().out
    assert printed.startswith("alpha  root@alpha\n  * there is no private key: make a private key; it stays there\n")
    assert "  * there is no /etc/wireguard/wg0.conf: write the configuration\n" in printed
    assert "      +PublicKey = (made by apply)\n" in printed
    assert '  + [sites.gamma] address = "10.8.1.3"\n' in printed
    assert printed.endswith("\n18 changes on 3 of 3 servers. `roamlet vpn apply` makes them, the keys first.\n")
    assert world.path.read_text() == OFFICES


def test_apply_with_yes_writes_the_addresses_and_then_nothing_is_left_to_do(world, capsys):
    assert world.roamlet("apply", "--yes") == 0
    assert capsys.readouterr().out.endswith("alpha: changed\nbeta: changed\ngamma: changed\n")
    assert 'server = "root@alpha"\naddress = "10.8.1.1"\n' in world.path.read_text()
    assert world.roamlet("plan") == 0
    assert capsys.readouterr().out == (
        "alpha  root@alpha  as it should be\nbeta  root@beta  as it should be\ngamma  root@gamma  as it should be\n\n"
        "Nothing to do: every server is as the file says.\n"
    )


def test_a_diff_says_what_would_change_and_no_more(world, capsys):
    world.roamlet("apply", "--yes")
    capsys.readouterr()
    world.path.write_text(world.path.read_text().replace("198.51.100.2:51820", "198.51.100.99:51820"))
    world.offices["beta"].do_mtu(1300)
    assert world.roamlet("plan") == 2
    assert (
        capsys.readouterr().out
        == f"""\
alpha  root@alpha
  * /etc/wireguard/wg0.conf says something else: change the configuration
      @@ -10,5 +10,5 @@
       PublicKey = {key(("beta", 1))}
       AllowedIPs = 10.8.1.2/32, 192.168.20.0/24
      -Endpoint = 198.51.100.2:51820
      +Endpoint = 198.51.100.99:51820
       PersistentKeepalive = 25

  * wg0 runs otherwise than it is configured: bring the running interface to the configuration, without a restart
      ~ peer beta endpoint 198.51.100.2:51820 -> 198.51.100.99:51820
beta  root@beta
  * wg0 has the MTU 1300, and 80 less than the way to its peers is 1420: set the MTU to 1420
gamma  root@gamma
  * /etc/wireguard/wg0.conf says something else: change the configuration
      @@ -17,4 +17,4 @@
       PublicKey = {key(("beta", 1))}
       AllowedIPs = 10.8.1.2/32, 192.168.20.0/24
      -Endpoint = 198.51.100.2:51820
      +Endpoint = 198.51.100.99:51820
       PersistentKeepalive = 25
  * wg0 runs otherwise than it is configured: bring the running interface to the configuration, without a restart
      ~ peer beta endpoint 198.51.100.2:51820 -> 198.51.100.99:51820

5 changes on 3 of 3 servers. `roamlet vpn apply` makes them.
"""
    )


def test_the_plan_as_json_says_the_same(world, capsys):
    assert world.roamlet("plan", "--json") == 2
    said = json.loads(capsys.readouterr().out)
    assert (said["exit_code"], said["empty"], list(said["sites"])) == (2, False, ["alpha", "beta", "gamma"])
    assert said["sites"]["alpha"][0] == {
        "repairs": "there is no private key",
        "action": "make a private key; it stays there",
    }
    assert "+PublicKey = (made by apply)" in said["sites"]["alpha"][3]["details"]
    assert said["file_changes"][0] == {"site": "alpha", "key": "address", "value": "10.8.1.1"}


def test_a_refusal_and_a_site_out_of_reach_are_shown_and_nothing_is_asked(world, capsys):
    world.offices["beta"].plain["tools"]["wg"] = None
    world.unreachable["gamma"] = "ConnectError: ssh to gamma: no route to host"
    assert world.roamlet("apply") == 1
    printed = capsys.readouterr().out
    assert "gamma  root@gamma  out of reach\n    ConnectError: ssh to gamma: no route to host\n" in printed
    assert "  ! there is no wg. Install it there: apt-get install wireguard-tools (or dnf, apk)\n" in printed
    assert "\n1 reason to change nothing: see the lines with !. Planned were " in printed
    del world.offices["beta"].plain["tools"]["wg"]
    world.offices["beta"].plain["tools"]["wg"] = ""
    assert world.roamlet("plan") == 1
    assert "`roamlet vpn apply --partial` leaves gamma as it is" in capsys.readouterr().out
    assert world.roamlet("apply", "--partial", "--yes") == 0


def test_without_a_terminal_and_without_yes_nothing_is_done(world, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert world.roamlet("apply") == 1
    assert (
        "there is no terminal to ask on, and nothing was changed; say yes beforehand with --yes"
        in capsys.readouterr().err
    )
    assert world.path.read_text() == OFFICES


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes", 0), ("", 1), ("n", 1)])
def test_what_is_answered_counts(world, capsys, monkeypatch, answer, code):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    assert world.roamlet("apply") == code
    assert (world.path.read_text() == OFFICES) == (code == 1)


def test_a_file_with_a_mistake_is_refused_before_anything_is_connected(world, capsys, monkeypatch):
    monkeypatch.setattr(changing, "take_survey", None)
    world.path.write_text(OFFICES.replace("lans", "lan", 1))
    for words in (["plan"], ["apply", "-y"], ["remove", "alpha", "-y"], ["rotate", "alpha"], ["down"], ["gateway"]):
        assert world.roamlet(*words) == 1
        assert f"roamlet vpn {words[0]}: {world.path}, line 7: [sites.alpha] has a key 'lan'" in capsys.readouterr().err


def test_a_site_that_is_not_there_is_refused_with_those_that_are(world, capsys):
    for words in (["remove", "delta"], ["rotate", "alpha", "delta"], ["gateway", "delta"]):
        assert world.roamlet(*words) == 1
        assert "there is no site 'delta'; the file has alpha, beta, gamma" in capsys.readouterr().err


def test_remove_takes_the_site_out_of_the_file_unless_it_was_rolled_back(world, capsys, monkeypatch):
    failure = "alpha was not heard of again"

    def remove(network, servers, name, **more):
        assert (name, more["rollback_after"]) == ("beta", 9.0)
        return Report((SiteReport("alpha", "changed"), SiteReport(name, "changed", "left")), failure)

    monkeypatch.setattr(changing.lifecycle, "remove", remove)
    assert world.roamlet("remove", "beta", "--yes", "--rollback-after", "9") == 1
    assert world.path.read_text() == OFFICES, "it was rolled back"
    failure = None
    capsys.readouterr()
    assert world.roamlet("remove", "beta", "--yes", "--rollback-after", "9") == 0
    assert capsys.readouterr().out == "alpha: changed\nbeta: changed (left)\n"
    assert (
        world.path.read_text() == OFFICES[: OFFICES.index("[sites.beta]")] + OFFICES[OFFICES.index("[sites.gamma]") :]
    )


def test_a_network_of_ssh_tunnels_has_the_same_ways(world, capsys, monkeypatch):
    world.path.write_text(OFFICES.replace("[network]", '[network]\nbackend = "ssh"'))
    assert world.roamlet("plan") == 2
    printed = capsys.readouterr().out
    assert "  * there is no key to call others with: make a key for ssh; its private half stays there\n" in printed
    assert '      +restrict,tunnel="1" (made by apply)\n' in printed
    assert world.roamlet("apply", "--yes") == 0
    assert 'address = "10.8.1.3"' in world.path.read_text()
    capsys.readouterr()
    assert world.roamlet("plan", "--json") == 0
    assert json.loads(capsys.readouterr().out)["empty"] is True
    world.offices["beta"].edit_file("known_hosts", "")
    assert world.roamlet("plan") == 2
    assert f"      +gamma {ssh_key(('host', 'gamma'))}\n" in capsys.readouterr().out
    backends = []

    def down(network, servers, **more):
        backends.append(network.backend)
        return Report(())

    monkeypatch.setattr(changing.lifecycle, "down", down)
    assert world.roamlet("down", "--yes") == 0
    world.path.write_text(OFFICES)
    assert world.roamlet("down", "--backend", "ssh", "--yes") == 0 and world.roamlet("down", "--yes") == 0
    assert backends == ["ssh", "ssh", "wireguard"]


@pytest.mark.parametrize(
    "words",
    [
        ["apply", "--rollback-after", "1"],
        ["apply", "--rollback-after", "nan"],
        ["down", "--rollback-after", "3601"],
        ["rotate", "beta", "--rollback-after", "soon"],
        ["status", "--watch", "0"],
        ["check", "--watch", "inf"],
        ["check", "--throughput", "--seconds", "-1"],
    ],
)
def test_seconds_that_make_no_sense_are_a_wrong_command_line(world, capsys, words):
    assert world.roamlet(*words) == 64
    assert "give a number of seconds from" in capsys.readouterr().err


def test_with_json_an_error_is_json_too(world, capsys):
    world.path.write_text("[network]\ntunel = 1\n")
    assert world.roamlet("plan", "--json") == 1
    said = capsys.readouterr()
    assert json.loads(said.out) == {"error": said.err.partition(": ")[2].rstrip("\n"), "exit_code": 1}
    assert world.roamlet("status", "--json") == 1
    assert "tunel" in json.loads(capsys.readouterr().out)["error"]


def test_a_file_that_does_not_exist_is_a_wrong_command_line(world, capsys):
    world.path.unlink()
    for words in (["plan"], ["apply", "-y"], ["status"], ["check"], ["gateway"], ["add", "delta=d"]):
        assert world.roamlet(*words) == 64
        assert f"{world.path}: there is no such file. `roamlet vpn init` makes one" in capsys.readouterr().err
    assert world.roamlet("plan", "--json") == 64
    assert json.loads(capsys.readouterr().out)["exit_code"] == 64


def test_nothing_that_a_terminal_would_obey_is_shown(world, capsys):
    world.unreachable["gamma"] = "ConnectError: \x1b]0;mine\x07\x1b[2J\x9b1m"
    assert world.roamlet("plan") == 1
    world.path.write_text(OFFICES.replace("[sites.gamma]", '[sites."gam\\u001b[2Jma"]'))
    assert world.roamlet("plan") == 1
    said = capsys.readouterr()
    assert r"gam\x1b[2Jma" in said.err and r"ConnectError: \x1b]0;mine\x07\x1b[2J\x9b1m" in said.out
    assert all(char.isprintable() or char == "\n" for char in said.out + said.err)


def test_what_cannot_be_written_is_said_before_any_server_is_changed(world, capsys, monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("roamlet_vpn.model.edit.tempfile.mkstemp", refuse)
    assert world.roamlet("apply", "--yes") == 1
    assert "network.toml cannot be written: Read-only file system" in capsys.readouterr().err
    assert not world.offices["alpha"].done
    world.path.unlink()
    world.path.mkdir()
    assert world.roamlet("add", "delta=d") == 1
    assert "the file cannot be read: [Errno 21] Is a directory" in capsys.readouterr().err


# ---- init and add


@pytest.fixture
def found(world, monkeypatch):
    """Servers that init can look at: those of the world, by what ssh calls them."""

    class FoundServers:
        def __init__(self, network, *, password=None):
            self.network = network

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def connect(self):
            pass

        def facts(self):
            answers = {}
            for site in self.network.sites:
                server = world.offices.servers.get(site.server.rpartition("@")[2].partition(".")[0])
                answers[site.name] = (
                    Result(site.name, value=server.facts)
                    if server
                    else Result(site.name, error=OSError("no route to host"))
                )
            return answers

    monkeypatch.setattr(init, "Servers", FoundServers)
    world.asked = []  # the ssh configurations that were asked for a host
    monkeypatch.setattr(
        init, "ssh_hostname", lambda server, config: world.asked.append(config) or server.rpartition("@")[2]
    )
    return world


def test_init_finds_lans_addresses_and_endpoints_and_the_plan_of_its_file_is_what_it_should_be(found, capsys):
    found.path.unlink()
    servers = [f"root@{name}.example.com" for name in ("alpha", "beta", "gamma")]
    assert found.roamlet("init", *servers, "--yes") == 0
    assert (
        found.path.read_text()
        == """\
# The offices of this network and how their servers are reached. `roamlet vpn plan` shows what would change,
# `roamlet vpn apply` does it.

[network]
tunnel = "10.8.1.0/24"

"""
        + "\n".join(
            f"""\
[sites.{name}]
server = "root@{name}.example.com"
lan_address = "192.168.{lan}.2"
gateway = "192.168.{lan}.1"
lans = ["192.168.{lan}.0/24"]
endpoint = "{name}.example.com:51820"
"""
            for name, lan in (("alpha", 10), ("beta", 20), ("gamma", 30))
        )
    )
    assert "Look through it; `roamlet vpn plan` shows what it would change where." in capsys.readouterr().out
    assert found.roamlet("plan") == 2


def test_init_writes_no_file_over_another_one(found, capsys):
    assert found.roamlet("init", "alpha", "--yes") == 1
    assert "there is a" in capsys.readouterr().err
    assert found.path.read_text() == OFFICES


def test_init_says_every_server_that_it_could_not_look_at(found, capsys):
    found.path.unlink()
    assert found.roamlet("init", "alpha", "b=nowhere", "nothing", "--yes") == 1
    error = capsys.readouterr().err
    assert "    nowhere: no route to host\n    nothing: no route to host" in error
    assert not found.path.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a b=alpha"], "'a b=alpha' is no [SITE=]SERVER: write root@alpha.example.com, or alpha=root@"),
        (["a=alpha", "a=beta"], "each site and each server stands once"),
        (["alpha", "alpha"], "each site and each server stands once"),
        (["alpha", "x@alpha"], "two servers call themselves 'alpha'; give the sites names: alpha=alpha ..."),
    ],
)
def test_init_refuses_words_that_name_no_site_or_one_twice(found, capsys, words, said):
    found.path.unlink()
    assert found.roamlet("init", *words, "--yes") == (1 if "call themselves" in said else 64)
    assert said in capsys.readouterr().err


def test_init_asks_and_asks_again_where_an_answer_is_none(found, capsys, monkeypatch):
    found.path.unlink()
    answers = iter(["192.168.10.1/24", "192.168.10.0/24, 10.50.0.0/16", "nonsense:x", "vpn.example.org:4711", "", "-"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    assert found.roamlet("init", "alpha.example.com", "beta.example.com") == 0
    printed = capsys.readouterr().out
    assert "the network is 192.168.10.0/24" in printed
    assert "give HOST:PORT" in printed
    text = found.path.read_text()
    assert 'lans = ["192.168.10.0/24", "10.50.0.0/16"]' in text
    assert 'endpoint = "vpn.example.org:4711"' in text
    assert "beta.example.com:51820" not in text


def test_init_without_an_answer_writes_nothing(found, capsys, monkeypatch):
    def end(question):
        raise EOFError

    found.path.unlink()
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", end)
    assert found.roamlet("init", "alpha.example.com") == 1
    assert "nothing was written, because there was no answer" in capsys.readouterr().err
    assert not found.path.exists()


def test_init_takes_a_tunnel_that_no_server_uses(found):
    found.path.unlink()
    found.offices["alpha"].plain["devices"]["tun9"] = {
        "mtu": 1500, "up": True, "kind": "tun", "addresses": ["10.8.0.1/20"], "accept_ra": None
    }  # fmt: skip
    assert found.roamlet("init", "alpha.example.com", "beta.example.com", "--yes", "--hub", "beta", "--sudo") == 0
    text = found.path.read_text()
    assert 'tunnel = "10.8.16.0/24"\ntopology = "hub"\nhub = "beta"\n' in text
    assert 'server = "alpha.example.com"\nsudo = true\n' in text


def test_what_init_would_write_is_checked_first(found, capsys):
    found.path.unlink()
    found.offices["beta"].plain = {**found.offices["alpha"].plain, "hostname": "beta"}
    words = ("init", "alpha=alpha.example.com", "beta=beta.example.com", "--yes")
    assert found.roamlet(*words) == 1
    lines = found.path.read_text().splitlines()
    (number,) = (number for number, line in enumerate(lines) if line.startswith("# CORRECT THIS: "))
    assert "overlaps 192.168.10.0/24 of alpha" in lines[number] and lines[number + 1].startswith("lans = ")
    assert "with a line that has to be corrected first" in capsys.readouterr().out
    assert found.roamlet("plan") == 1  # which says the same, with the line
    assert f"line {number + 2}: " in capsys.readouterr().err


def one_address(server, *more_routes):
    """A server whose IPv4 address has no network of its own, as clouds give them, and one of IPv6."""
    server.plain["devices"]["eth0"]["addresses"] = ["10.0.0.2/32", "fd00:10::2/64"]
    server.plain["routes"] = [route("default", "eth1", via="198.51.100.9"), *more_routes]


def test_a_server_with_one_address_of_ipv4_gets_a_file_with_its_network_of_ipv6(found, capsys):
    found.path.unlink()
    one_address(found.offices["alpha"])
    assert found.roamlet("init", "alpha.example.com", "--yes") == 1
    text = found.path.read_text()
    assert 'lan_address = "10.0.0.2"' in text and 'lans = ["fd00:10::/64"]' in text
    assert "# CORRECT THIS: lan_address 10.0.0.2 is in none of its lans (fd00:10::/64)\nlan_address = " in text
    found.path.write_text(text.replace('lans = ["', 'lans = ["10.0.0.0/16", "'))
    assert found.roamlet("gateway") == 0


def test_a_server_with_one_address_gets_the_network_that_it_has_a_route_to(found):
    found.path.unlink()
    one_address(found.offices["alpha"], route("10.0.0.0/16", "eth0", via="10.0.0.1"), route("10.0.0.1/32", "eth0"))
    assert found.roamlet("init", "alpha.example.com", "--yes") == 0
    assert 'lans = ["10.0.0.0/16", "fd00:10::/64"]' in found.path.read_text()


def test_init_says_that_it_would_renumber_a_tunnel_that_runs(found, capsys):
    assert found.roamlet("apply", "--yes") == 0
    found.path.unlink()
    capsys.readouterr()
    assert found.roamlet("init", "alpha.example.com", "--yes") == 0
    said = capsys.readouterr().err
    assert "alpha: wg0 runs there already with 10.8.1.1/24 and 2 peers: `roamlet vpn apply` of this file would" in said
    assert "roamlet vpn init --adopt" in said


def test_the_password_of_sudo_is_asked_for_once_and_only_where_there_is_sudo(found, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr("getpass.getpass", lambda prompt: asked.append(prompt) or "secret")
    given = []
    monkeypatch.setattr(
        init.Servers,
        "__init__",
        lambda self, network, *, password=None: given.append(password) or vars(self).update(network=network),
    )
    found.path.unlink()
    assert found.roamlet("init", "alpha.example.com", "--yes", "--ask-password") == 64
    assert "no site has `sudo = true`" in capsys.readouterr().err and not asked
    assert found.roamlet("init", "alpha.example.com", "--yes", "--sudo", "--ask-password") == 0
    assert (asked, given) == (["password for sudo: "], ["secret"])
    monkeypatch.setattr(
        session, "Servers", lambda network, *, password=None: given.append(password) or contextlib.nullcontext()
    )
    assert found.roamlet("plan", "--ask-password") in (0, 2)
    assert given == ["secret", "secret"] and "secret" not in found.path.read_text()


@pytest.mark.parametrize("after", [None, VpnError("ssh to alpha ended"), 1])
def test_ctrl_c_is_130_whatever_comes_of_it(world, capsys, monkeypatch, after):
    """An error of what is closed or taken back takes the place of the interrupt; the exit code does not."""

    def take_survey(*_):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            return time.sleep(5)
        except KeyboardInterrupt:
            if isinstance(after, Exception):
                raise after from None
            if after is None:
                raise
        return world.take_survey(*_)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(changing, "take_survey", take_survey)
    assert world.roamlet("plan") == 130
    assert capsys.readouterr().err == "roamlet vpn: interrupted\n"
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("sudo", [False, True])
def test_a_python_that_is_too_old_is_named(monkeypatch, sudo):
    closed = []

    def context(version):
        return SimpleNamespace(facts=SimpleNamespace(python=version), close=lambda: closed.append(version))

    monkeypatch.setattr(remote, "ssh", lambda host, **_: context((2, 7, 18)))
    monkeypatch.setattr(remote, "sudo", lambda **_: context((3, 5, 3)))
    with pytest.raises(
        VpnError, match=f"root@old has Python {'3.5.3' if sudo else '2.7.18'}, and roamlet vpn needs 3.6"
    ):
        open_site(Site("alpha", "root@old", sudo=sudo))
    assert closed == ([(3, 5, 3)] if sudo else []) + [(2, 7, 18)]


def test_add_reads_a_file_with_a_mark_at_its_start_and_keeps_it(found):
    assert found.roamlet("apply", "--yes") == 0
    found.path.write_bytes(b"\xef\xbb\xbf" + found.path.read_bytes())
    found.offices.say(OFFICES + '[sites.delta]\nserver = "d"\nlans = ["192.168.40.0/24"]\n')
    assert found.roamlet("add", "delta.example.com", "--yes") == 0
    assert found.path.read_bytes().count(b"\xef\xbb\xbf") == 1 and b"[sites.delta]" in found.path.read_bytes()
    assert found.roamlet("plan") == 0


def test_init_adopt_takes_over_what_was_made_by_hand(found, capsys):
    assert found.roamlet("apply", "--yes") == 0
    found.path.unlink()
    assert found.roamlet("init", "--adopt", "alpha", "beta", "gamma") == 0
    assert "Nothing would change: the plan of this file is empty." in capsys.readouterr().err
    assert found.roamlet("plan") == 0


def test_add_takes_a_site_into_the_file_and_applies(found, capsys):
    assert found.roamlet("apply", "--yes") == 0
    before = found.path.read_text()
    found.offices.say(OFFICES + '[sites.delta]\nserver = "d"\nlans = ["192.168.40.0/24"]\n')
    assert found.roamlet("add", "delta.example.com", "--yes") == 0
    text = found.path.read_text()
    assert text.startswith(before)
    assert (
        text[len(before) :]
        == """
[sites.delta]
server = "delta.example.com"
address = "10.8.1.4"
lan_address = "192.168.40.2"
gateway = "192.168.40.1"
lans = ["192.168.40.0/24"]
endpoint = "delta.example.com:51820"
"""
    )
    assert found.roamlet("plan") == 0


def test_add_asks_the_ssh_configuration_of_the_network_for_the_host(found):
    found.path.write_text(OFFICES.replace("[network]", '[network]\nssh_config = "hosts"'))
    found.offices.say(OFFICES + '[sites.delta]\nserver = "d"\nlans = ["192.168.40.0/24"]\n')
    assert found.roamlet("add", "delta", "--yes") == 0
    assert found.asked == [str(found.path.parent / "hosts")]


def test_the_commands_are_listed_with_what_they_do(capsys):
    assert main(["vpn", "--help"]) == 0
    printed = capsys.readouterr().out
    for name in ("init", "plan", "apply", "add", "remove", "rotate", "down", "gateway"):
        assert f"    {name} " in printed
