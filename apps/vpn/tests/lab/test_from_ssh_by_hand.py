"""Offices that somebody has joined by `ssh -w` and a unit of his own are taken over to WireGuard, and no ping is lost."""

import pytest

from roamlet.cli import main
from roamlet_lab import Lab
from roamlet_vpn.model.file import read

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

# The tunnel of alpha to beta, written as such scripts are: the remote device for a user without root, addresses that are
# a pair of their own, and a route on each side without a metric.
SCRIPT = """\
#! /usr/bin/bash
REMUSER=admin REMHOST=beta.example LOCTUN=0 REMTUN=0 LOCADDR=10.9.0.1 REMADDR=10.9.0.2
LOCVPC=192.168.10.0/24 REMVPC=192.168.20.0/24

# remote tunnel device must exist prior to setting up main connection
ssh $REMUSER@$REMHOST "sudo /usr/sbin/ip tuntap add dev tun$REMTUN mode tun user $REMUSER"

# set up main tunnel
exec ssh -w $LOCTUN:$REMTUN \
-o PermitLocalCommand=yes \
-o LocalCommand="\
ifconfig tun$LOCTUN $LOCADDR pointopoint $REMADDR && \
ifconfig tun$LOCTUN txqueuelen 10000 && \
ip route add $REMVPC via $REMADDR" \
-o ServerAliveInterval=30 \
-o ServerAliveCountMax=5 \
$REMUSER@$REMHOST \
"sudo /usr/sbin/ifconfig tun$REMTUN $REMADDR pointopoint $LOCADDR && sudo /usr/sbin/ifconfig tun$REMTUN txqueuelen 10000 && \
sudo /usr/sbin/ip route add $LOCVPC via $LOCADDR; "
"""
UNIT = """\
[Unit]
Description=SSH tunnel for %I
After=network.target

[Service]
ExecStart=/usr/bin/bash /etc/sshtun/%i
# Restart every >2 seconds to avoid StartLimitInterval failure
Restart=always
RestartSec=3

[Install]
WantedBy=multi-user.target
"""
SHUT = "table inet shut { chain input { type filter hook input priority -10; udp dport 51820 drop; }; }"


@pytest.fixture(scope="module")
def lab():
    """Two offices, 80 ms apart, whose servers run systemd."""
    with Lab(2, rtt=0.080, systemd=True) as made:
        yield made


@pytest.fixture
def by_hand(lab):
    """Alpha and beta, with the tunnel between their servers."""
    for office in lab.offices:
        office.server.shell("sysctl -qw net.ipv4.ip_forward=1")
    alpha, beta = lab.offices
    alpha.server.write("/etc/systemd/system/sshtun@.service", UNIT)
    alpha.server.shell("mkdir -p /etc/sshtun")
    alpha.server.write("/etc/sshtun/beta", SCRIPT)
    alpha.server.shell("systemctl daemon-reload; systemctl enable --now sshtun@beta")
    assert any(alpha.client.ping(beta.client.address, timeout=2) for _ in range(30)), alpha.server.shell(
        "journalctl -u sshtun@beta -o cat"
    )
    yield alpha, beta
    alpha.server.shell("systemctl disable --now sshtun@beta")
    beta.server.shell("ip link del tun0", check=False)
    for office in lab.offices:
        office.server.shell("systemctl disable --now wg-quick@wg0 roamlet-vpn-names@wg0.timer 2>/dev/null", check=False)
        office.server.shell("rm -rf /etc/wireguard/* /etc/sysctl.d/99-roamlet-vpn.conf")


def routes(office):
    return office.server.shell("ip -4 route show; ip -4 rule show; ip -4 route show table 5182 2>/dev/null || true")


def roamlet(command, lab, path, *words):
    return main(["vpn", command, *words, "-f", str(path), "--ssh-config", lab.ssh_config])


def test_tunnels_made_by_hand_are_taken_over_without_a_lost_ping(lab, by_hand, tmp_path, capsys):
    alpha, beta = by_hand
    path = tmp_path / "network.toml"
    with alpha.client.pings(beta.client.address) as there, beta.client.pings(alpha.client.address) as back:
        assert roamlet("init", lab, path, "alpha", "beta", "--yes") == 0
        capsys.readouterr()
        assert roamlet("plan", lab, path) == 2
        plan = capsys.readouterr().out
        assert "go on sending to 192.168.20.0/24 through tun0 until the tunnel has shaken hands" in plan
        assert "192.168.20.0/24 goes through tun0 today, by a route that something else has made" in plan
        assert roamlet("apply", lab, path, "--yes", "--rollback-after", "120") == 0, capsys.readouterr()
        for office, far in ((alpha, beta), (beta, alpha)):
            assert "dev wg0" in office.server.shell(f"ip route get {far.client.address}")
            assert "5182:" not in office.server.shell("ip rule")
            assert "dev tun0 metric 5182" in office.server.shell(f"ip route show {far.place.lan}")
        alpha.server.shell("systemctl disable --now sshtun@beta")
        beta.server.shell("ip link del tun0")
        assert all(alpha.client.ping(beta.client.address) for _ in range(10))
    assert (there.lost, back.lost) == (0, 0) and min(len(there.answered), len(back.answered)) > 10
    assert roamlet("plan", lab, path) == 0
    # And what the server does by itself after a restart is the same.
    assert read(path).sites[0].name == "alpha"
    alpha.server.shell("systemctl restart wg-quick@wg0")
    assert any(alpha.client.ping(beta.client.address, timeout=2) for _ in range(15))


def test_where_the_tunnel_does_not_come_the_hand_made_one_is_as_it_was(lab, by_hand, tmp_path, capsys):
    alpha, beta = by_hand
    path = tmp_path / "network.toml"
    before = [routes(office) for office in by_hand]
    assert roamlet("init", lab, path, "alpha", "beta", "--yes") == 0
    for office in by_hand:
        office.server.run(["nft", SHUT])
    try:
        with alpha.client.pings(beta.client.address) as pings:
            assert roamlet("apply", lab, path, "--yes", "--rollback-after", "120") == 1
        assert "do not shake hands" in capsys.readouterr().out
        assert pings.lost == 0 and len(pings.answered) > 10
    finally:
        for office in by_hand:
            office.server.run(["nft", "delete", "table", "inet", "shut"])
    assert [routes(office) for office in by_hand] == before
