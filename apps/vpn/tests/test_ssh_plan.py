"""The plan of a network of ssh tunnels: what it asks for, each drift and its repair, refusals, and sites that come and go."""

from dataclasses import replace

import pytest

from apps.vpn.tests.servers import OFFICES, Offices, device
from apps.vpn.tests.ssh_servers import ssh_key
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.untrusted import FactsError
from roamlet_vpn.planning.actions import MADE_BY_APPLY
from roamlet_vpn.ssh.actions import TunnelFile

SSH = OFFICES.replace("[network]", '[network]\nbackend = "ssh"')
TWO = SSH[: SSH.index("[sites.gamma]")]


@pytest.fixture
def offices():
    """Three sites that are joined."""
    made = Offices(SSH)
    made.apply()
    assert made.plan().exit_code == 0
    return made


def repairs(plan):
    return {name: [action.repairs for action in actions] for name, actions in plan.sites.items() if actions}


def test_a_network_from_nothing_and_then_nothing_is_left_to_do():
    offices = Offices(SSH)
    plan = offices.plan()
    assert plan.exit_code == 2 and not plan.refusals
    assert [action.describe() for action in plan.sites["beta"]] == [
        "make a key for ssh; its private half stays there",
        "turn on forwarding of IPv4, now and after a restart",
        "turn on forwarding of IPv6, now and after a restart",
        "make the user that tunnels log in as",
        "write accept-alpha",
        "write accept-alpha.service",
        "write call-gamma",
        "write call-gamma.service",
        "write known_hosts",
        "write authorized_keys",
        "write the configuration of sshd for it",
        "start accept-alpha",
        "start call-gamma",
    ]
    waiting = next(
        action for action in plan.sites["beta"] if isinstance(action, TunnelFile) and MADE_BY_APPLY in action.text
    )
    with pytest.raises(ValueError, match="authorized_keys waits for keys"):
        waiting.plain()
    offices.apply()
    plan = offices.plan()
    assert plan.empty and plan.exit_code == 0 and not plan.notes
    assert offices["beta"].ssh["files"]["authorized_keys"]["text"] == (
        f'restrict,tunnel="1" {offices["alpha"].ssh["key"]}\n'
    )
    assert offices["beta"].ssh["files"]["known_hosts"]["text"] == f"gamma {ssh_key(('host', 'gamma'))}\n"


def unit_stopped(server):
    server.ssh["ends"]["call-gamma"]["active"] = "failed"


def unit_disabled(server):
    server.ssh["ends"]["call-gamma"]["enabled"] = "disabled"


def unit_edited(server):
    server.edit_file("call-gamma.service", "[Unit]\n")


def script_edited(server):
    server.edit_file("accept-alpha", server.ssh["files"]["accept-alpha"]["text"].replace("2000", "500"))


def keys_edited(server):
    server.edit_file("authorized_keys", "ssh-ed25519 AAAA everybody\n")


def hosts_lost(server):
    del server.ssh["files"]["known_hosts"]


def sshd_lost(server):
    del server.ssh["files"]["sshd"]


def user_lost(server):
    server.ssh["user"] = False


def key_open(server):
    server.ssh["key_mode"] = 0o644


def device_lost(server):
    server.lose_device("tun1")


def device_down(server):
    server.plain["devices"]["tun1"]["up"] = False


def device_of_root(server):
    server.ssh["devices"]["tun1"]["user"] = None


def queue_short(server):
    server.ssh["devices"]["tun1"]["queue"] = 500


def mtu_other(server):
    server.plain["devices"]["tun1"]["mtu"] = 1300


def address_more(server):
    server.ssh["devices"]["tun1"]["addresses"].append({"local": "10.9.9.9", "peer": None})


def route_lost(server):
    server.plain["routes"] = [one for one in server.plain["routes"] if one["dev"] != "tun1"]


def route_more(server):
    server.plain["routes"].append(server.route("192.168.99.0/24", "tun1", protocol="boot"))


def forwarding_off(server):
    server.plain["forwarding"]["ipv4"]["live"] = False


