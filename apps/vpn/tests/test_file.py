"""network.toml: what is read, and every mistake that is refused, each with its line and what to write instead."""

import ipaddress
import re

import pytest

from roamlet_vpn.model.file import NetworkFileError, parse, read
from roamlet_vpn.model.network import Endpoint, Network, allowed_ips

GOOD = """\
# the company
[network]
tunnel = "10.8.1.0/24"

[sites.alpha]
server = "root@alpha.example.com"
lan_address = "192.168.10.2"
lans = ["192.168.10.0/24", "fd00:10::/64"]
endpoint = "198.51.100.1:51820"

[sites.beta]
server = "admin@beta:2222"
sudo = true
via = "gate.example.com"
python = "python3.9"
address = "10.8.1.7"
lans = [
    "192.168.20.0/24",
    "192.168.21.0/24",
]
endpoint = "vpn.Beta.example.com"
listen_port = 51821
keepalive = 0
mtu = 1380
"""


def test_all_that_can_stand_in_the_file_is_read():
    network = parse(GOOD)
    alpha, beta = network.sites
    assert (network.topology, network.hub, network.backend, network.interface) == ("mesh", None, "wireguard", "wg0")
    assert network.tunnel == ipaddress.ip_network("10.8.1.0/24")
    assert alpha.lans == (ipaddress.ip_network("192.168.10.0/24"), ipaddress.ip_network("fd00:10::/64"))
    assert (alpha.address, alpha.keepalive, alpha.mtu, alpha.listen_port, alpha.sudo) == (None, 25, None, 51820, False)
    assert alpha.endpoint == Endpoint("198.51.100.1", 51820)
    assert beta.endpoint == Endpoint("vpn.beta.example.com", 51821), "without a port, that of listen_port"
    assert (beta.server, beta.sudo, beta.via, beta.python) == ("admin@beta:2222", True, "gate.example.com", "python3.9")
    assert (str(beta.address), beta.keepalive, beta.mtu) == ("10.8.1.7", None, 1380)


@pytest.mark.parametrize(
    "server", ["alpha", "x.y@a-b.c_d", "DOM\\\\eva@alpha:22", "root@[2001:db8::1]:22", "[fe80::1%eth0]", "10.0.0.1:1"]
)
def test_servers_as_ssh_takes_them(server):
    assert parse(GOOD.replace("root@alpha.example.com", server)).sites[0].server == server.replace("\\\\", "\\")


def test_the_way_may_lead_through_several_hosts():
    assert parse(GOOD.replace("gate.example.com", "a@gate:22,[2001:db8::1]")).sites[1].via == "a@gate:22,[2001:db8::1]"


def test_addresses_that_are_not_in_the_file_are_given_out_in_order_and_the_others_stay():
    assert [str(site.address) for site in parse(GOOD).with_addresses().sites] == ["10.8.1.1", "10.8.1.7"]
    more = GOOD + '[sites.gamma]\nserver = "g"\n[sites.delta]\nserver = "d"\naddress = "10.8.1.2"\nendpoint = "d"\n'
    more = more.replace('server = "g"', 'server = "g"\nendpoint = "g"')
    assert [str(site.address) for site in parse(more).with_addresses().sites] == [
        "10.8.1.1", "10.8.1.7", "10.8.1.3", "10.8.1.2"
    ]  # fmt: skip


def test_in_a_hub_the_spokes_send_everything_to_the_hub():
    text = GOOD.replace('tunnel = "10.8.1.0/24"', 'topology = "hub"\nhub = "beta"')
    text += '[sites.gamma]\nserver = "g"\naddress = "10.8.1.9"\nlans = ["10.30.0.0/16"]\n'
    network = parse(text)
    alpha, beta, gamma = network.sites
    assert network.peers_of(alpha) == (beta,)
    assert network.peers_of(beta) == (alpha, gamma)
    assert list(map(str, allowed_ips(network, beta, gamma))) == ["10.8.1.9/32", "10.30.0.0/16"]
    assert list(map(str, allowed_ips(network, alpha, beta))) == [
        "10.8.1.0/24", "192.168.20.0/24", "192.168.21.0/24", "10.30.0.0/16"
    ]  # fmt: skip


