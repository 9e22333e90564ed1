"""Which site calls which over ssh, by which devices, and what the servers are told; pure."""

from dataclasses import replace

import pytest

from apps.vpn.tests.measuring import NAMES, site, well
from roamlet_vpn.host import tunnel
from roamlet_vpn.model.network import Network
from roamlet_vpn.ssh import setup
from roamlet_vpn.ssh.links import SshBackendError, links
from roamlet_vpn.ssh.setup import Identity


def named(network):
    return [(link.caller.name, link.caller_device, link.callee.name, link.callee_device) for link in links(network)]


def test_each_pair_has_a_tunnel_whose_devices_are_called_after_the_far_site():
    assert named(well(3)) == [
        ("alpha", "tun2", "beta", "tun1"),
        ("alpha", "tun3", "gamma", "tun1"),
        ("beta", "tun3", "gamma", "tun2"),
    ]


def test_numbers_stay_when_a_site_goes():
    network = well(3)
    fewer = replace(network, sites=(network.sites[0], network.sites[2]))
    assert named(fewer) == [("alpha", "tun3", "gamma", "tun1")]


def test_a_hub_has_a_tunnel_to_each_spoke_and_carries_what_is_for_others():
    network = well(3, topology="hub", hub="beta")
    assert [(one, other) for one, _, other, _ in named(network)] == [("alpha", "beta"), ("beta", "gamma")]
    script = files(network, "alpha")["call-beta"]
    assert "ip route replace 10.8.1.0/24 dev tun2" in script and "ip route replace 192.168.30.0/24 dev tun2" in script


def test_who_cannot_be_called_calls():
    network = Network(sites=(site("alpha"), site("beta", endpoint=None)))
    assert [(one, other) for one, _, other, _ in named(network)] == [("beta", "alpha")]
    network = Network(sites=(site("alpha", endpoint=None), site("beta", endpoint=None)))
    with pytest.raises(SshBackendError, match="neither alpha nor beta has an endpoint"):
        links(network)


IDENTITIES = {name: Identity(f"ssh-ed25519 KEY{name}", (f"ssh-ed25519 HOST{name}",)) for name in NAMES}


def files(network, name, systemd=True):
    return setup.setup(network, network.site(name), IDENTITIES, systemd).files


def test_the_scripts():
    network = well(2)
    call, accept = files(network, "alpha")["call-beta"], files(network, "beta")["accept-alpha"]
    for words in (
        "ip tuntap add dev tun2 mode tun user roamlet-vpn",
        "ip address replace 10.8.1.1 peer 10.8.1.2 dev tun2",
        "ip link set dev tun2 mtu 1500 txqueuelen 2000 up",
        "ip route replace 192.168.20.0/24 dev tun2 metric 512",
        "ExitOnForwardFailure=yes",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "StrictHostKeyChecking=yes",
        "-w 2:1",
        "roamlet-vpn@198.51.100.2",
    ):
        assert words in call
    assert "ip route replace 192.168.10.0/24 dev tun1" in accept and "ssh" not in accept


def test_each_key_may_use_its_own_device_and_nothing_else():
    network = well(3)
    gamma, alpha = files(network, "gamma"), files(network, "alpha", systemd=False)
    assert gamma["authorized_keys"] == (
        'restrict,tunnel="1" ssh-ed25519 KEYalpha\nrestrict,tunnel="2" ssh-ed25519 KEYbeta\n'
    )
    assert sorted(gamma) == [
        "accept-alpha", "accept-alpha.service", "accept-beta", "accept-beta.service", "authorized_keys", "sshd"
    ]  # fmt: skip
    assert alpha["known_hosts"] == "beta ssh-ed25519 HOSTbeta\ngamma ssh-ed25519 HOSTgamma\n"
    assert sorted(alpha) == ["call-beta", "call-gamma", "known_hosts"]


def test_a_unit_that_calls_is_started_again_for_ever():
    unit = files(well(2), "alpha")["call-beta.service"]
    for line in (
        "StartLimitIntervalSec=0",
        "Restart=always",
        "RestartSec=5",
        "ExecStart=/bin/sh /etc/roamlet-vpn/call-beta",
    ):
        assert line in unit.splitlines()
    unit = files(well(2), "beta")["accept-alpha.service"]
    assert "Type=oneshot" in unit and "Restart=" not in unit


@pytest.mark.parametrize("name", ["call-a/b", "", "call-", "-x", "call-a'b", "known_hosts"])
def test_names_that_are_no_names_of_ends_are_refused(name):
    with pytest.raises(ValueError, match="is no end of a tunnel"):
        tunnel.checked(name)


@pytest.mark.parametrize("name", ["eth0", "tun", "tun1;", "../tun1"])
def test_what_is_no_tun_device_is_not_taken_away(name):
    with pytest.raises(ValueError, match="is no tun device"):
        tunnel.remove_device(name)