def end_left_over(server):
    server.ssh["ends"]["call-delta"] = {"enabled": "enabled", "active": "active", "age": None, "said": None}


def device_left_over(server):
    server.ssh["devices"]["tun9"] = dict(server.ssh["devices"]["tun1"], addresses=[])
    server.plain["devices"]["tun9"] = dict(server.plain["devices"]["tun1"], addresses=[])


@pytest.mark.parametrize(
    ("drift", "said"),
    [
        (unit_stopped, ["nothing keeps the tunnel: it is failed"]),
        (unit_disabled, ["its unit is disabled: after a restart of the server there would be no tunnel"]),
        (unit_edited, ["unit call-gamma.service says something else", "call-gamma runs with what it had before"]),
        (
            script_edited,
            ["/etc/roamlet-vpn/accept-alpha says something else", "accept-alpha runs with what it had before"],
        ),
        (keys_edited, ["/etc/roamlet-vpn/authorized_keys says something else"]),
        (hosts_lost, ["there is no /etc/roamlet-vpn/known_hosts"]),
        (sshd_lost, ["there is no configuration of sshd for tunnels"]),
        (user_lost, ["there is no user roamlet-vpn"]),
        (key_open, ["the key that it calls with has mode 0644: others may read it"]),
        (device_lost, ["there is no tun1"]),
        (device_down, ["tun1 is down"]),
        (device_of_root, ["tun1 belongs to no user, so that alpha may not use it"]),
        (queue_short, ["tun1 has a queue of 500 packets"]),
        (mtu_other, ["tun1 has the MTU 1300"]),
        (address_more, ["tun1 has the address 10.9.9.9"]),
        (route_lost, ["there is no route through tun1 to 192.168.10.0/24"]),
        (route_more, ["tun1 has a route to 192.168.99.0/24, which is not of this network"]),
        (forwarding_off, ["forwarding of IPv4 is off"]),
        (end_left_over, ["call-delta is there, and no tunnel of this network"]),
        (device_left_over, ["tun9 is there, and no tunnel of this network"]),
    ],
)
def test_each_drift_is_found_and_repaired(offices, drift, said):
    drift(offices["beta"])
    plan = offices.plan()
    assert plan.exit_code == 2 and repairs(plan) == {"beta": said}
    offices.apply()
    assert offices.plan().exit_code == 0


def test_a_caller_whose_device_was_lost_is_restarted(offices):
    offices["beta"].lose_device("tun3")
    assert repairs(offices.plan()) == {"beta": ["there is no tun3", "call-gamma has lost its device"]}


def test_what_waits_for_its_next_start_runs(offices):
    offices["beta"].ssh["ends"]["call-gamma"].update(active="activating", said="Connection timed out")
    assert offices.plan().exit_code == 0


def test_a_new_key_changes_only_who_has_it_and_whom_it_calls(offices):
    offices["beta"].do_tunnel_identity()
    plan = offices.plan(keys={"beta": offices["beta"].ssh["waiting_key"]})
    assert repairs(plan) == {
        "beta": ["it has a new key", "call-gamma runs with what it had before"],
        "gamma": ["/etc/roamlet-vpn/authorized_keys says something else"],
    }
    with pytest.raises(FactsError, match="beta: .* is no public key of ssh"):
        offices.plan(keys={"beta": ssh_key("beta") + "\nssh-ed25519 AAAA more"})


def test_a_site_that_goes_is_forgotten_and_one_that_comes_is_called(offices):
    offices.say(TWO)
    plan = offices.plan()
    assert repairs(plan) == {
        "alpha": [
            "/etc/roamlet-vpn/known_hosts says something else",
            "call-gamma is there, and no tunnel of this network",
            "tun3 is there, and no tunnel of this network",
        ],
        "beta": [
            "/etc/roamlet-vpn/known_hosts is there, and no tunnel needs it any more",
            "call-gamma is there, and no tunnel of this network",
            "tun3 is there, and no tunnel of this network",
        ],
    }
    offices.apply()
    assert offices.plan().exit_code == 0
    offices.say(SSH)
    offices.apply()
    assert offices.plan().exit_code == 0


