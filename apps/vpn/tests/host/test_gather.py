"""What a server reports: in the agreed shape, without a key, and never nothing at all because one tool is missing."""

import json
import time

import pytest

from apps.vpn.tests.host.conftest import key, public
from roamlet import remote
from roamlet_vpn.host import gather as host_gather
from roamlet_vpn.host.gather import gather
from roamlet_vpn.model.facts import Facts
from tests.remote import interpreters

OWN, PEER, OTHER, SHARED = key("own"), public(key("peer")), key("other"), key("shared")
ADDRESSES = [
    {},  # ip writes one for each device that it was told to leave out
    {
        "ifname": "eth0", "mtu": 1500, "flags": ["BROADCAST", "UP"],
        "addr_info": [{"local": "192.168.10.2", "prefixlen": 24}, {"local": "fe80::1", "prefixlen": 64}],
    },
    {
        "ifname": "wg0", "mtu": 1420, "flags": ["UP"], "linkinfo": {"info_kind": "wireguard"},
        "addr_info": [{"local": "10.8.1.1", "prefixlen": 24}],
    },
]  # fmt: skip
ROUTES = {
    "4": [
        {
            "type": "unicast",
            "dst": "default",
            "gateway": "192.168.10.1",
            "dev": "eth0",
            "protocol": "static",
            "scope": "global",
        },
        {
            "type": "unicast",
            "dst": "10.8.1.9",
            "dev": "wg0",
            "protocol": "boot",
            "scope": "link",
            "metrics": [{"mtu": 1300}],
        },
        {"dst": "10.0.0.0/8", "nexthops": [{"gateway": "192.168.10.3", "dev": "eth0"}, {"gateway": "192.168.10.4"}]},
    ],
    "6": [
        {"type": "unicast", "dst": "fe80::/64", "dev": "eth0", "protocol": "kernel", "scope": "global", "metric": 256}
    ],
}
LISTENERS = (
    'UNCONN 0 0 0.0.0.0%eth0:68 0.0.0.0:* users:(("dhclient",pid=7,fd=3))\n'
    "UNCONN 0 0 *:51820 *:*\n"
    "UNCONN 0 0 [fe80::1]%eth0:546 [::]:*\n"
)


@pytest.fixture
def office(server):
    """A server with a tunnel, another WireGuard interface and all tools."""
    now = int(time.time())
    lines = [
        f"wg0\t{OWN}\t{public(OWN)}\t51820\toff",
        f"wg0\t{PEER}\t{SHARED}\t198.51.100.2:51820\t10.8.1.2/32,192.168.20.0/24\t{now - 5}\t10\t20\t25",
        f"wg0\t{public(OTHER)}\t(none)\t[fe80::2%eth0]:9\t(none)\t0\t0\t0\toff",
        f"wg1\t{OTHER}\t{public(OTHER)}\t51821\t0xca6c",
        f"wg1\t{PEER}\t(none)\t(none)\t10.99.0.2/32\t0\t0\t0\toff",
    ]
    (server.folder / "dump").write_text("\n".join(lines) + "\n")
    (server.folder / "addresses").write_text(json.dumps(ADDRESSES))
    for family, routes in ROUTES.items():
        (server.folder / f"routes-{family}").write_text(json.dumps(routes))
    (server.folder / "listeners").write_text(LISTENERS)
    server.program(
        "ip",
        '#!/bin/sh\ncase "$*" in *address*) cat {folder}/addresses;; *-4*) cat {folder}/routes-4;; *-6*) cat {folder}/routes-6;;'
        " -V) echo ip utility, iproute2-6.1.0, libbpf 1.1.2;; esac\n",
    )
    server.program("ss", "#!/bin/sh\ncat {folder}/listeners\n")
    server.config.write_text(f"[Interface]\nPrivateKey = {OWN}\n[Peer]\nPublicKey = {PEER}\nPresharedKey = {SHARED}\n")
    server.config.chmod(0o640)
    server.waiting.write_text(OTHER + "\n")
    return server


