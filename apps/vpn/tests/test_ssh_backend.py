"""Which site calls which over ssh, by which devices, and what the servers are told; pure."""

from dataclasses import replace

import pytest

from apps.vpn.tests.measuring import NAMES, site, well
from weft_vpn import ssh_backend, ssh_commands
from weft_vpn.host import tunnel
from weft_vpn.network import Network


def named(network):
    return [
        (link.caller.name, link.caller_device, link.callee.name, link.callee_device)
        for link in ssh_backend.links(network)
    ]


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
    script = ssh_backend.call_script(network, ssh_backend.links(network)[0])
    assert "ip route replace 10.8.1.0/24 dev tun2" in script and "ip route replace 192.168.30.0/24 dev tun2" in script


def test_who_cannot_be_called_calls():
    network = Network(sites=(site("alpha"), site("beta", endpoint=None)))
    assert [(one, other) for one, _, other, _ in named(network)] == [("beta", "alpha")]
    network = Network(sites=(site("alpha", endpoint=None), site("beta", endpoint=None)))
    with pytest.raises(ssh_backend.SshBackendError, match="neither alpha nor beta has an endpoint"):
        ssh_backend.links(network)


def test_the_scripts():
    network = well(2)
    (link,) = ssh_backend.links(network)
    call, accept = ssh_backend.call_script(network, link), ssh_backend.accept_script(network, link)
    for words in (
        "ip tuntap add dev tun2 mode tun user weft-vpn",
        "ip address replace 10.8.1.1 peer 10.8.1.2 dev tun2",
        "ip link set dev tun2 txqueuelen 2000 up",
        "ip route replace 192.168.20.0/24 dev tun2 metric 512",
        "ExitOnForwardFailure=yes",
        "ServerAliveInterval=5",
        "StrictHostKeyChecking=yes",
        "-w 2:1",
        "weft-vpn@198.51.100.2",
    ):
        assert words in call
    assert "ip route replace 192.168.10.0/24 dev tun1" in accept and "ssh" not in accept


def test_each_key_may_use_its_own_device_and_nothing_else():
    network = well(3)
    identities = {name: (f"ssh-ed25519 KEY{name}", (f"ssh-ed25519 HOST{name}",)) for name in NAMES}
    order = ssh_backend._order(network, "gamma", ssh_backend.links(network), identities)
    assert order["allowed"] == ('restrict,tunnel="1" ssh-ed25519 KEYalpha\nrestrict,tunnel="2" ssh-ed25519 KEYbeta\n')
    assert order["calls"] == {} and sorted(order["accepts"]) == ["alpha", "beta"]
    order = ssh_backend._order(network, "alpha", ssh_backend.links(network), identities)
    assert order["known"] == "beta ssh-ed25519 HOSTbeta\ngamma ssh-ed25519 HOSTgamma\n"


def test_a_unit_that_calls_is_started_again_for_ever():
    assert "StartLimitIntervalSec=0" in tunnel.CALLING and "Restart=always" in tunnel.CALLING


@pytest.mark.parametrize("name", ["a/b", "", "-x", "a'b"])
def test_names_that_are_no_names_of_files_are_refused(name):
    with pytest.raises(ValueError, match="is no name of a site"):
        tunnel._checked(name)


def test_the_commands_of_a_network_of_ssh_tunnels(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(ssh_backend, "up", lambda *args: done.append("up"))
    monkeypatch.setattr(ssh_backend, "down", lambda *args: done.append("down"))
    assert ssh_commands.plan(well(2)) == 0
    assert "alpha (tun2) calls beta (tun1) by ssh at 198.51.100.2" in capsys.readouterr().out
    assert ssh_commands.apply(well(2), None) == 0 and ssh_commands.down(well(2), None) == 0
    assert done == ["up", "down"]


def test_addresses_must_stand_in_the_file_because_devices_are_called_after_them():
    with pytest.raises(ssh_backend.SshBackendError, match=r'beta: no address in the tunnel.*address = "10.8.1.2"'):
        ssh_commands.plan(Network(sites=(site("alpha"), site("beta", address=None))))
