"""Networks made by hand are taken over into a file whose plan changes nothing; what cannot be taken over is refused or said."""

import pytest

from apps.vpn.tests.servers import OFFICES, Offices, key
from roamlet_vpn.backends import make_plan
from roamlet_vpn.check.status import status
from roamlet_vpn.commands import lifecycle
from roamlet_vpn.commands.apply import NotApplied
from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.facts import KEPT, Facts
from roamlet_vpn.model.file import parse
from roamlet_vpn.model.network import Site
from roamlet_vpn.wireguard.adopt import adopted


def by_hand(name, lan, number, peers, more=""):
    text = f"[Interface]\nAddress = 10.8.1.{number}/24\nListenPort = 51820\nPrivateKey = {KEPT}\n{more}"
    for other, allowed, endpoint in peers:
        text += f"\n[Peer]\n# {other}\nPublicKey = {key((other, 1))}\nAllowedIPs = {allowed}\n"
        text += f"Endpoint = {endpoint}\nPersistentKeepalive = 25\n" if endpoint else "PersistentKeepalive = 25\n"
    return text


def started(offices, texts):
    """Servers on which somebody has written these configurations, and everything beside them that belongs to them."""
    for name, text in texts.items():
        server = offices[name]
        server.set_config(text, key((name, 1)))
        server.do_up()
        server.do_enable_unit("")
        server.do_forwarding(4, True, True, [])
        server.do_forwarding(6, True, True, [])
    return {name: (Site(name, f"root@{name}"), offices[name].facts) for name in texts}


ALPHA_TO_BETA = ("beta", "10.8.1.2/32, 192.168.20.0/24", "198.51.100.2:51820")
BETA_TO_ALPHA = ("alpha", "192.168.10.0/24, 10.8.1.1/32", "vpn.example.com:4711")


def pair(**changes):
    texts = {
        "alpha": by_hand("alpha", 10, 1, [ALPHA_TO_BETA], "PostUp = logger up\nSaveConfig = true\n"),
        "beta": by_hand("beta", 20, 2, [BETA_TO_ALPHA]),
    }
    return {name: changes.get(name, lambda text: text)(text) for name, text in texts.items()}


def plan_of(text, found):
    return make_plan(parse(text), {name: facts for name, (_, facts) in found.items()})


def test_a_pair_made_by_hand_becomes_a_file_whose_plan_is_empty():
    found = started(Offices(), pair())
    text, remarks = adopted(found, "wg0", {"ssh_config": "/etc/ssh/other"})
    assert parse(text).ssh_config == "/etc/ssh/other"
    assert plan_of(text, found).empty
    assert remarks[0].startswith("alpha: SaveConfig = true: wg-quick overwrites the configuration")
    assert remarks[-1] == "Nothing would change: the plan of this file is empty."
    alpha, beta = parse(text).sites
    assert (str(alpha.address), str(alpha.endpoint), str(alpha.lan_address)) == (
        "10.8.1.1", "vpn.example.com:4711", "192.168.10.2"
    )  # fmt: skip
    assert (str(beta.lans[0]), str(beta.gateway), beta.keepalive, beta.mtu) == (
        "192.168.20.0/24",
        "192.168.20.1",
        25,
        None,
    )
    assert "hub" not in text


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("Address = 10.8.1.1/24", "Address = 10.8.1.1/32"),
        lambda text: text.replace("PersistentKeepalive = 25\n", ""),
        lambda text: text.replace("ListenPort = 51820", "ListenPort = 9999"),
        lambda text: text.replace("PostUp", "MTU = 1340\nPostUp"),
        lambda text: text.replace("AllowedIPs = 10.8.1.2/32, 192", "AllowedIPs = 10.8.1.2/32\nAllowedIPs = 192"),
        lambda text: text.replace("# beta\n", f"# beta\nPresharedKey = {KEPT}\n"),
    ],
)
def test_what_a_file_can_say_is_taken_over(change):
    found = started(Offices(), pair(alpha=change))
    text, _ = adopted(found, "wg0")
    assert plan_of(text, found).empty


def test_one_behind_a_gateway_that_forwards_nothing_has_no_endpoint():
    found = started(Offices(), pair(alpha=lambda text: text.replace("Endpoint = 198.51.100.2:51820\n", "")))
    text, _ = adopted(found, "wg0")
    assert parse(text).sites[1].endpoint is None
    assert plan_of(text, found).empty