def test_the_facts_have_the_agreed_shape(office):
    facts = Facts.from_plain(gather("wg0"), "alpha")
    assert facts.interface.public_key == public(OWN) and facts.interface.mtu == 1420 and facts.interface.up
    peer, silent = facts.interface.peers
    assert peer.public_key == PEER and peer.preshared and str(peer.endpoint) == "198.51.100.2:51820"
    assert 4 < peer.handshake_age < 60 and (peer.rx, peer.tx, peer.keepalive) == (10, 20, 25)
    assert [str(network) for network in peer.allowed_ips] == ["10.8.1.2/32", "192.168.20.0/24"]
    assert silent.handshake_age is None and silent.keepalive is None and str(silent.endpoint) == "[fe80::2]:9"
    assert facts.config.public_key == public(OWN) and facts.config.mode == 0o640
    assert facts.waiting_key.public_key == public(OTHER)
    assert [(other.name, other.listen_port) for other in facts.other_interfaces] == [("wg1", 51821)]
    assert [str(route.to) for route in facts.routes] == ["0.0.0.0/0", "10.8.1.9/32", "10.0.0.0/8", "fe80::/64"]
    assert facts.routes[1].mtu == 1300 and str(facts.routes[2].via) == "192.168.10.3"
    assert [(listener.port, listener.process) for listener in facts.listeners] == [
        (68, "dhclient"),
        (51820, None),
        (546, None),
    ]
    assert facts.tools["ip"] == "6.1.0" and facts.missing == {}


def test_no_private_key_goes_up(office):
    everything = json.dumps(gather("wg0"))
    assert not any(secret in everything for secret in (OWN, OTHER, SHARED))
    assert PEER in everything and "(kept on the server)" in everything


def test_what_is_missing_is_named_and_the_rest_is_there(office):
    (office.folder / "bin" / "wg").unlink()
    facts = Facts.from_plain(gather("wg0"), "alpha")
    assert facts.interface is None and "wg cannot be run here" in facts.missing["interface"]
    assert facts.tools["wg"] is None and facts.devices["wg0"].kind == "wireguard" and facts.config is not None


def test_a_tool_that_says_something_else_is_named(office):
    (office.folder / "addresses").write_text("Option -j is unknown, try ip -help.\n")
    facts = Facts.from_plain(gather("wg0"), "alpha")
    assert "Expecting value" in facts.missing["devices"] and len(facts.routes) == 4


def test_a_server_without_anything(server):
    (server.folder / "bin" / "wg").unlink()
    facts = Facts.from_plain(gather("wg0"), "bare")
    assert facts.config is None and facts.interface is None and facts.waiting_key is None and facts.rollback is None


@pytest.mark.parametrize(
    ("files", "persistent"),
    [
        ({}, False),
        ({"etc/10-a.conf": "net.ipv4.ip_forward = 1"}, True),
        ({"etc/10-a.conf": "-net/ipv4/ip_forward=1", "lib/20-b.conf": "net.ipv4.conf.all.forwarding=0"}, False),
        ({"lib/10-a.conf": "net.ipv4.ip_forward = 0", "etc/10-a.conf": "net.ipv4.ip_forward = 1"}, True),
        ({"etc/10-a.conf": "# net.ipv4.ip_forward = 1\n;net.ipv4.ip_forward=1"}, False),
    ],
)
def test_forwarding_after_a_restart_is_what_the_files_say(server, monkeypatch, files, persistent):
    monkeypatch.setattr(host_gather, "SYSCTL_FOLDERS", (str(server.folder / "etc"), str(server.folder / "lib")))
    monkeypatch.setattr(host_gather, "SYSCTL_CONF", str(server.folder / "none"))
    for name, text in files.items():
        (server.folder / name).parent.mkdir(exist_ok=True)
        (server.folder / name).write_text(text + "\n")
    settings = host_gather.after_a_restart()
    assert (settings.get("net/ipv4/ip_forward", "0") != "0") is persistent


@pytest.mark.skipif("3.6" not in interpreters.found(), reason="there is no Python 3.6 on this machine")
@pytest.mark.usefixtures("iproute2")
def test_the_oldest_python_gathers_too():
    with remote.local(interpreters.found()["3.6"]) as oldest:
        facts = Facts.from_plain(oldest.call(gather, ("roamlet-none0",)), "oldest")
    assert facts.python.startswith("3.6.") and facts.interface is None and facts.devices