MISTAKES = [
    # what is replaced, by what, the line, and what is said
    ("[network]", "[netwrok]", 2, "the file has a table 'netwrok', which means nothing here; did you mean network?"),
    ("tunnel =", "tunel =", 3, r"\[network\] has a key 'tunel', which means nothing here; did you mean tunnel\?"),
    ("lans = [\n", "lan = [\n", 17, r"\[sites.beta\] has a key 'lan', .*; did you mean lans\?"),
    ("listen_port", "port", 22, "a key 'port', .*; did you mean listen_port?"),
    ("keepalive", "wibble", 23, "a key 'wibble', which means nothing here. There are: server, sudo, via, "),
    ("10.8.1.0/24", "10.8.1.1/24", 3, "there are bits set after the /24; the network is 10.8.1.0/24"),
    ("10.8.1.0/24", "10.8.1.0/31", 3, "there is no room for two sites in it"),
    ("10.8.1.0/24", "10.8.1.0/240", 3, "give a network such as 192.168.10.0/24"),
    ('"10.8.1.0/24"', "10", 3, r"tunnel = 10: give a text in quotes"),
    ('tunnel = "10.8.1.0/24"', 'topology = "mehs"', 3, 'topology = "mehs": did you mean mesh?'),
    ('tunnel = "10.8.1.0/24"', 'topology = "ring"', 3, 'topology = "ring": give one of mesh, hub'),
    ('tunnel = "10.8.1.0/24"', 'topology = "hub"', 3, 'needs to know which site that is: hub = "alpha"'),
    ('tunnel = "10.8.1.0/24"', 'hub = "beta"', 3, 'means something with topology = "hub" alone'),
    ('tunnel = "10.8.1.0/24"', 'topology = "hub"\nhub = "gamma"', 4, "is not one of the sites: alpha, beta"),
    ('tunnel = "10.8.1.0/24"', 'backend = "openvpn"', 3, "give one of wireguard, ssh"),
    ('tunnel = "10.8.1.0/24"', 'interface = "../etc"', 3, "give a name of at most 15 letters"),
    ('tunnel = "10.8.1.0/24"', 'interface = "a-name-that-is-long"', 3, "give a name of at most 15 letters"),
    ("[sites.alpha]", '[sites."al pha"]', 5, "'al pha' is no name of a site: letters, digits"),
    ("[sites.alpha]", "[sites]\nalpha = 3\n[sites.gamma]", 6, "sites.alpha is 3, and should be a table"),
    ('server = "root@alpha.example.com"\n', "", 5, r"\[sites.alpha\] has no server. Write how ssh reaches it"),
    ("root@alpha.example.com", "-oProxyCommand=x", 6, "give HOST, USER@HOST or USER@HOST:PORT"),
    ("root@alpha.example.com", "a;touch${IFS}b", 6, "give HOST, USER@HOST or USER@HOST:PORT"),
    ("root@alpha.example.com", "$(id)@alpha", 6, "give HOST, USER@HOST or USER@HOST:PORT"),
    ("gate.example.com", "one.example.com,x`id`", 14, "give HOST, USER@HOST or USER@HOST:PORT"),
    ("gate.example.com", "$HOME@gate.example.com", 14, r"a name on the way holds no \$"),
    ("198.51.100.1:51820", "vpn.example.com#:51820", 9, "give HOST:PORT"),
    ("198.51.100.1:51820", "0.0.0.0:51820", 9, "no site can reach a server at 0.0.0.0"),
    ("198.51.100.1:51820", "[::1]:51820", 9, "no site can reach a server at ::1"),
    ("10.8.1.0/24", "0.0.0.0/0", 3, "that is the whole internet"),
    ("10.8.1.0/24", "127.0.0.0/24", 3, "no router passes this range on"),
    ('tunnel = "10.8.1.0/24"', 'interface = "-rf"', 3, "give a name of at most 15 letters"),
    ('tunnel = "10.8.1.0/24"', 'interface = "all"', 3, "give a name of at most 15 letters"),
    ("root@alpha.example.com", "alpha -v", 6, "options go into ~/.ssh/config"),
    ("admin@beta:2222", "admin@beta:222222", 12, "give HOST, USER@HOST"),
    ("admin@beta:2222", "admin@beta:70000", 12, "there is no port 70000; ports are 1 to 65535"),
    (
        'admin@beta:2222"\nsudo = true\nvia = "gate.example.com"',
        'root@alpha.example.com"',
        12,
        "beta has the server of alpha",
    ),
    ("sudo = true", 'sudo = "yes"', 13, 'sudo = "yes": give true or false, without quotes'),
    ("10.8.1.7", "10.9.1.7", 16, "address 10.9.1.7 is not in the tunnel range 10.8.1.0/24; without the line"),
    ("10.8.1.7", "10.8.1.255", 16, "the first or last of 10.8.1.0/24, which no machine may have"),
    ("10.8.1.7", "10.8.1.7/16", 16, "the tunnel is 10.8.1.0/24; write 10.8.1.7 alone"),
    ("10.8.1.7", "ten", 16, "give an address of the tunnel, such as 10.8.1.1, or leave the line out"),
    ('lan_address = "192.168.10.2"', 'address = "10.8.1.7"', 16, "is that of alpha too; without the line beta gets"),
    ("192.168.10.2", "192.168.11.2", 7, r"is in none of its lans \(192.168.10.0/24, fd00:10::/64\)"),
    ("192.168.10.2", "192.168.10.0", 7, "the first or last of 192.168.10.0/24"),
    ("192.168.10.2", "192.168.10.2/24", 7, "give an address of the LAN, .*; without /24"),
    ('lan_address = "192.168.10.2"', 'gateway = "10.0.0.1"', 7, "gateway 10.0.0.1 is in none of its lans"),
    ('"192.168.20.0/24"', '"192.168.20.1/24"', 18, "bits set after the /24; the network is 192.168.20.0/24"),
    ('"192.168.21.0/24"', '"192.168.10.128/25"', 17, "overlaps 192.168.10.0/24 of alpha: an address could be"),
    ('"192.168.21.0/24"', '"192.168.20.0/25"', 17, "the LANs 192.168.20.0/24 and 192.168.20.0/25 of beta overlap"),
    ('"192.168.21.0/24"', '"fd00:10::/48"', 17, "overlaps fd00:10::/64 of alpha"),
    ('"192.168.21.0/24"', '"10.8.0.0/16"', 17, "overlaps the tunnel range 10.8.1.0/24. .* such as 10.9.0.0/24"),
    ('"192.168.21.0/24"', '"0.0.0.0/0"', 19, "that is the whole internet"),
    ('"192.168.21.0/24"', '"127.0.0.0/8"', 19, "no router passes this range on"),
    ('"192.168.21.0/24"', '"fe80::/64"', 19, "no router passes this range on"),
    ('["192.168.10.0/24", "fd00:10::/64"]', '"192.168.10.0/24"', 8, r'give a list, also of one: \["192'),
    ('lan_address = "192.168.10.2"', 'other_peers = "x"', 7, "give a list, also of one"),
    ('lan_address = "192.168.10.2"', 'other_peers = ["x"]', 7, '"x": give public keys, 44 characters that end in ='),
    ("198.51.100.1:51820", "198.51.100.1:0", 9, "there is no port 0; ports are 1 to 65535"),
    ("198.51.100.1:51820", "198.51.100.1:99999", 9, "there is no port 99999"),
    ("198.51.100.1:51820", "198.51.100:51820", 9, "198.51.100 is no address; each of its four numbers"),
    ("198.51.100.1:51820", "2001:db8::1:51820", 9, r"give HOST:PORT, .* or \[2001:db8::1\]:51820"),
    ("198.51.100.1:51820", "192.168.20.9:51820", 9, "lies in the LAN 192.168.20.0/24 of beta: .* sent into itself"),
    ("198.51.100.1:51820", "10.8.1.1:51820", 9, "lies in the tunnel range 10.8.1.0/24"),
    ("198.51.100.1:51820", "vpn.beta.example.com:51821", 21, "is that of alpha too. Behind one gateway"),
    ("listen_port = 51821", "listen_port = 70000", 22, "give a UDP port, a number from 0 to 65535"),
    ("listen_port = 51821", "listen_port = 0", 21, "with listen_port = 0 the port is not known; give HOST:PORT"),
    ("keepalive = 0", 'keepalive = "25"', 23, 'keepalive = "25": give seconds .* without quotes'),
    ("mtu = 1380", "mtu = 100", 24, "mtu = 100: give bytes, a number from 576 to 9000"),
    ("mtu = 1380", "mtu = 1200", 24, "IPv6 needs 1280 at least"),
    ("mtu = 1380", "mtu = true", 24, "mtu = true: give bytes"),
    ('server = "root@', "server = root@", 6, "this is not TOML: Invalid value. Put text in quotes"),
    ("[sites.beta]", "[sites.alpha]", 11, "this is not TOML: Cannot declare"),
]


