"""What a server reports is untrusted: everything that is not of the agreed form is refused, with its place."""

import copy

import pytest

from apps.vpn.tests.servers import Offices, key
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.untrusted import FactsError


@pytest.fixture(scope="module")
def plain():
    offices = Offices()
    offices.apply()
    alpha = offices["alpha"]
    alpha.plain["other_interfaces"].append(
        {"name": "wg1", "public_key": None, "listen_port": 7, "allowed_ips": ["10.99.0.0/24"]}
    )
    alpha.plain["waiting_key"] = {"public_key": None, "mode": 0o600}
    alpha.plain["rollback"] = {"token": "t", "seconds_left": 1}
    return alpha.plain


def test_everything_arrives_as_what_it_is(plain):
    facts = Facts.from_plain(plain, "alpha")
    assert facts.public_key == key(("alpha", 1))
    assert [str(peer.endpoint) for peer in facts.interface.peers] == ["198.51.100.2:51820", "198.51.100.3:51820"]
    assert [str(route.to) for route in facts.routes][:2] == ["0.0.0.0/0", "192.168.10.0/24"]
    assert facts.forwarding[4].live
    assert {name: str(found[0]) for name, found in facts.resolved.items()} == {"gamma.example.com": "198.51.100.3"}


def test_the_key_is_that_of_the_configuration_else_the_waiting_one_else_the_running_one(plain):
    plain = copy.deepcopy(plain)
    plain["waiting_key"]["public_key"] = key("waiting")
    assert Facts.from_plain(plain, "alpha").public_key == key(("alpha", 1))
    plain["config"] = None
    assert Facts.from_plain(plain, "alpha").public_key == key("waiting")
    plain["waiting_key"] = None
    assert Facts.from_plain(plain, "alpha").public_key == key(("alpha", 1))
    plain["interface"] = None
    assert Facts.from_plain(plain, "alpha").public_key is None


def put(path, value):
    def change(plain):
        for step in path[:-1]:
            plain = plain[step]
        plain[path[-1]] = value

    return change


WRONG = [
    (put(["version"], 2), "the facts of alpha have version 2, and this roamlet reads 1"),
    (
        put(["hostname"], "a\x1b[2Jb"),
        r"the facts of alpha, hostname: 'a\\x1b\[2Jb' is no line of at most 1000 printable",
    ),
    (put(["hostname"], "a" * 2000), "hostname: 'aaa.*... is no line of at most 1000"),
    (put(["is_root"], 1), "is_root: 1 is no bool"),
    (put(["time"], float("nan")), "time: nan is no number"),
    (put(["time"], -1), "time: -1 is no number"),
    (put(["tools"], ["wg"]), "tools: .* is no dict of at most 10000"),
    (put(["tools", "wg"], 3), "tools, wg: 3 is no line"),
    (put(["devices", "eth0", "mtu"], True), "devices, eth0, mtu: True is no whole number"),
    (put(["devices", "eth0", "addresses"], "x"), "devices, eth0, addresses: 'x' is no list"),
    (put(["devices", "eth0", "addresses"], ["x"]), "addresses, number 1: 'x' is no address with a length"),
    (put(["routes", 0, "to"], "10.0.0.1/8"), "routes, number 1, to: '10.0.0.1/8' is no network"),
    (put(["routes", 0, "family"], 5.0), "routes, number 1, family: 5.0 is no whole number from 4 to 6"),
    (put(["routes", 0, "via"], "gate"), "via: 'gate' is no address"),
    (put(["routes"], [None] * 10_001), "routes: .* is no list of at most 10000"),
    (put(["forwarding"], {}), "forwarding: 'ipv4' is not there; was it gathered by another version"),
    (put(["interface"], 3), "interface: 3 is no dict"),
    (put(["interface", "public_key"], "short"), "interface, public_key: 'short' is no public key"),
    (put(["interface", "public_key"], key("x")[:-1]), "is no public key"),
    (put(["interface", "public_key"], "A" * 42 + "B="), "is no public key"),  # bits after the 32 bytes
    (put(["interface", "listen_port"], 65536), "listen_port: 65536 is no whole number from 0 to 65535"),
    (put(["interface", "peers", 0, "endpoint"], "host:1"), "peers, number 1, endpoint: 'host:1' is no endpoint"),
    (put(["interface", "peers", 0, "endpoint"], "1.2.3.4:70000"), "endpoint: '1.2.3.4:70000' is no endpoint"),
    (put(["interface", "peers", 0, "rx"], -1), "rx: -1 is no whole number"),
    (put(["interface", "peers", 1, "public_key"], key(("beta", 1))), "peers: one key stands there twice"),
    (put(["config", "text"], "[Interface]\x07"), "config, text: .* is no text without control characters"),
    (put(["config", "text"], "x" * (1 << 21)), "config, text: .* is no text of at most"),
    (put(["config", "sha256"], "A" * 64), "sha256: .* is no SHA-256 of 64 hex digits"),
    (put(["config", "mode"], 0o10000), "config, mode: 4096 is no whole number"),
    (
        put(["other_interfaces", 0, "allowed_ips"], [3]),
        "other_interfaces, number 1, allowed_ips, number 1: 3 is no network",
    ),
    (put(["listeners", 0, "address"], "*"), "listeners, number 1, address: '\\*' is no address"),
    (put(["missing"], {"a\nb": "c"}), "missing, a key: 'a\\\\nb' is no line"),
]


@pytest.mark.parametrize(("change", "said"), WRONG)
def test_what_has_another_form_is_refused_with_its_place(plain, change, said):
    plain = copy.deepcopy(plain)
    change(plain)
    with pytest.raises(FactsError, match=said):
        Facts.from_plain(plain, "alpha")


def test_no_key_may_be_left_out_but_the_optional_one(plain):
    for name in plain:
        less = {key: value for key, value in plain.items() if key != name}
        if name in ("resolved", "ssh"):
            assert not getattr(Facts.from_plain(less, "alpha"), name)
            continue
        with pytest.raises(FactsError, match=f"the facts of alpha: '{name}' is not there"):
            Facts.from_plain(less, "alpha")


@pytest.mark.parametrize("plain_value", [None, [], "facts", 3])
def test_what_is_no_dict_is_refused(plain_value):
    with pytest.raises(FactsError, match="the facts of alpha: .* is no dict"):
        Facts.from_plain(plain_value, "alpha")
