"""Plans: from nothing to a network, each kind of drift and its repair, and what is left alone. All pure: servers are dicts."""

import random
import re

import pytest

from apps.vpn.tests.servers import OFFICES, Offices, device, key, route
from roamlet_vpn.model.edit import with_changes
from roamlet_vpn.model.facts import KEPT
from roamlet_vpn.model.file import parse
from roamlet_vpn.model.untrusted import FactsError
from roamlet_vpn.planning.actions import MADE_BY_APPLY, Forward, MakeKey
from roamlet_vpn.wireguard.actions import (
    Addresses,
    EnableUnit,
    Hold,
    LinkUp,
    Mtu,
    ProtectConfig,
    Routes,
    Sync,
    Up,
    WriteConfig,
)
from roamlet_vpn.wireguard.wgconf import parsed


@pytest.fixture
def offices():
    """Three offices that have been joined."""
    joined = Offices()
    joined.apply()
    for server in joined.servers.values():
        for peer in server.interface["peers"]:
            peer["handshake_age"] = 20.0
        server.done.clear()
    assert joined.plan().empty
    return joined


def kinds(actions):
    return [type(action) for action in actions]


# ---- from nothing


def test_the_first_plan_makes_keys_forwards_and_brings_the_interface_up_on_every_server():
    plan = Offices().plan()
    assert kinds(plan.sites["alpha"]) == [MakeKey, Forward, Forward, WriteConfig, Up, EnableUnit]
    assert [(change.site, change.key, change.value) for change in plan.file_changes] == [
        ("alpha", "address", "10.8.1.1"), ("beta", "address", "10.8.1.2"), ("gamma", "address", "10.8.1.3")
    ]  # fmt: skip
    assert (plan.exit_code, plan.empty, plan.refusals) == (2, False, ())


def test_a_configuration_that_waits_for_keys_can_be_shown_but_not_written():
    config = Offices().plan().sites["alpha"][3]
    assert f"PublicKey = {MADE_BY_APPLY}" in config.text
    with pytest.raises(ValueError, match="waits for keys cannot be written: make the keys, gather and plan again"):
        config.plain()


def test_what_was_applied_leaves_nothing_to_do_and_is_not_touched_again():
    offices = Offices()
    offices.apply()
    assert offices.plan().empty
    for server in offices.servers.values():
        server.done.clear()
    offices.apply()
    assert [server.done for server in offices.servers.values()] == [[], [], []]


def test_the_network_that_comes_out_is_what_a_careful_person_would_have_set():
    offices = Offices()
    offices.apply()
    alpha = offices["alpha"]
    assert (
        alpha.plain["config"]["text"]
        == f"""\
# alpha, written by roamlet vpn: change network.toml, not this file, and run `roamlet vpn apply`

[Interface]
Address = 10.8.1.1/24
ListenPort = 51820
PrivateKey = {KEPT}

[Peer]
# beta
PublicKey = {key(("beta", 1))}
AllowedIPs = 10.8.1.2/32, 192.168.20.0/24
Endpoint = 198.51.100.2:51820
PersistentKeepalive = 25

[Peer]
# gamma
PublicKey = {key(("gamma", 1))}
AllowedIPs = 10.8.1.3/32, 192.168.30.0/24, fd00:30::/64
Endpoint = gamma.example.com:51820
PersistentKeepalive = 25
"""
    )
    through = [one["to"] for one in alpha.plain["routes"] if one["dev"] == "wg0"]
    assert through == ["10.8.1.0/24", "192.168.20.0/24", "192.168.30.0/24", "fd00:30::/64"]
    assert alpha.plain["waiting_key"] is None, "the key is in the configuration now"


def test_a_hub_has_all_peers_and_a_spoke_one():
    offices = Offices(OFFICES.replace("[network]", '[network]\ntopology = "hub"\nhub = "beta"'))
    offices.apply()
    assert offices.plan().sites == {"alpha": (), "beta": (), "gamma": ()}
    assert len(offices["beta"].interface["peers"]) == 2
    (peer,) = offices["alpha"].interface["peers"]
    assert peer["allowed_ips"] == ["10.8.1.0/24", "192.168.20.0/24", "192.168.30.0/24", "fd00:30::/64"]
    through = [one["to"] for one in offices["alpha"].plain["routes"] if one["dev"] == "wg0"]
    assert through == ["10.8.1.0/24", "192.168.20.0/24", "192.168.30.0/24", "fd00:30::/64"]