@pytest.mark.parametrize(("good", "bad", "line", "said"), MISTAKES)
def test_a_mistake_is_refused_with_its_line_and_what_to_write(good, bad, line, said):
    assert GOOD.count(good) == 1 or good == "10.8.1.0/24"
    with pytest.raises(NetworkFileError, match=said) as caught:
        parse(GOOD.replace(good, bad))
    assert caught.value.problems[0].line == line
    assert len(caught.value.problems) == 1
    assert str(caught.value).startswith(f"network.toml, line {line}: ")


def test_two_sites_that_cannot_call_each_other_are_refused():
    text = GOOD.replace('endpoint = "198.51.100.1:51820"\n', "")
    assert parse(text).sites[0].endpoint is None, "one of two may be behind a gateway that forwards nothing"
    with pytest.raises(NetworkFileError, match="neither alpha nor beta has an endpoint, so neither can call the other"):
        parse(text.replace('endpoint = "vpn.Beta.example.com"\n', ""))


def test_a_port_that_nobody_knows_is_refused():
    text = GOOD.replace('endpoint = "vpn.Beta.example.com"', 'endpoint = "b.example.com:51821"')
    with pytest.raises(NetworkFileError, match=r"listen_port = 0 \(any\): b.example.com:51821 would lead nowhere"):
        parse(text.replace("listen_port = 51821", "listen_port = 0"))


