"""Offices joined from nothing, again, with a further one and without it: what runs goes on, and no key leaves its server."""

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from roamlet_vpn.commands import lifecycle
from roamlet_vpn.commands.apply import NotApplied, apply, take_survey

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def test_two_offices_are_joined_and_applying_again_changes_nothing(offices):
    network = offices.of("alpha", "beta")
    report = offices.apply(network)
    assert report.exit_code == 0, report.lines()
    assert [site.state for site in report.sites] == ["changed", "changed"]
    assert offices.reaches("alpha", "beta") and offices.reaches("beta", "alpha")
    assert offices.sends("alpha", "beta") == 200_000
    before = {
        name: (offices.state(name), mtimes(offices, name), handshakes(offices, name)) for name in ("alpha", "beta")
    }
    again = offices.apply(network)
    assert again.exit_code == 0 and not again.changed, again.lines()
    assert before == {
        name: (offices.state(name), mtimes(offices, name), handshakes(offices, name)) for name in ("alpha", "beta")
    }


def mtimes(offices, name):
    return offices.server(name).shell(
        "stat -c '%n %Y %Z' /etc/wireguard /etc/wireguard/* /etc/sysctl.d/99-roamlet-vpn.conf"
    )


def handshakes(offices, name):
    return [peer[4] for peer in offices.dump(name)]


def test_what_a_careful_person_would_have_set_is_set(offices):
    offices.apply(offices.network)
    alpha = offices.server("alpha")
    routes = alpha.run(["ip", "route", "show", "dev", "wg0"]).stdout
    assert [line.strip() for line in routes.splitlines()] == [
        "10.8.1.0/24 proto kernel scope link src 10.8.1.1",
        "192.168.20.0/24 scope link",
        "192.168.30.0/24 scope link",
    ]
    assert "mtu 1420" in alpha.run(["ip", "link", "show", "dev", "wg0"]).stdout
    assert alpha.read("/proc/sys/net/ipv4/ip_forward") == "1\n"
    # What runs is what would run after a restart.
    running = alpha.run(["wg", "showconf", "wg0"]).stdout
    alpha.shell("wg-quick down wg0; wg-quick up wg0")
    assert sorted(alpha.run(["wg", "showconf", "wg0"]).stdout.split("\n")) == sorted(running.split("\n"))
    assert alpha.run(["ip", "route", "show", "dev", "wg0"]).stdout == routes


def test_no_private_key_leaves_its_server(offices, tmp_path, capfd, monkeypatch, caplog):
    caplog.set_level(0)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    seen: set[bytes] = set()
    over = threading.Event()
    watching = threading.Thread(target=watch_processes, args=(seen, over))
    watching.start()
    said: list[str] = []
    try:
        with offices.servers() as servers:
            report = apply(offices.network, servers, say=said.append, rollback_after=120)
            survey = servers.facts()
    finally:
        over.set()
        watching.join()
    assert report.exit_code == 0, report.lines()
    # It has looked while things were done, on this machine and on the servers.
    assert any(words.startswith(b"ssh\0") for words in seen)
    assert any(b"/run/roamlet-vpn/" in words for words in seen)
    keys = [
        offices.server(name).shell("sed -n 's/^PrivateKey = //p' /etc/wireguard/wg0.conf").strip()
        for name in ("alpha", "beta", "gamma")
    ]
    assert len(set(keys)) == 3 and all(len(key) == 44 for key in keys)
    captured = capfd.readouterr()
    told = "\n".join([*said, *report.lines(), repr(survey), caplog.text, captured.out, captured.err])
    for folder, _, names in os.walk(tmp_path):
        told += "".join(Path(folder, name).read_text(errors="replace") for name in names)
    for key in keys:
        assert key not in told
        assert not any(key.encode() in words for words in seen)
    for name in ("alpha", "beta", "gamma"):
        modes = offices.server(name).shell("umask; stat -c '%a %U %n' /etc/wireguard /etc/wireguard/*").splitlines()
        assert modes == ["0022", "700 root /etc/wireguard", "600 root /etc/wireguard/wg0.conf"]


