"""wg-quick's file: what it says, every line that is refused, and changes that touch as little as they can."""

import ipaddress

import pytest

from apps.vpn.tests.servers import key
from roamlet_vpn.model.facts import KEPT
from roamlet_vpn.model.network import Endpoint, endpoint_from
from roamlet_vpn.wireguard.wgconf import InterfacePart, PeerPart, WgConfig, WgConfigError, changed, parsed, rendered

BETA, GAMMA, OTHER = key("beta"), key("gamma"), key("other")
HAND_MADE = f"""\
# Written by Anna, 2019

[interface]
address=10.8.1.1/24, fd08::1/64 # two of them
PrivateKey = {KEPT}
ListenPort = 51820
DNS = 192.168.10.1
PostUp = iptables -A FORWARD -i %i -j ACCEPT; echo a=b
SaveConfig = true

# The warehouse
[Peer]
PublicKey = {GAMMA}
AllowedIPs = 10.8.1.3/32
AllowedIPs = 192.168.30.7/24,
PersistentKeepalive = off

[Peer]
# Beta, second floor
PublicKey = {BETA}
PresharedKey = {KEPT}
AllowedIPs = 10.8.1.2/32, 192.168.20.0/24
Endpoint = Beta.example.com:51820
PersistentKeepalive = 25
"""


def network(text):
    return ipaddress.ip_network(text)


def wanted(*peers, **interface):
    addresses = (ipaddress.ip_interface("10.8.1.1/24"), ipaddress.ip_interface("fd08::1/64"))
    return WgConfig(InterfacePart(**{"addresses": addresses, "listen_port": 51820, **interface}), peers)


THE_GAMMA = PeerPart(GAMMA, (network("10.8.1.3/32"), network("192.168.30.0/24")), name="gamma")
THE_BETA = PeerPart(
    BETA, (network("192.168.20.0/24"), network("10.8.1.2/32")), Endpoint("beta.example.com", 51820), 25, name="beta"
)


def test_all_that_wg_quick_reads_is_read():
    said = parsed(HAND_MADE)
    assert list(map(str, said.interface.addresses)) == ["10.8.1.1/24", "fd08::1/64"]
    assert (said.interface.listen_port, said.interface.mtu, said.interface.private_key) == (51820, None, True)
    assert said.interface.save_config
    assert said.interface.other[1] == ("PostUp", "iptables -A FORWARD -i %i -j ACCEPT; echo a=b")
    gamma, beta = said.peers
    assert (gamma.name, gamma.keepalive, gamma.preshared, gamma.endpoint) == ("The warehouse", None, False, None)
    assert list(map(str, gamma.allowed_ips)) == ["10.8.1.3/32", "192.168.30.0/24"], (
        "host bits are cut off, as wg does it"
    )
    assert (beta.name, beta.keepalive, beta.preshared) == ("Beta, second floor", 25, True)
    assert beta.endpoint == Endpoint("beta.example.com", 51820)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "[interface]",
            "[Interfaces]",
            r"line 3: there is no section \[Interfaces\]; there are \[Interface\] and \[Peer\]",
        ),
        ("[interface]\n", "", "line 3: address stands before the first section; is the line .Interface. missing?"),
        ("DNS =", "Dnss =", r"line 7: wg-quick knows no Dnss in \[Interface\]: PrivateKey, Address"),
        ("DNS = 192.168.10.1", "yes", "line 7: 'yes' is neither a section nor KEY = VALUE"),
        ("address=10.8.1.1/24", "address=10.8.1.1/33", "line 4: Address = '10.8.1.1/33' is not an address"),
        ("ListenPort = 51820", "ListenPort = 70000", "line 6: ListenPort = '70000' is not a number from 0 to 65535"),
        ("ListenPort = 51820", "MTU = much", "line 6: MTU = 'much' is not a number from 1"),
        (f"PublicKey = {GAMMA}\n", "", r"line 12: this \[Peer\] has no PublicKey"),
        (GAMMA, GAMMA[:-2] + "=", "line 13: .* is no public key: 32 bytes in base64"),
        ("10.8.1.3/32", "10.8.1.3/x", "line 14: AllowedIPs = '10.8.1.3/x' is not a network"),
        ("Beta.example.com:51820", "Beta.example.com", "line 23: 'Beta.example.com' is no endpoint; write HOST:PORT"),
        ("= off", "= never", "line 16: PersistentKeepalive = 'never' is not a number"),
        ("PersistentKeepalive = off", "Endpoint = 1.2.3.4:0", "line 16: '1.2.3.4:0' is no endpoint"),
    ],
)
def test_a_line_that_wg_would_refuse_is_refused_with_its_number(old, new, said):
    assert old in HAND_MADE
    with pytest.raises(WgConfigError, match=said):
        parsed(HAND_MADE.replace(old, new, 1))


def test_a_file_that_says_it_already_is_not_touched():
    assert changed(HAND_MADE, wanted(THE_BETA, THE_GAMMA)) == HAND_MADE