def test_a_file_without_sites_and_a_tunnel_that_is_too_small_are_refused():
    with pytest.raises(NetworkFileError, match=r"there are no sites. Each office has a table: \[sites.alpha\]"):
        parse("[network]\n")
    small = '[network]\ntunnel = "10.8.1.0/30"\n'
    sites = "".join(f'[sites.s{n}]\nserver = "s{n}"\nendpoint = "s{n}:1"\n' for n in range(3))
    with pytest.raises(NetworkFileError, match="has 2 addresses, and there are 3 sites"):
        parse(small + sites)


def test_every_mistake_is_said_at_once_in_the_order_of_the_lines():
    text = (
        GOOD.replace("tunnel =", "tunel =")
        .replace("mtu = 1380", "mtu = 1")
        .replace("192.168.21.0/24", "192.168.10.0/24")
    )
    with pytest.raises(NetworkFileError) as caught:
        parse(text, "office.toml")
    assert [problem.line for problem in caught.value.problems] == [3, 24]
    assert str(caught.value).splitlines()[0] == "office.toml has 2 mistakes:", "ranges wait for the tunnel to be known"
    text = text.replace("tunel", "tunnel")
    with pytest.raises(NetworkFileError) as caught:
        parse(text)
    assert [problem.line for problem in caught.value.problems] == [17, 24]


def test_a_file_that_is_not_there_or_no_text_is_refused_by_its_name(tmp_path):
    with pytest.raises(NetworkFileError, match="network.toml: there is no such file. `roamlet vpn init` makes one"):
        read(tmp_path / "network.toml")
    (tmp_path / "latin").write_bytes(b"# B\xfcro\n")
    with pytest.raises(NetworkFileError, match="latin: the file cannot be read: .*utf-8"):
        read(tmp_path / "latin")


