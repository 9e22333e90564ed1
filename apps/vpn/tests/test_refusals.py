"""What no plan may do: each refusal with its cause and the next step, and nothing else refused."""

import re

import pytest

from apps.vpn.tests.servers import OFFICES, Offices, device, key, route
from roamlet_vpn.model.facts import KEPT


@pytest.fixture
def offices():
    joined = Offices()
    joined.apply()
    return joined


REFUSED = {
    "no root": (lambda alpha: alpha.plain.update(is_root=False), r"sudo = true in \[sites.alpha\], or name root"),
    "no wg": (
        lambda alpha: alpha.plain["tools"].update({"wg": None, "wg-quick": None}),
        "there is no wg and no wg-quick. Install it there: apt-get install wireguard-tools",
    ),
    "no ip": (
        lambda alpha: alpha.plain["tools"].pop("ip"),
        "there is no ip. Install it there: apt-get install iproute2",
    ),
    "no WireGuard": (
        lambda alpha: alpha.plain.update(wireguard=None),
        "the kernel has no such module, and there is no wireg",
    ),
    "a masked unit": (lambda alpha: alpha.plain["unit"].update(enabled="masked"), "wg-quick@wg0.service is masked"),
    "an empty configuration": (
        lambda alpha: alpha.set_config("", None),
        "wg0.conf is empty: a tunnel that is brought to it would lose its key",
    ),
    "a configuration without key": (
        lambda alpha: alpha.set_config("[Interface]\nListenPort = 51820\n", None),
        "wg0.conf has no PrivateKey that wg takes: .* mv /etc/wireguard/wg0.conf /etc/wireguard/wg0.conf.old",
    ),
    "a key in the kernel alone": (
        lambda alpha: alpha.plain.update(config=None),
        r"wg0 runs without /etc/wireguard/wg0.conf, .* \(umask 077; wg showconf wg0 > /etc/wireguard/wg0.conf\)",
    ),
    "a device of that name": (
        lambda alpha: (alpha.do_down(True), alpha.plain["devices"].update(wg0=device(1500, kind="bridge"))),
        r'a wg0 that is no WireGuard interface \(bridge\). Give this network another name: interface = "wg1"',
    ),
    "an interface of somebody else": (
        lambda alpha: alpha.set_config(
            f"[Interface]\nAddress = 10.99.0.1/24\nPrivateKey = {KEPT}\n[Peer]\nPublicKey = {key('eva')}\n",
            key(("alpha", 1)),
        ),
        r'there is a wg0 with 10.99.0.1/24 and peers that are not among these sites \(1\): .* interface = "wg1"',
    ),
    "the ip of BusyBox": (
        lambda alpha: alpha.plain.update(missing={"devices": "ip -j: invalid option"}),
        "could not find out devices: ip -j: .* install iproute2",
    ),
    "the key of another site": (
        lambda alpha: alpha.set_config(alpha.plain["config"]["text"], key(("beta", 1))),
        "its key is also that of beta: one of them is a copy of the other's disk",
    ),
    "a VPN for home workers in an office's LAN": (
        lambda alpha: alpha.plain["devices"].update(tun7=device(1500, "192.168.20.1/26", kind="tun")),
        "192.168.20.1/26 is on its device tun7, and 192.168.20.0/24 is the LAN of beta: .* VPN for home workers?",
    ),
    "a LAN of its own in an office's LAN": (
        lambda alpha: alpha.plain["devices"].update(eth1=device(1500, "192.168.30.9/24")),
        "192.168.30.9/24 is on its device eth1, and 192.168.30.0/24 is the LAN of gamma: .* Renumber one of them",
    ),
    "a device in the tunnel range": (
        lambda alpha: alpha.plain["devices"].update(docker0=device(1500, "10.8.0.1/16", kind="bridge")),
        "10.8.0.1/16 is on its device docker0, and 10.8.1.0/24 is this network's tunnel range",
    ),
    "another WireGuard with an office's LAN": (
        lambda alpha: alpha.plain["other_interfaces"].append(
            {"name": "wg1", "public_key": None, "listen_port": 7, "allowed_ips": ["192.168.20.128/25"]}
        ),
        "192.168.20.128/25 belongs to a peer of its other WireGuard interface wg1, and 192.168.20.0/24 is the LAN of beta",
    ),
    "another server than meant": (
        lambda alpha: alpha.plain["devices"].update(eth0=device(1500, "192.168.10.3/24")),
        r"192.168.10.2 is no address of root@alpha, which has 10.8.1.1, 192.168.10.3. Correct lan_address in \[sites.alpha\]",
    ),
    "a port that is taken": (
        lambda alpha: (
            alpha.do_down(True),
            alpha.plain["listeners"].append({"protocol": "udp", "address": "::", "port": 51820, "process": "named"}),
        ),
        r"UDP port 51820 is taken by named. Stop it, or choose another listen_port in \[sites.alpha\]",
    ),
    "a port of another WireGuard": (
        lambda alpha: (
            alpha.do_down(True),
            alpha.plain["other_interfaces"].append(
                {"name": "wg1", "public_key": None, "listen_port": 51820, "allowed_ips": []}
            ),
        ),
        "UDP port 51820 is taken by its WireGuard interface wg1",
    ),
    "a configuration that could not be read": (
        lambda alpha: alpha.plain.update(config=None, interface=None, missing={"config": "Input/output error"}),
        "could not find out config: Input/output error. Nothing is decided without it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_the_cause_and_the_next_step(offices, case):
    change, said = REFUSED[case]
    change(offices["alpha"])
    plan = offices.plan()
    mine = [refusal for refusal in plan.refusals if refusal.site == "alpha"]
    assert len(mine) == 1, mine
    assert re.search(said, mine[0].message)
    assert (plan.exit_code, plan.empty) == (1, False)


def test_a_server_that_was_reached_without_root_is_planned_nothing_for(offices):
    offices["alpha"].plain.update(is_root=False, interface=None, config=None)
    plan = offices.plan()
    assert plan.sites["alpha"] == ()
    assert len(plan.refusals) == 1


ALLOWED = {
    "a tunnel of ssh with the site's own address, from which the network migrates": lambda alpha: (
        alpha.plain["devices"].update(tun5=device(1500, "10.8.1.1/32", kind="tun")),
        alpha.plain["routes"].append(route("10.8.1.2/32", "tun5")),
    ),
    "a VPN for home workers with a range of its own": lambda alpha: alpha.plain["devices"].update(
        tun7=device(1500, "10.99.0.1/24", kind="tun")
    ),
    "a WireGuard interface that sends everything": lambda alpha: alpha.plain["other_interfaces"].append(
        {"name": "wg1", "public_key": key("x"), "listen_port": 7, "allowed_ips": ["0.0.0.0/0", "::/0"]}
    ),
    "its own port": lambda alpha: alpha.plain["listeners"].append(
        {"protocol": "udp", "address": "0.0.0.0", "port": 51820, "process": None}
    ),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_does_no_harm_is_not_refused(offices, case):
    ALLOWED[case](offices["alpha"])
    plan = offices.plan()
    assert (plan.refusals, plan.sites["alpha"]) == ((), ())


def test_a_server_that_is_in_two_sites_is_refused_at_both():
    text = OFFICES.replace('lan_address = "192.168.20.2"\n', "")
    offices = Offices(text)
    offices["beta"].plain = offices["alpha"].plain
    offices["alpha"].do_make_key()
    messages = [refusal.message for refusal in offices.plan().refusals]
    assert [message[:27] for message in messages if "key is also" in message] == [
        "its key is also that of bet", "its key is also that of alp"
    ]  # fmt: skip


def test_a_route_that_drops_what_is_for_another_office_is_refused_with_its_removal():
    offices = Offices()
    dropped = {**route("192.168.20.0/24", None), "type": "unreachable"}
    offices["alpha"].plain["routes"].append(dropped)
    (refusal,) = offices.plan().refusals
    assert refusal.site == "alpha" and "is unreachable there" in refusal.message
    assert refusal.message.endswith("If it is not needed: ip route del unreachable 192.168.20.0/24")
    offices["alpha"].plain["routes"].remove(dropped)
    offices.apply()
    offices["alpha"].plain["routes"].append({**dropped, "metric": 900})  # the tunnel's own comes before it
    assert not offices.plan().refusals
