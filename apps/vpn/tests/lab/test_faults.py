"""Whoever dies in the middle, a server runs the old configuration or the new one, whole, and is never left without one."""

import functools
from dataclasses import replace
from ipaddress import ip_address

import pytest

from apps.vpn.tests.lab import applier, dying
from apps.vpn.tests.lab.conftest import made_bare
from apps.vpn.tests.lab.killing import NAMES, killed, killed_while_acting, settled
from roamlet_vpn.commands import transaction
from roamlet_vpn.host import act as host_act
from roamlet_vpn.host import handshake as host_handshake
from roamlet_vpn.host import rollback as host_rollback

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
TOKEN = "0123456789abcdef"
SHUT = "table inet shut { chain input { type filter hook input priority -10; udp dport 51820 drop; }; }"


@pytest.fixture(scope="module")
def both(plain_offices):
    """What three joined offices are, and what they will be."""
    offices = made_bare(plain_offices)
    states = []
    for network in (offices.network, applier.other(offices.network), offices.network):
        assert offices.apply(network).exit_code == 0
        states.append(offices.states())
    return states[2], states[1]


@pytest.fixture
def joined(plain_offices, both):
    """Three offices that are joined, what they are, and what they will be."""
    old, new = both
    if plain_offices.states() != old:  # a test before this one has confirmed something
        assert plain_offices.apply(plain_offices.network).exit_code == 0
        assert plain_offices.states() == old
    return plain_offices, old, new


@pytest.mark.parametrize("first", [0, 3])
def test_the_process_on_the_server_dies_after_any_of_its_actions(joined, monkeypatch, first):
    offices, old, _ = joined
    steps = {name: first + number for number, name in enumerate(NAMES)}
    real = transaction.Transaction._act

    def act(self):
        each = self._servers.each

        def dies(function, arguments, *, timeout=60.0):
            if function is not host_act.act:
                return each(function, arguments, timeout=timeout)
            longest = max(len(args[1]) for args in arguments.values())
            assert longest <= 5, "there are more actions than this test lets anybody die after"
            return each(
                dying.act_until, {name: (steps[name], *args) for name, args in arguments.items()}, timeout=timeout
            )

        self._servers.each = dies
        real(self)

    monkeypatch.setattr(transaction.Transaction, "_act", act)
    report = offices.apply(applier.other(offices.network))
    assert report.exit_code in (0, 1)
    settled(offices)
    state = offices.states()
    if first == 0:
        assert report.failure and state == old, report.lines()
    assert all(offices.reaches(one, another) for one in NAMES for another in NAMES if one != another)


@pytest.mark.parametrize(
    "step",
    ["gather after all", "changing", "confirming", "disarm before", "disarm after one", "roll_back before"],
    ids=lambda step: step.replace(" ", "-"),
)
def test_the_tool_is_killed_at_any_of_its_steps(joined, step):
    offices, old, new = joined
    killed(offices, step)
    settled(offices)
    confirmed = ["alpha"] if step == "disarm after one" else []
    assert offices.states() == {name: new[name] if name in confirmed else old[name] for name in NAMES}
    assert all(offices.reaches(one, another) for one in NAMES for another in NAMES if one != another)


@pytest.mark.parametrize("first", [0, 2])
def test_the_tool_is_killed_while_the_servers_are_between_any_two_of_their_actions(joined, first):
    offices, old, _ = joined
    killed_while_acting(offices, first)
    settled(offices)
    assert offices.states() == old
    assert all(offices.reaches(one, another) for one in NAMES for another in NAMES if one != another)


@pytest.mark.parametrize("step", ["make_key after one", "changing"], ids=lambda step: step.replace(" ", "-"))
def test_the_tool_is_killed_while_it_replaces_keys(joined, step):
    offices, old, _ = joined
    killed(offices, applier.ROTATING + step)
    settled(offices)
    waiting = {
        name: offices.server(name).shell("cd /etc/wireguard; ls *.key; rm -f *.key", check=False) for name in NAMES
    }
    expected = NAMES[:1] if step == "make_key after one" else NAMES
    assert waiting == {name: "wg0.key\n" if name in expected else "" for name in NAMES}
    assert offices.states() == old
    assert all(offices.reaches(one, another) for one in NAMES for another in NAMES if one != another)


def test_a_server_that_is_locked_out_comes_back_and_the_report_says_so(joined, tmp_path):
    offices, old, _ = joined
    config = tmp_path / "ssh_config"
    inside = "Host beta-inside\n    HostName 10.8.1.2\n    HostKeyAlias beta\n"
    config.write_text(f"Include {offices.lab.ssh_config}\n{inside}")
    alpha, beta = offices.of("alpha", "beta").sites
    beta = replace(beta, server="beta-inside", via="alpha")
    gamma = offices.network.site("gamma")
    network = replace(offices.network, sites=(alpha, beta, gamma), ssh_config=str(config))
    assert not offices.apply(network).changed
    bad = replace(network, sites=(alpha, replace(beta, address=ip_address("10.8.1.77")), gamma))
    lines = []
    report = offices.apply(bad, rollback_after=12, say=lines.append)
    assert {site.name: site.state for site in report.sites} == dict.fromkeys(NAMES, "rolled back")
    assert report.exit_code == 1 and "beta" in report.failure, report.lines()
    assert offices.states() == old
    assert not offices.apply(network).changed  # which has reached beta through the tunnel