def test_the_ssh_configuration_counts_from_the_folder_of_the_file(tmp_path):
    (tmp_path / "network.toml").write_text(GOOD.replace("[network]", '[network]\nssh_config = "lab/ssh"'))
    assert read(tmp_path / "network.toml").ssh_config == str(tmp_path / "lab/ssh")


def test_a_key_inside_a_text_of_several_lines_is_not_taken_for_the_key():
    text = GOOD.replace("mtu = 1380", 'mtu = 1\n"python" = 3').replace('python = "python3.9"\n', "")
    with pytest.raises(NetworkFileError) as caught:
        parse(text)
    assert [problem.line for problem in caught.value.problems] == [23, 24]


def test_a_network_and_its_parts_cannot_be_changed():
    with pytest.raises(AttributeError):
        Network().hub = "alpha"  # type: ignore[misc]


def test_all_ranges_of_one_list_that_are_wrong_are_told_at_once():
    text = GOOD.replace('"192.168.21.0/24",', '"192.168.21.1/24",\n    "0.0.0.0/0",')
    text = text.replace('["192.168.10.0/24", "fd00:10::/64"]', '["192.168.10.7/24", "fd00:10::1/64", "127.0.0.0/8"]')
    with pytest.raises(NetworkFileError) as caught:
        parse(text)
    told = [(problem.line, problem.message.partition('"')[2].partition('"')[0]) for problem in caught.value.problems]
    assert told == [
        (8, "192.168.10.7/24"),
        (8, "fd00:10::1/64"),
        (8, "127.0.0.0/8"),
        (19, "192.168.21.1/24"),
        (20, "0.0.0.0/0"),
    ]


def test_a_mark_at_the_start_of_the_file_is_no_mistake(tmp_path):
    path = tmp_path / "network.toml"
    path.write_text("\ufeff" + GOOD, "utf-8")
    assert read(path).sites == parse(GOOD).sites


def two_ranges():
    return GOOD.replace('tunnel = "10.8.1.0/24"', 'tunnel = ["10.8.1.0/24", "fd08:1::/64"]')


def test_a_tunnel_has_one_range_of_each_family_and_each_site_an_address_of_both():
    network = parse(two_ranges()).with_addresses()
    alpha, beta = network.sites
    assert [(str(site.address), str(site.second)) for site in network.sites] == [
        ("10.8.1.1", "fd08:1::1"),
        ("10.8.1.7", "fd08:1::2"),
    ]
    assert list(map(str, network.interface_addresses(alpha))) == ["10.8.1.1/24", "fd08:1::1/64"]
    assert list(map(str, allowed_ips(network, alpha, beta)))[:2] == ["10.8.1.7/32", "fd08:1::2/128"]
    given = parse(two_ranges().replace('address = "10.8.1.7"', 'address = ["fd08:1::9/128", "10.8.1.7"]')).sites[1]
    assert (str(given.address), str(given.second), given.second_prefix) == ("10.8.1.7", "fd08:1::9", 128)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"fd08:1::/64"', '"10.9.0.0/24"', "of a list of ranges one is of IPv4 and the other of IPv6"),
        ('"10.8.1.0/24", "fd08:1::/64"', "", "of a list of ranges one is of IPv4 and the other of IPv6"),
        ('address = "10.8.1.7"', 'address = ["10.8.1.7", "fd09::1"]', "fd09::1 is not in the tunnel range fd08:1::/64"),
        ('"fd08:1::/64"', '"fd00:10::/60"', "overlaps the tunnel range fd00:10::/60"),
        ("[network]", '[network]\nbackend = "ssh"', "has one address for each end of a tunnel"),
    ],
)
def test_what_does_not_fit_two_ranges_is_refused(old, new, said):
    with pytest.raises(NetworkFileError, match=re.escape(said)):
        parse(two_ranges().replace(old, new))


def test_two_addresses_where_the_tunnel_has_one_range_are_refused():
    with pytest.raises(NetworkFileError, match=r"the tunnel has one range, 10.8.1.0/24"):
        parse(GOOD.replace('address = "10.8.1.7"', 'address = ["10.8.1.7", "fd08::7"]'))