def test_without_networks_of_ipv6_nothing_of_ipv6_is_touched():
    offices = Offices(OFFICES.replace(', "fd00:30::/64"', ""))
    offices.apply()
    assert offices["alpha"].plain["forwarding"]["ipv6"] == {"live": False, "persistent": False}


def test_a_router_that_learns_its_default_route_by_advertisement_keeps_it_under_forwarding():
    offices = Offices()
    offices["alpha"].plain["routes"].append(route("default", "eth0", via="fe80::9", protocol="ra"))
    offices.apply()
    assert offices["alpha"].plain["devices"]["eth0"]["accept_ra"] == 2
    assert offices["beta"].plain["devices"]["eth0"]["accept_ra"] == 1, "no route of its own hangs on it"


# ---- sites come and go


def test_a_further_site_touches_the_running_ones_by_sync_and_routes_alone(offices):
    offices.say(OFFICES + '[sites.delta]\nserver = "delta"\nlans = ["192.168.40.0/24"]\n')
    offices.apply()
    assert offices["alpha"].done == ["write_config", "sync", "routes"]
    assert offices["delta"].done == ["make_key", "forwarding", "forwarding", "write_config", "up", "enable_unit"]
    assert "192.168.40.0/24" in [one["to"] for one in offices["alpha"].plain["routes"] if one["dev"] == "wg0"]


def test_a_site_that_is_removed_goes_everywhere(offices):
    text = offices["alpha"].plain["config"]["text"]
    offices.say(OFFICES[: OFFICES.index("[sites.gamma]")])
    offices.apply()
    assert offices["alpha"].done == ["write_config", "sync", "routes"]
    assert [peer["public_key"] for peer in offices["alpha"].interface["peers"]] == [key(("beta", 1))]
    assert offices["alpha"].plain["config"]["text"] == text[: text.index("\n[Peer]\n# gamma")]
    assert not [one for one in offices["alpha"].plain["routes"] if one["to"].startswith(("192.168.30", "fd00"))]


def test_a_rotated_key_changes_one_peer_and_keeps_what_was_written_around_it(offices):
    alpha, beta = offices["alpha"], offices["beta"]
    alpha.edit(f"PublicKey = {key(('beta', 1))}", f"PublicKey = {key(('beta', 1))}\nPresharedKey = {KEPT} # since May")
    beta.do_make_key()
    new = beta.plain["waiting_key"]["public_key"]
    plan = offices.plan(keys={"beta": new})
    assert plan.sites["alpha"][0].preshared_from == ((new, key(("beta", 1))),)
    assert "PresharedKey = (kept on the server) # since May" in plan.sites["alpha"][0].text
    assert plan.sites["beta"][0].repairs == "/etc/wireguard/wg0.conf has another key"
    assert plan.sites["beta"][0].text == plan.sites["beta"][0].old
    assert plan.sites["gamma"][1].changes == (
        f"+ peer beta {new}: 10.8.1.2/32, 192.168.20.0/24",
        f"- peer {key(('beta', 1))}: 10.8.1.2/32, 192.168.20.0/24",
    )
    offices.apply(keys={"beta": new})
    assert beta.interface["public_key"] == new
    assert offices.plan().empty


def test_a_site_out_of_reach_is_known_by_what_the_others_have_of_it(offices):
    plan = offices.plan(unreachable={"gamma": "ssh: no route to host"})
    assert plan.sites == {"alpha": (), "beta": ()}
    assert (plan.exit_code, plan.notes) == (1, ())


def test_a_site_that_was_never_reached_is_left_out_and_said():
    offices = Offices()
    plan = offices.plan(unreachable={"gamma": "ssh: no route to host"})
    assert "gamma" not in plan.sites["alpha"][3].text
    assert [(note.site, note.message) for note in plan.notes] == [
        ("gamma", "has never been reached, so its key is not known: the others are planned without it")
    ]