def watch_processes(seen, over):
    """Collect the words and the environment of every process of this machine, those in the lab among them."""
    while not over.wait(0.005):
        for number in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                try:
                    seen.add(Path("/proc", number, name).read_bytes())
                except OSError:
                    continue


def test_a_third_office_joins_and_leaves_while_the_others_go_on_talking(offices):
    two = offices.of("alpha", "beta")
    assert offices.apply(two).exit_code == 0
    assert offices.reaches("alpha", "beta")
    with offices.client("alpha").pings(offices.client("beta").address, every=0.1) as pings:
        joined = offices.apply(offices.network)
        assert joined.exit_code == 0, joined.lines()
        assert offices.reaches("gamma", "alpha") and offices.reaches("beta", "gamma")
    assert pings.lost == 0 and len(pings.answered) > 10
    for name in ("alpha", "beta"):
        server = offices.server(name)
        assert "192.168.30.0/24" in server.run(["ip", "route", "show", "dev", "wg0"]).stdout
        assert "192.168.30.0/24" in server.read("/etc/wireguard/wg0.conf")
    with (
        offices.client("alpha").pings(offices.client("beta").address, every=0.1) as pings,
        offices.servers() as servers,
    ):
        left = lifecycle.remove(offices.network, servers, "gamma", rollback_after=120)
        assert left.exit_code == 0, left.lines()
    assert pings.lost == 0 and len(pings.answered) > 10
    for name in ("alpha", "beta"):
        server = offices.server(name)
        assert len(offices.dump(name)) == 1
        assert "192.168.30.0/24" not in server.run(["ip", "route"]).stdout + server.read("/etc/wireguard/wg0.conf")
    gamma = offices.server("gamma")
    assert "wg0" not in gamma.run(["ip", "link"]).stdout
    assert gamma.shell("ls /etc/wireguard").split() == ["wg0.conf.removed"]
    assert offices.apply(two).changed is False


def test_an_office_that_is_down_is_refused_or_left_out_with_a_true_report(offices):
    assert offices.apply(offices.network).exit_code == 0
    before = offices.states()
    gamma = offices.server("gamma")
    gamma.shell("kill $(cat /run/sshd.pid)")
    try:
        sites = tuple(replace(site, mtu=1380) for site in offices.network.sites)
        changed = replace(offices.network, sites=sites)
        with pytest.raises(NotApplied, match=r"not every server can be reached:\n    gamma: .*\n.*--partial"):
            offices.apply(changed)
        assert offices.states() == before
        report = offices.apply(changed, partial=True)
        assert {site.name: site.state for site in report.sites} == {
            "alpha": "changed",
            "beta": "changed",
            "gamma": "out of reach",
        }
        assert report.exit_code == 3 and report.failure is None
        assert offices.state("gamma") == before["gamma"]
        assert len(offices.dump("alpha")) == 2  # the tunnel to the one that is away stays
        assert offices.reaches("alpha", "gamma") and offices.reaches("alpha", "beta")
    finally:
        gamma.run(["/usr/sbin/sshd"])


def test_a_new_key_for_one_site_touches_its_own_peers_only(offices, told):
    assert offices.apply(offices.network).exit_code == 0
    assert offices.reaches("alpha", "beta") and offices.reaches("alpha", "gamma")
    old = {peer[0] for peer in offices.dump("alpha")}
    with offices.client("alpha").pings(offices.client("beta").address, every=0.1) as others:
        with (
            offices.client("alpha").pings(offices.client("gamma").address, every=0.1) as own,
            offices.servers() as servers,
        ):
            report = lifecycle.rotate(offices.network, servers, ["gamma"], rollback_after=120)
            assert report.exit_code == 0, report.lines()
            assert offices.reaches("gamma", "beta")
            assert offices.reaches("alpha", "gamma")
    assert others.lost == 0 and len(others.answered) > 10
    assert own.answered and own.answered[-1] > own.lost
    told(f"a key replaced: its tunnels silent for {own.longest_gap:.1f} s, the others for {others.longest_gap:.1f} s")
    new = {peer[0] for peer in offices.dump("alpha")}
    assert len(new - old) == len(old - new) == 1
    assert "wg0.key" not in offices.server("gamma").shell("ls /etc/wireguard")


