"""New peers shake hands: which are called again, how, and which are left alone. `wg` is a stand-in that takes the second call."""

import time

import pytest

from apps.vpn.tests.host.conftest import key, public
from roamlet_vpn.host import handshake, live, system

PEER, OTHER = public(key("peer")), public(key("other"))
TOKEN = "0123456789abcdef"
PRESHARED = key("preshared")
TEXT = f"""\
[Interface]
PrivateKey = {key("own")}
[Peer]
# beta
PublicKey = {PEER}
PresharedKey = {PRESHARED}
AllowedIPs = 10.8.1.2/32
Endpoint = 198.51.100.2:51820
PersistentKeepalive = 25
[Peer]
PublicKey = {OTHER}
AllowedIPs = 10.8.1.3/32
"""
WG = """#!/bin/sh
echo "wg $*" >> {folder}/said
case $1 in
    show) cat {folder}/handshakes;;
    addconf) cat > {folder}/added; [ -e {folder}/deaf ] || sed -i "s/\\t0$/\\t$(date +%s)/" {folder}/handshakes;;
esac
"""


@pytest.fixture
def peers(server, monkeypatch):
    """A configured interface none of whose peers has shaken hands, under an armed rollback."""
    monkeypatch.setattr(handshake, "FIRST_PATIENCE", 0.0)
    monkeypatch.setattr(handshake, "_send", lambda address: None)
    server.program("wg", WG)
    server.config.write_text(TEXT)
    (server.folder / "handshakes").write_text(f"{PEER}\t0\n{OTHER}\t0\n")
    folder = server.folder / "rollbacks" / TOKEN
    folder.mkdir(parents=True, mode=0o700)
    (folder / "armed").touch()
    return server


def test_a_peer_that_did_not_answer_is_put_in_anew_as_it_is_configured(peers):
    assert handshake.shake_hands("wg0", TOKEN, {PEER: "10.8.1.2"}, 20) == []
    added = (peers.folder / "added").read_text()
    assert added.splitlines() == [
        "[Peer]",
        f"PublicKey = {PEER}",
        f"PresharedKey = {PRESHARED}",
        "AllowedIPs = 10.8.1.2/32",
        "Endpoint = 198.51.100.2:51820",
        "PersistentKeepalive = 25",
    ]
    words = [line for line in peers.said.splitlines() if " show " not in line]
    assert words == [f"wg set wg0 peer {PEER} remove", "wg addconf wg0 /dev/stdin"]


def test_a_peer_with_a_session_is_left_alone(peers):
    (peers.folder / "handshakes").write_text(f"{PEER}\t{int(time.time()) - 60}\n{OTHER}\t0\n")
    assert handshake.shake_hands("wg0", TOKEN, {PEER: "10.8.1.2"}, 20) == []
    assert "remove" not in peers.said


def test_those_that_do_not_answer_are_named_after_the_time_and_one_without_an_endpoint_is_never_taken_out(peers):
    (peers.folder / "deaf").touch()
    assert handshake.shake_hands("wg0", TOKEN, {PEER: "10.8.1.2", OTHER: "10.8.1.3"}, 0.3) == sorted([PEER, OTHER])
    assert f"peer {PEER} remove" in peers.said and f"peer {OTHER} remove" not in peers.said


def test_a_key_that_is_no_peer_is_nobody_to_wait_for(peers):
    assert handshake.shake_hands("wg0", TOKEN, {public(key("unknown")): "10.8.1.9"}, 20) == []


def test_nothing_is_taken_out_once_the_rollback_is_over(peers):
    (peers.folder / "rollbacks" / TOKEN / "armed").unlink()
    with pytest.raises(system.CannotDo, match="has rolled back"):
        handshake.shake_hands("wg0", TOKEN, {PEER: "10.8.1.2"}, 20)
    assert "remove" not in peers.said


RULES = """#!/bin/sh
case "$*" in
    "-4 rule show") printf '51820:\\tlookup 7\\n5182:\\tfrom all to 192.168.20.0/24 lookup 5182\\n'; exit;;
    "-6 rule show") exit 2;;
    "-o -4 route show"*) echo '192.168.20.0/24 via 10.9.0.2 dev tun2'; echo '192.168.20.0/24 dev wg0'; exit;;
    "-o -6 route show"*) echo 'fd00:20::/64 via fe80::1 dev eth0 proto static metric 1024 pref medium'; exit;;
esac
echo "ip $*" >> {folder}/said
"""


def test_held_routes_are_rules_of_their_own_and_those_that_are_there_go_again(server):
    server.program("ip", RULES)
    live.hold_routes("wg0", [("192.168.20.0/24", "tun2", None), ("fd00:20::/64", "eth0", "fe80::1")])
    live.release_routes()
    assert server.said.splitlines() == [
        "ip -4 route replace 192.168.20.0/24 dev tun2 table 5182",
        "ip -4 rule add pref 5182 to 192.168.20.0/24 lookup 5182",
        "ip -4 route replace 192.168.20.0/24 via 10.9.0.2 dev tun2 metric 5182",
        "ip -4 route del 192.168.20.0/24 via 10.9.0.2 dev tun2 metric 0",
        "ip -6 route replace fd00:20::/64 via fe80::1 dev eth0 table 5182",
        "ip -6 rule add pref 5182 to fd00:20::/64 lookup 5182",
        "ip -6 route replace fd00:20::/64 via fe80::1 dev eth0 proto static pref medium metric 5182",
        "ip -6 route del fd00:20::/64 via fe80::1 dev eth0 proto static pref medium metric 1024",
        "ip -4 rule del pref 5182",
        "ip -4 route flush table 5182",
    ]


def test_routes_that_gave_way_are_what_they_were_after_a_rollback(server):
    server.program("ip", RULES.replace("tun2'", "tun2 metric 5182'"))
    live.set_routes_elsewhere("wg0", ["192.168.20.0/24"], [[4, ["192.168.20.0/24", "via", "10.9.0.2", "dev", "tun2"]]])
    assert server.said.splitlines() == [
        "ip -4 route replace 192.168.20.0/24 via 10.9.0.2 dev tun2",
        "ip -4 route del 192.168.20.0/24 via 10.9.0.2 dev tun2 metric 5182",
    ]