def test_a_key_that_the_others_do_not_agree_on_is_nobodys(offices):
    offices["beta"].peer(key(("gamma", 1)))["public_key"] = key("mallory")
    plan = offices.plan(unreachable={"gamma": "no route to host"})
    assert [one.site for one in plan.refusals] == ["gamma"]
    assert f"alpha has {key(('gamma', 1))}, beta has {key('mallory')}" in plan.refusals[0].message


def test_a_key_that_is_none_gets_into_nobodys_configuration(offices):
    with pytest.raises(FactsError, match="beta: .* is no public key: what its server sent is not believed"):
        offices.plan(keys={"beta": key("beta") + "\n[Interface]\nPostUp = id"})


def test_the_hub_out_of_reach_is_known_by_its_spokes():
    offices = Offices(OFFICES.replace("[network]", '[network]\ntopology = "hub"\nhub = "beta"'))
    offices.apply()
    assert offices.plan(unreachable={"beta": "down"}).sites == {"alpha": (), "gamma": ()}


# ---- drift: manual changes, the actions that repair them, and what the first of them reports


def peers(server):
    return server.interface["peers"]


DRIFTS = {
    "a peer more": (
        lambda alpha: peers(alpha).append({**peers(alpha)[0], "public_key": key("stranger"), "allowed_ips": []}),
        {Sync: "wg0 runs otherwise than it is configured"},
    ),
    "a peer less": (lambda alpha: peers(alpha).pop(), {Sync: "wg0 runs otherwise"}),
    "allowed IPs stolen": (
        lambda alpha: peers(alpha)[1].update(allowed_ips=["10.8.1.3/32", "192.168.20.0/24"]),
        {Sync: "wg0 runs otherwise"},
    ),
    "keepalive off": (lambda alpha: peers(alpha)[0].update(keepalive=None), {Sync: "wg0 runs otherwise"}),
    "another port": (lambda alpha: alpha.interface.update(listen_port=4242), {Sync: "wg0 runs otherwise"}),
    "another key runs": (lambda alpha: alpha.interface.update(public_key=key("else")), {Sync: "wg0 runs otherwise"}),
    "no key runs": (lambda alpha: alpha.interface.update(public_key=None), {Sync: "wg0 runs otherwise"}),
    "a dead endpoint": (
        lambda alpha: peers(alpha)[0].update(endpoint="203.0.113.9:9", handshake_age=500.0),
        {Sync: "wg0 runs otherwise"},
    ),
    "a name that has moved": (
        lambda alpha: peers(alpha)[1].update(endpoint="203.0.113.9:51820", handshake_age=500.0),
        {Sync: "wg0 runs otherwise"},
    ),
    "a peer without endpoint": (lambda alpha: peers(alpha)[0].update(endpoint=None), {Sync: "wg0 runs otherwise"}),
    "a route gone": (
        lambda alpha: alpha.do_routes([], ["192.168.20.0/24"]),
        {Routes: "there is no route through wg0 to 192.168.20.0/24"},
    ),
    "a route elsewhere": (
        lambda alpha: (
            alpha.do_routes([], ["192.168.20.0/24"]), alpha.plain["routes"].append(route("192.168.20.0/24", "tun0")),
        ),
        {Routes: r"there is no route through wg0 to 192.168.20.0/24 \(it goes through tun0\)"},
    ),
    "a route too much": (
        lambda alpha: alpha.do_routes(["10.50.0.0/16"], []),
        {Routes: "wg0 has a route to 10.50.0.0/16, which is no LAN of this network"},
    ),
    "forwarding off": (
        lambda alpha: alpha.plain["forwarding"]["ipv4"].update(live=False),
        {Forward: "forwarding of IPv4 is off"},
    ),
    "forwarding until the restart": (
        lambda alpha: alpha.plain["forwarding"]["ipv6"].update(persistent=False),
        {Forward: "forwarding of IPv6 is on, but off again after a restart"},
    ),
    "an edited file": (
        lambda alpha: alpha.edit("192.168.20.0/24", "192.168.0.0/16"),
        {WriteConfig: "/etc/wireguard/wg0.conf says something else"},
    ),
    "an edited file with nonsense in it": (
        lambda alpha: alpha.plain["config"].update(text="Nonsense\n" + alpha.plain["config"]["text"]),
        {WriteConfig: "wg0.conf says something else"},
    ),
    "a file gone, its key waiting": (
        lambda alpha: alpha.plain.update(
            config=None, waiting_key={"public_key": key(("alpha", 1)), "mode": 0o600}, interface=None
        ) or alpha.plain["devices"].pop("wg0"),
        {WriteConfig: "there is no /etc/wireguard/wg0.conf", Up: "wg0 is not there"},
    ),
    "a file that others may read": (
        lambda alpha: alpha.plain["config"].update(mode=0o644),
        {ProtectConfig: "wg0.conf has mode 0644 and owner 0: others may read the key"},
    ),
    "a file of another user": (
        lambda alpha: alpha.plain["config"].update(uid=1000),
        {ProtectConfig: "mode 0600 and owner 1000"},
    ),
    "another MTU": (
        lambda alpha: alpha.do_mtu(1300),
        {Mtu: "wg0 has the MTU 1300, and 80 less than the way to its peers is 1420"},
    ),
    "no address": (lambda alpha: alpha.do_addresses([], ["10.8.1.1/24"]), {Addresses: "wg0 has no address"}),
    "another address": (
        lambda alpha: alpha.do_addresses(["10.8.9.1/24"], ["10.8.1.1/24"]),
        {Addresses: "wg0 has 10.8.9.1/24"},
    ),
    "the device down": (lambda alpha: alpha.interface.update(up=False), {LinkUp: "wg0 is down"}),
    "the interface gone": (lambda alpha: alpha.do_down(keep_config=True), {Up: "wg0 is not there"}),
    "a disabled unit": (
        lambda alpha: alpha.plain["unit"].update(enabled="disabled"),
        {EnableUnit: "wg-quick@wg0.service is disabled: after a restart of the server there would be no tunnel"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("drift", DRIFTS)
def test_drift_is_seen_named_and_repaired(offices, drift):
    change, repairs = DRIFTS[drift]
    change(offices["alpha"])
    plan = offices.plan()
    assert not plan.refusals
    assert plan.exit_code == 2
    assert kinds(plan.sites["alpha"]) == list(repairs)
    assert (plan.sites["beta"], plan.sites["gamma"]) == ((), ())
    for action, said in zip(plan.sites["alpha"], repairs.values(), strict=True):
        assert re.search(said, action.repairs)
        assert action.describe()
    offices.apply()
    assert offices.plan().sites["alpha"] == ()


def test_what_drifts_together_is_repaired_together(offices):
    """Several drifts of one server at once, by a seed: whatever the mixture, one apply is enough."""
    names = [name for name in DRIFTS if not name.startswith(("a file gone", "the interface gone"))]
    last = ["the interface gone"]
    for seed in range(60):
        dice = random.Random(seed)
        mixed = Offices()
        mixed.apply()
        chosen = dice.sample(names, dice.randint(2, 6)) + (last if dice.random() < 0.3 else [])
        for name in chosen:
            try:
                DRIFTS[name][0](mixed[dice.choice(["alpha", "beta"])] if name not in SINGLE else mixed["alpha"])
            except (AssertionError, ValueError, IndexError, KeyError, StopIteration):
                continue  # two of them that cannot both be
        mixed.apply()
        assert [actions for actions in mixed.plan().sites.values() if actions] == [], (seed, chosen)


SINGLE = tuple(name for name in DRIFTS if "edited" in name or "route" in name or "address" in name)


# ---- what is kept


def test_an_endpoint_that_has_roamed_and_works_is_kept_and_said(offices):
    peers(offices["alpha"])[0]["endpoint"] = "203.0.113.77:1024"
    plan = offices.plan()
    assert plan.sites["alpha"] == ()
    assert [note.message for note in plan.notes] == [
        "beta answers from 203.0.113.77:1024 rather than 198.51.100.2:51820; that is kept"
    ]
    offices.say(OFFICES + '[sites.delta]\nserver = "delta"\nlans = ["192.168.40.0/24"]\n')
    offices.apply()
    assert peers(offices["alpha"])[0]["endpoint"] == "203.0.113.77:1024", "also where others come"


def test_an_endpoint_that_the_file_changes_is_set_although_the_old_one_works(offices):
    offices.say(OFFICES.replace("198.51.100.2:51820", "198.51.100.99:51820"))
    plan = offices.plan()
    assert plan.sites["alpha"][1].changes == ("~ peer beta endpoint 198.51.100.2:51820 -> 198.51.100.99:51820",)
    assert plan.sites["alpha"][1].keep_endpoints == (key(("gamma", 1)),)
    offices.apply()
    assert peers(offices["alpha"])[0]["endpoint"] == "198.51.100.99:51820"


def test_a_name_that_the_server_cannot_resolve_is_no_drift(offices):
    peers(offices["alpha"])[1].update(endpoint="203.0.113.9:51820", handshake_age=500.0)
    offices["alpha"].plain["resolved"] = {}
    assert offices.plan().sites["alpha"] == ()


def test_what_somebody_wrote_into_the_configuration_by_hand_stays(offices):
    by_hand = "PostUp = nft add rule inet filter forward iifname wg0 accept # by Anna\nTable = auto\n\n# by Anna too\n"
    offices["alpha"].edit("\n[Peer]\n# beta", by_hand + "[Peer]\n# beta")
    assert offices.plan().sites["alpha"] == (), "nothing that this network manages has changed"
    offices.say(OFFICES.replace("198.51.100.2:51820", "198.51.100.99:51820"))
    offices.apply()
    assert by_hand in offices["alpha"].plain["config"]["text"]


def test_an_mtu_of_the_file_is_written_and_set(offices):
    offices.say(OFFICES.replace("[sites.beta]", "mtu = 1340\n\n[sites.beta]"))
    assert kinds(offices.plan().sites["alpha"]) == [WriteConfig, Mtu]
    offices.apply()
    assert (offices["alpha"].interface["mtu"], parsed(offices["alpha"].plain["config"]["text"]).interface.mtu) == (
        1340,
        1340,
    )
    assert offices.plan().sites["alpha"] == ()


@pytest.mark.parametrize(("mtu", "expected"), [(1500, 1420), (1400, 1320), (9000, 8920)])
def test_the_mtu_is_80_less_than_that_of_the_way(offices, mtu, expected):
    offices["alpha"].plain["devices"]["eth0"]["mtu"] = mtu
    wanted = [] if expected == 1420 else [expected]
    assert [action.mtu for action in offices.plan().sites["alpha"]] == wanted


def test_what_was_learnt_of_a_way_does_not_make_a_new_interface_smaller(offices):
    offices.say(OFFICES + '[sites.delta]\nserver = "delta"\nlans = ["192.168.40.0/24"]\n')
    offices["delta"].learnt_mtu = 1400
    offices.apply()
    assert offices["delta"].interface["mtu"] == 1420
    assert not offices.plan().sites["delta"]


def test_a_route_with_an_mtu_of_its_own_counts_for_the_way(offices):
    offices["alpha"].plain["routes"].append({**route("198.51.100.2/32", "eth0", via="192.168.10.1"), "mtu": 1400})
    peers(offices["alpha"])[1]["endpoint"] = None
    offices["alpha"].plain["resolved"] = {}
    assert [action.mtu for action in offices.plan().sites["alpha"] if isinstance(action, Mtu)] == [1320]


def test_routes_and_addresses_that_the_kernel_sets_by_itself_are_left_alone(offices):
    alpha = offices["alpha"]
    alpha.interface["addresses"].append("fe80::77/64")
    alpha.plain["routes"] += [
        route("fe80::/64", "wg0", protocol="kernel"), route("ff00::/8", "wg0"), route("fe80::/64", "wg0"),
    ]  # fmt: skip
    assert offices.plan().sites["alpha"] == ()


# ---- notes


def test_saveconfig_another_table_an_armed_rollback_and_what_is_unknown_are_noted(offices):
    alpha = offices["alpha"]
    alpha.edit("ListenPort", "SaveConfig = true\nTable = off\nListenPort")
    alpha.plain["rollback"] = {"token": "t", "seconds_left": 41.2}
    alpha.plain["missing"] = {"listeners": "ss: not found"}
    notes = [note.message for note in offices.plan().notes]
    assert [note.partition(":")[0] for note in notes] == [
        "a rollback is armed there and comes in 41 s", "SaveConfig = true", "Table = off", "could not find out listeners"
    ]  # fmt: skip
    assert "wg-quick overwrites the configuration whenever the interface goes down" in notes[1]
    assert offices.plan().sites["alpha"] == ()


def test_without_systemd_no_unit_is_enabled_and_that_is_noted(offices):
    offices["alpha"].plain.update(systemd=False, unit=None)
    plan = offices.plan()
    assert plan.sites["alpha"] == ()
    assert [note.message for note in plan.notes] == [
        "there is no systemd: nothing brings the interface up after a restart of the server"
    ]


def test_a_line_that_wg_quick_does_not_take_is_noted_with_its_number(offices):
    config = offices["alpha"].plain["config"]
    config["text"] = config["text"].replace("ListenPort", "Listenport: yes\nListenPort")
    (note,) = offices.plan().notes
    assert "which goes: line 5: 'Listenport: yes' is neither a section nor KEY = VALUE" in note.message


def test_a_device_of_another_network_is_no_drift(offices):
    offices["alpha"].plain["devices"]["docker0"] = device(1500, "172.17.0.1/16", kind="bridge")
    assert offices.plan().sites["alpha"] == ()


def test_what_goes_another_way_today_is_held_until_the_tunnel_can_take_it():
    offices = Offices()
    for metric, dev in ((1024, "eth0"), (512, "tun2")):
        offices["alpha"].plain["routes"].append(route("192.168.20.0/24", dev, metric=metric))
    offices["alpha"].plain["devices"]["tun2"] = device(1500)
    for server in offices.servers.values():
        server.plain["waiting_key"] = {"public_key": key(server.name), "mode": 0o600}
    actions = offices.plan().sites["alpha"]
    (hold,) = (action for action in actions if isinstance(action, Hold))
    assert hold.plain() == {"do": "hold", "routes": [["192.168.20.0/24", "tun2", None]]}
    kinds = [type(action) for action in actions]
    assert kinds.index(Hold) < kinds.index(Up)
    assert Hold not in map(type, offices.plan().sites["beta"])
    offices.apply()
    assert Hold not in map(type, offices.plan().sites["alpha"])


def test_a_route_that_something_else_made_gives_way_and_the_plan_says_so():
    offices = Offices()
    alpha = offices["alpha"]
    alpha.plain["devices"]["tun0"] = device(1500, "10.9.0.1/32", kind="tun")
    alpha.plain["routes"].append(route("192.168.20.0/24", "tun0", via="10.9.0.2"))
    plan = offices.plan()
    (note,) = (note.message for note in plan.notes if "something else has made" in note.message)
    assert note.startswith("192.168.20.0/24 goes through tun0 today") and "metric 5182" in note
    (hold,) = (action for action in plan.sites["alpha"] if isinstance(action, Hold))
    assert hold.plain()["routes"] == [["192.168.20.0/24", "tun0", "10.9.0.2"]]


def test_a_tunnel_with_a_range_of_each_family_is_planned_written_and_stays():
    text = OFFICES.replace('"10.8.1.0/24"', '["10.8.1.0/24", "fd08:1::/64"]')
    offices = Offices(text)
    plan = offices.plan()
    assert plan.file_changes[0].value == ["10.8.1.1", "fd08:1::1"]
    assert str(parse(with_changes(text, plan.file_changes)).sites[2].second) == "fd08:1::3"
    offices.apply()
    assert offices.plan().empty
    assert offices["alpha"].interface["addresses"] == ["10.8.1.1/24", "fd08:1::1/64"]
    assert offices["alpha"].interface["peers"][0]["allowed_ips"] == ["10.8.1.2/32", "fd08:1::2/128", "192.168.20.0/24"]