def test_one_that_never_had_a_port_keeps_none():
    without = {
        "alpha": lambda text: text.replace("Endpoint = 198.51.100.2:51820\n", ""),
        "beta": lambda text: text.replace("ListenPort = 51820\n", ""),
    }
    found = started(Offices(), pair(**without))
    text, _ = adopted(found, "wg0")
    assert parse(text).sites[1].listen_port == 0
    assert plan_of(text, found).empty


@pytest.mark.parametrize("hub", [None, "alpha", "beta", "gamma"])
def test_the_shape_of_a_network_is_found(hub):
    shape = OFFICES if hub is None else OFFICES.replace("[network]", f'[network]\ntopology = "hub"\nhub = "{hub}"')
    offices = Offices(shape)
    offices.apply()
    found = {name: (Site(name, f"root@{name}"), server.facts) for name, server in offices.servers.items()}
    text, _ = adopted(found, "wg0")
    network = parse(text)
    assert (network.topology, network.hub) == (("mesh", None) if hub is None else ("hub", hub))
    assert plan_of(text, found).empty
    assert [site.lans for site in network.sites] == [site.lans for site in offices.network.sites]


def test_a_lan_that_nobody_sends_anything_to_is_none_of_the_network():
    found = started(Offices(), pair(beta=lambda text: text.replace("192.168.10.0/24, ", "")))
    text, _ = adopted(found, "wg0")
    assert parse(text).sites[0].lans == ()
    assert plan_of(text, found).empty


def test_what_apply_would_mend_is_listed():
    offices = Offices()
    found = started(offices, pair())
    offices["beta"].plain["forwarding"]["ipv4"]["live"] = False
    offices["beta"].do_routes([], ["192.168.10.0/24"])
    found["beta"] = (found["beta"][0], offices["beta"].facts)
    _, remarks = adopted(found, "wg0")
    assert remarks[-3:] == [
        "The configurations do not agree with each other, or with what runs. `roamlet vpn apply` would mend:",
        "    beta: forwarding of IPv4 is off",
        "    beta: there is no route through wg0 to 192.168.10.0/24",
    ]


def test_peers_that_nobody_named_are_refused_because_they_would_be_lost():
    more = ("home", "10.8.1.50/32, 192.168.99.0/24", None)
    texts = pair(alpha=lambda _: by_hand("alpha", 10, 1, [ALPHA_TO_BETA, more]))
    found = started(Offices(), texts)
    with pytest.raises(
        VpnError, match=r"would be lost:\n    alpha: home .*= \(10.8.1.50/32, 192.*\)\nName their servers too"
    ):
        adopted(found, "wg0")


def home_workers():
    """A pair with two home workers at alpha, one of whom beta sends to as well; and the text of its file."""
    eva, otto = ("eva", "10.8.1.50/32", None), ("otto", "10.9.0.7/32", None)
    offices = Offices()
    texts = pair(
        alpha=lambda _: by_hand("alpha", 10, 1, [ALPHA_TO_BETA, eva, otto]).replace(
            "# eva\n", f"# eva\nPresharedKey = {KEPT}\n"
        ),
        beta=lambda text: text.replace("10.8.1.1/32", "10.8.1.1/32, 10.8.1.50/32"),
    )
    found = started(offices, texts)
    return offices, found, *adopted(found, "wg0")


def test_home_workers_stay_as_they_are():
    offices, found, text, remarks = home_workers()
    assert parse(text).sites[0].other_peers == (key(("eva", 1)), key(("otto", 1)))
    assert remarks[0] == f"alpha: eva {key(('eva', 1))} (10.8.1.50/32) is no site, and stays as it is (other_peers)"
    assert plan_of(text, found).empty
    text = text.replace("192.168.10.0/24", "192.168.10.0/25")
    before = offices["alpha"].plain["config"]["text"]
    plan = plan_of(text, found)
    assert plan.sites["alpha"] == () and not plan.refusals
    (config,) = [action for action in plan.sites["beta"] if hasattr(action, "text")]
    assert "AllowedIPs = 10.8.1.1/32, 192.168.10.0/25, 10.8.1.50/32" in config.text
    with_gamma = text + '\n[sites.gamma]\nserver = "g"\naddress = "10.8.1.3"\nendpoint = "g:1"\n'
    (config,) = [action for action in plan_of(with_gamma, found).sites["alpha"] if hasattr(action, "text")]
    assert before[before.index("# eva") :].strip() in config.text