def test_one_address_changes_and_the_tunnel_follows_and_later_changes_keep_it(offices, told):
    network = offices.of("alpha", "beta")
    assert offices.apply(network).exit_code == 0
    assert offices.reaches("alpha", "beta")
    fresh = offices.lab.internet.renumber("alpha")
    client, target = offices.client("alpha"), offices.client("beta").address
    with client.pings(target, every=0.2) as pings:
        deadline = time.monotonic() + 30
        while not client.ping(target, timeout=1):
            assert time.monotonic() < deadline, "not back within 30 seconds"
    told(f"one address new: silent for {pings.longest_gap:.1f} s")
    endpoint = [peer[2] for peer in offices.dump("beta")]
    assert endpoint == [f"{fresh}:51820"]
    changed = replace(network, sites=tuple(replace(site, mtu=1380) for site in network.sites))
    report = offices.apply(changed)
    assert report.exit_code == 0, report.lines()
    assert [peer[2] for peer in offices.dump("beta")] == endpoint
    assert offices.reaches("beta", "alpha")


DRIFTS = [
    # a manual change, and what plan reports about it; the first of a pair is done on alpha, the second on beta
    ("wg set wg0 peer $(wg genkey | wg pubkey) allowed-ips 10.99.0.0/24", "wg0 runs otherwise than it is configured"),
    ("ip route del 192.168.10.0/24 dev wg0", "there is no route through wg0 to 192.168.10.0/24"),
    ("echo 0 > /proc/sys/net/ipv4/ip_forward", "forwarding of IPv4 is off"),
    ("sed -i /^net/d /etc/sysctl.d/99-roamlet-vpn.conf", "forwarding of IPv4 is on, but off again after a restart"),
    ("sed -i 's/^Persistent.*/PersistentKeepalive = 7/' /etc/wireguard/wg0.conf", "wg0.conf says something else"),
    ("ip link set dev wg0 mtu 1300", "wg0 has the MTU 1300, and 80 less than the way to its peers is 1420"),
    ("wg set wg0 peer $(wg show wg0 peers) persistent-keepalive 7", "wg0 runs otherwise than it is configured"),
    ("chmod 644 /etc/wireguard/wg0.conf", "wg0.conf has mode 0644 and owner 0: others may read the key"),
    ("ip route add 10.99.0.0/24 dev wg0", "wg0 has a route to 10.99.0.0/24, which is no LAN of this network"),
    ("ip address flush dev wg0; ip route replace 192.168.10.0/24 dev wg0", "wg0 has no address"),
    ("ip link del wg0", "wg0 is not there"),
    ("ip link set dev wg0 down; ip link set dev wg0 up", "there is no route through wg0 to 192.168.10.0/24"),
]


def test_what_somebody_changed_is_seen_and_repaired(offices):
    network = offices.of("alpha", "beta")
    assert offices.apply(network).exit_code == 0
    before = offices.states("alpha", "beta")
    with offices.servers(network) as servers:
        for (at_alpha, of_alpha), (at_beta, of_beta) in zip(DRIFTS[::2], DRIFTS[1::2], strict=True):
            offices.server("alpha").shell(at_alpha)
            offices.server("beta").shell(at_beta)
            survey = take_survey(network, servers)
            found = {name: [action.repairs for action in actions] for name, actions in survey.plan.sites.items()}
            assert survey.plan.exit_code == 2
            assert [len(repairs) for repairs in found.values()] == [1, 1], found
            assert of_alpha in found["alpha"][0] and of_beta in found["beta"][0], found
            report = apply(network, servers, survey=survey, rollback_after=120)
            assert report.exit_code == 0, (found, report.lines())
            assert [site.state for site in report.sites] == ["changed", "changed"], found
            assert offices.states("alpha", "beta") == before, found
        assert take_survey(network, servers).plan.exit_code == 0
    assert offices.reaches("beta", "alpha")