def test_who_is_out_of_reach_is_known_by_what_the_others_have(offices):
    plan = offices.plan(unreachable={"beta": "it is off"})
    assert plan.exit_code == 1 and not repairs(plan) and not plan.notes
    offices["gamma"].edit_file("authorized_keys", "")
    plan = offices.plan(unreachable={"beta": "it is off"})
    # No server knows the key of beta any more, so alpha alone is let in; the tunnel of beta stays as it is otherwise.
    files = {one.name: one.text for one in plan.sites["gamma"] if isinstance(one, TunnelFile)}
    assert offices["alpha"].ssh["key"] in files["authorized_keys"]


def test_who_was_never_reached_is_left_out():
    offices = Offices(SSH)
    plan = offices.plan(unreachable={"beta": "it is off"})
    assert [note.site for note in plan.notes] == ["beta"]
    assert "call-gamma" in {one.name for one in plan.sites["alpha"] if isinstance(one, TunnelFile)}
    assert "call-beta" not in {one.name for one in plan.sites["alpha"] if isinstance(one, TunnelFile)}


def test_what_stands_in_the_way_is_refused_with_what_to_do():
    offices = Offices(SSH)
    offices["alpha"].plain["is_root"] = False
    offices["beta"].plain["devices"]["tun3"] = device(1500, kind="tun")
    offices["beta"].plain["tools"]["ssh"] = None
    offices["gamma"].plain["ssh"]["host_keys"] = []
    offices["gamma"].plain["devices"]["eth1"] = device(1500, "192.168.10.9/24")
    plan = offices.plan()
    assert plan.exit_code == 1
    said = "\n".join(f"{one.site}: {one.message}" for one in plan.refusals)
    for words in (
        "alpha: root@alpha was reached as a user without root",
        "beta: there is a tun3 that is not of this network (tun), and the tunnel to gamma is to be called so",
        "beta: there is no ssh. Install it there: apt-get install openssh-client",
        "gamma: there is no host key in /etc/ssh",
        "gamma: 192.168.10.9/24 is on its device eth1, and 192.168.10.0/24 is the LAN of alpha",
    ):
        assert words in said


def test_two_servers_with_one_key_are_refused(offices):
    offices["beta"].ssh["key"] = offices["alpha"].ssh["key"]
    assert "the key that it calls with is also that of beta" in offices.plan().refusals[0].message


def test_what_could_not_be_found_out_is_not_taken_for_not_there(offices):
    offices["beta"].plain.update(ssh=None, missing={"ssh": "ip: it broke"})
    plan = offices.plan()
    assert plan.sites["beta"] == () and "could not find out ssh: ip: it broke" in plan.refusals[0].message


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("key", "ssh-ed25519 AAAA\nssh-ed25519 BBBB", "printable characters"),
        ("key", 'command="sh" ' + ssh_key(1), "public key of ssh"),
        ("host_keys", ["* " + ssh_key(1)], "public key of ssh"),
        ("files", {"known_hosts": {"text": "", "sha256": "0"}}, "SHA-256"),
        ("devices", {"tun1": {"user": None}}, "'queue' is not there"),
    ],
)
def test_what_a_server_says_of_its_tunnels_is_not_believed_blindly(offices, place, value, said):
    offices["beta"].ssh[place] = value
    with pytest.raises(FactsError, match=said):
        Facts.from_plain(offices["beta"].plain, "beta")


def test_in_the_middle_of_a_migration_it_is_said_what_is_left_over(offices):
    wireguard = Offices(OFFICES)
    wireguard.apply()
    assert not wireguard.plan().notes
    wireguard.network = replace(wireguard.network, backend="ssh")
    wireguard.apply()
    plan = wireguard.plan()
    wireguard.network = replace(wireguard.network, backend="wireguard")
    assert "`roamlet vpn down --backend ssh`" in wireguard.plan().notes[0].message
    assert plan.exit_code == 0 and "`roamlet vpn down --backend wireguard`" in plan.notes[0].message