def test_a_change_under_way_keeps_others_out(joined):
    offices, old, _ = joined
    with offices.servers() as servers:
        servers.connect(["alpha"])
        alpha = servers.contexts["alpha"]
        alpha.call(host_act.act, ("wg0", [{"do": "mtu", "mtu": 1400}], "0123456789abcdef", 60))
        report = offices.apply(applier.other(offices.network))
        assert report.exit_code == 1 and "alpha: " in report.failure and "waits to be confirmed" in report.failure
        assert alpha.call(host_rollback.roll_back, ("0123456789abcdef",))["errors"] == []
    assert offices.states() == old


@pytest.mark.parametrize(
    "broken", ["", "# nothing\n", "[Interface]\nListenPort = 51820\n", "[Interface]\nPrivateKey =\n"]
)
def test_a_configuration_without_a_key_never_reaches_a_tunnel_that_runs(joined, broken):
    offices, old, _ = joined
    alpha = offices.server("alpha")
    was = alpha.read("/etc/wireguard/wg0.conf")
    before = [offices.dump("alpha"), alpha.run(["wg", "show", "wg0", "public-key"]).stdout]
    alpha.write("/etc/wireguard/wg0.conf", broken, 0o600)
    try:
        with offices.servers() as servers:
            servers.connect(["alpha"])
            sync = functools.partial(servers.contexts["alpha"].call, host_act.act)
            ended = sync(("wg0", [{"do": "sync", "keep_endpoints": []}], "0123456789abcdef", 20))
    finally:
        alpha.write("/etc/wireguard/wg0.conf", was, 0o600)
    assert "no valid PrivateKey, and was not used" in ended["error"] and ended["outcome"]["errors"] == []
    after = [offices.dump("alpha"), alpha.run(["wg", "show", "wg0", "public-key"]).stdout]
    assert [peer[:4] for peer in after[0]] == [peer[:4] for peer in before[0]] and after[1] == before[1]
    assert offices.reaches("alpha", "beta")
    assert offices.states() == old


def test_ends_that_missed_each_other_meet_before_wireguard_tries_again(offices):
    """Their first calls are lost, and WireGuard itself calls again after five seconds: more than they are given."""
    network = offices.of("alpha", "beta")
    offices.apply(network)
    assert offices.reaches("alpha", "beta")
    (key,) = (line[0] for line in offices.dump("alpha"))
    with offices.servers(network) as servers:
        servers.connect(["alpha"])
        armed = servers.each(host_rollback.arm, {"alpha": (TOKEN, "wg0", 60.0, [])})
        assert armed["alpha"].error is None
        offices.lab.internet.cut("beta")
        for name in ("alpha", "beta"):
            offices.server(name).run(["sh", "-c", "wg-quick down wg0; wg-quick up wg0"])
        offices.lab.internet.mend("beta")
        missing = servers.each(host_handshake.shake_hands, {"alpha": ("wg0", TOKEN, {key: "10.8.1.2"}, 3.0)})
        servers.each(host_rollback.disarm, {"alpha": (TOKEN,)})
    assert missing["alpha"].get() == []


def test_a_way_that_works_is_kept_where_the_tunnel_does_not_come(offices):
    """alpha reaches beta's LAN some other way, and no UDP reaches beta or alpha: all stays as it was."""
    network = offices.of("alpha", "beta")
    for name in ("alpha", "beta"):
        offices.server(name).run(["nft", SHUT])
    before = offices.states("alpha", "beta")
    offices.server("alpha").run(["sh", "-c", "ip tuntap add dev old mode tun; ip link set old up"])
    offices.server("alpha").run(["ip", "route", "add", "192.168.20.0/24", "dev", "old", "metric", "512"])
    try:
        report = offices.apply(network)
        assert {site.state for site in report.sites} == {"rolled back"} and "do not shake hands" in report.failure
        route = offices.server("alpha").run(["ip", "route", "get", "192.168.20.9"]).stdout
        assert "dev old" in route
        assert "5182" not in offices.server("alpha").run(["ip", "rule"]).stdout
    finally:
        offices.server("alpha").run(["ip", "link", "del", "old"])
        for name in ("alpha", "beta"):
            offices.server(name).run(["nft", "delete", "table", "inet", "shut"])
    assert offices.states("alpha", "beta") == before