def test_an_address_of_a_home_worker_is_given_to_no_site():
    _, found, text, _ = home_workers()
    with_gamma = text + '\n[sites.gamma]\nserver = "g"\naddress = "10.8.1.50"\nendpoint = "g:1"\n'
    gamma = Offices()["gamma"]
    plan = plan_of(with_gamma, {**found, "gamma": (None, gamma.facts)})
    assert [one.site for one in plan.refusals] == ["alpha"]
    assert "10.8.1.50/32 is that of gamma, and of eva, which is to stay" in plan.refusals[0].message


def test_a_peer_that_is_to_stay_and_stands_in_no_file_is_refused():
    offices, _, text, _ = home_workers()
    server = offices["alpha"]
    server.edit(f"PublicKey = {key(('otto', 1))}", f"PublicKey = {key(('anna', 1))}")
    plan = plan_of(text, {name: (None, offices[name].facts) for name in ("alpha", "beta")})
    assert "only runs: `wg-quick save wg0` writes it there" in plan.refusals[0].message


@pytest.mark.parametrize(
    "end", [lambda network: lifecycle.down(network, None), lambda network: lifecycle.remove(network, None, "alpha")]
)
def test_home_workers_do_not_lose_their_tunnel_with_the_network(end):
    _, _, text, _ = home_workers()
    with pytest.raises(NotApplied, match=r"peers that are no sites would lose their tunnel too: alpha \(2\)"):
        end(parse(text))


def test_a_home_workers_machine_that_is_off_is_no_fault():
    _, found, text, _ = home_workers()
    network, facts = parse(text), {name: one for name, (_, one) in found.items()}
    states = {peer.public_key: peer.state for peer in status(network, facts, {})[0].peers}
    assert states == {key(("beta", 1)): "down", key(("eva", 1)): "idle", key(("otto", 1)): "idle"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda plain: plain.update(config=None),
            "alpha: there is no /etc/wireguard/wg0.conf on root@alpha; --interface names",
        ),
        (lambda plain: plain.update(is_root=False), "reached as a user who may not read /etc/wireguard/wg0.conf"),
        (
            lambda plain: plain["config"].update(text="x\n"),
            "alpha: /etc/wireguard/wg0.conf cannot be read: line 1: 'x' is",
        ),
        (
            lambda plain: plain["config"].update(text="[Interface]\n"),
            "has no Address, so its address in the tunnel is not known",
        ),
    ],
)
def test_what_cannot_be_adopted_is_refused(change, said):
    offices = Offices()
    found = started(offices, pair())
    change(offices["alpha"].plain)
    found["alpha"] = (found["alpha"][0], Facts.from_plain(offices["alpha"].plain, "alpha"))
    with pytest.raises(VpnError, match=said):
        adopted(found, "wg0")


def test_addresses_without_a_network_get_the_smallest_that_has_them():
    single = {name: lambda text: text.replace("/24\nListen", "/32\nListen") for name in ("alpha", "beta")}
    found = started(Offices(), pair(**single))
    text, _ = adopted(found, "wg0")
    assert str(parse(text).tunnel) == "10.8.1.0/24"
    assert plan_of(text, found).empty


def two_families(**changes):
    """Addresses of IPv4 and of IPv6 in the tunnel, each sent by its /32 and /128."""
    texts = pair(**changes)
    for name, number, far in (("alpha", 1, 2), ("beta", 2, 1)):
        text = texts[name].replace(
            f"Address = 10.8.1.{number}/24", f"Address = 10.8.1.{number}/24, fd08:1::{number}/64"
        )
        texts[name] = text.replace(f"10.8.1.{far}/32", f"10.8.1.{far}/32, fd08:1::{far}/128")
    return texts


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace(
            "Address = 10.8.1.1/24, fd08:1::1/64", "Address = fd08:1::1/64\nAddress = 10.8.1.1/24"
        ),
        lambda text: text.replace("fd08:1::1/64", "fd08:1::1/128"),
    ],
)
def test_an_address_of_ipv6_in_the_tunnel_is_kept(change):
    texts = two_families()
    found = started(Offices(), {**texts, "alpha": change(texts["alpha"])})
    text, remarks = adopted(found, "wg0")
    assert plan_of(text, found).empty, remarks
    network = parse(text)
    assert {str(lan) for lan in network.tunnels} == {"10.8.1.0/24", "fd08:1::/64"}
    alpha = network.sites[0]
    assert {str(alpha.address), str(alpha.second)} == {"10.8.1.1", "fd08:1::1"}
    assert [str(lan) for lan in alpha.lans] == ["192.168.10.0/24"]