def test_one_change_is_one_line():
    moved = wanted(THE_GAMMA, PeerPart(BETA, THE_BETA.allowed_ips, Endpoint("198.51.100.2", 1), 25))
    assert changed(HAND_MADE, moved) == HAND_MADE.replace("Beta.example.com:51820", "198.51.100.2:1")
    assert changed(HAND_MADE, wanted(THE_GAMMA, THE_BETA, mtu=1380)) == HAND_MADE.replace(
        "SaveConfig = true\n", "SaveConfig = true\nMTU = 1380\n"
    )
    merged = changed(HAND_MADE, wanted(PeerPart(GAMMA, (network("10.8.1.3/32"),)), THE_BETA))
    assert merged == HAND_MADE.replace("AllowedIPs = 192.168.30.7/24,\n", "")


def test_a_peer_goes_with_its_comments_and_no_other():
    text = changed(HAND_MADE, wanted(THE_BETA))
    assert text == HAND_MADE[: HAND_MADE.index("# The warehouse")] + HAND_MADE[HAND_MADE.index("[Peer]\n# Beta") :]
    text = changed(HAND_MADE, wanted(THE_GAMMA))
    assert text == HAND_MADE[: HAND_MADE.index("\n[Peer]\n# Beta")]


def test_a_peer_comes_at_the_end():
    new = PeerPart(OTHER, (network("10.8.1.4/32"),), None, None, name="delta")
    assert changed(HAND_MADE, wanted(THE_BETA, THE_GAMMA, new)) == (
        HAND_MADE + f"\n[Peer]\n# delta\nPublicKey = {OTHER}\nAllowedIPs = 10.8.1.4/32\n"
    )


def test_a_key_that_was_rotated_takes_the_place_of_the_old_one():
    rotated = wanted(THE_GAMMA, PeerPart(OTHER, THE_BETA.allowed_ips, THE_BETA.endpoint, 25, name="beta"))
    assert changed(HAND_MADE, rotated) == HAND_MADE.replace(BETA, OTHER)


def test_a_peer_that_stands_twice_is_kept_once_the_last_as_wg_has_it():
    twice = HAND_MADE + f"\n[Peer]\nPublicKey = {GAMMA}\nAllowedIPs = 10.8.1.3/32, 192.168.30.0/24\n"
    text = changed(twice, wanted(THE_BETA, THE_GAMMA))
    assert text.count(GAMMA) == 1
    assert "The warehouse" not in text
    assert set(parsed(text).peer(GAMMA).allowed_ips) == set(THE_GAMMA.allowed_ips)


def test_lines_that_cannot_be_read_are_left_out_and_a_peer_that_cannot_goes():
    broken = HAND_MADE.replace("DNS =", "Dnss =").replace(GAMMA, "nonsense")
    text = changed(broken, wanted(THE_BETA, THE_GAMMA))
    assert "Dnss" not in text
    assert "nonsense" not in text
    assert {peer.public_key for peer in parsed(text).peers} == {BETA, GAMMA}


def test_a_line_ends_where_wg_ends_it():
    text = HAND_MADE.replace("# Written by Anna, 2019", "# Written by Anna,\x0cPostUp = rm\x85\u2028[Peer]")
    assert parsed(text) == parsed(HAND_MADE)
    moved = changed(text, wanted(THE_GAMMA, THE_BETA, mtu=1380))
    assert moved.split("\n")[0] == text.split("\n")[0]


def test_a_second_interface_section_is_read_as_wg_quick_reads_it():
    text = HAND_MADE + "\n[Interface]\nMTU = 1400\n"
    assert parsed(text).interface.mtu == 1400
    assert parsed(changed(text, wanted(THE_BETA, THE_GAMMA))).interface.mtu is None


def test_what_was_rendered_says_what_was_wanted():
    whole = wanted(THE_BETA, THE_GAMMA, mtu=1380)
    text = rendered(whole, "alpha")
    assert text.startswith("# alpha\n\n[Interface]\n")
    assert text.count(KEPT) == 1
    said = parsed(text)
    assert (said.interface, set(said.peers[0].allowed_ips)) == (whole.interface, set(THE_BETA.allowed_ips))
    assert [peer.name for peer in said.peers] == ["beta", "gamma"]
    assert changed(text, whole) == text


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("a.Example:1", "a.example", 1),
        ("198.51.100.2:51820", "198.51.100.2", 51820),
        ("[2001:DB8::1]:5", "2001:db8::1", 5),
    ],
)
def test_endpoints_are_read_and_written_as_wg_does(text, host, port):
    endpoint = endpoint_from(text)
    assert endpoint == Endpoint(host, port)
    assert endpoint_from(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    "text", ["a", "a:", "a:0", "a:65536", "2001:db8::1:5", "[a]:5", "a b:5", "[::1:5", ":5", "a:5:6"]
)
def test_what_is_no_endpoint_is_none(text):
    assert endpoint_from(text) is None
