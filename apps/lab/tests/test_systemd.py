"""Servers with a systemd of their own: they boot, take ssh, and come back from a reboot and from a power cut."""

import os
import socket

import pytest

from roamlet import remote
from roamlet_lab import Lab, spaces

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab():
    with Lab(["alpha"], rtt=0.004, systemd=True) as made:
        yield made


def test_a_server_has_booted_and_can_be_told_to_start_units(lab):
    server = lab.office("alpha").server
    assert server.shell("cat /proc/1/comm; systemctl is-system-running --wait") == "systemd\nrunning\n"
    server.write("/etc/systemd/system/once.service", "[Service]\nType=oneshot\nExecStart=/bin/touch /run/once\n")
    server.shell("systemctl daemon-reload; systemctl start once")
    assert server.read("/run/once") == ""
    with remote.ssh("alpha-admin", ssh_args=["-F", lab.ssh_config]) as admin, remote.sudo(via=admin) as root:
        assert root.call(socket.gethostname) == "alpha"
        assert root.call(os.getuid) == 0


@pytest.mark.parametrize("abrupt", [False, True], ids=["reboot", "power cut"])
def test_a_restart_keeps_files_and_units_and_nothing_else(lab, abrupt):
    office = lab.office("alpha")
    server = office.server
    before = server.pid
    server.shell("echo 1 >/proc/sys/net/ipv4/ip_forward; touch /etc/kept /run/gone; sync")
    server.shell(
        "ip link add d0 type dummy 2>/dev/null || ip tuntap add d0 mode tun; ip route add 10.99.0.0/16 via 192.168.10.1"
    )
    server.write(
        "/etc/systemd/system/each.service",
        "[Service]\nType=oneshot\nExecStart=/bin/touch /run/each\n[Install]\nWantedBy=multi-user.target\n",
    )
    server.shell("systemctl enable -q each")
    office.restart_server(abrupt=abrupt)
    assert server.pid != before
    server.shell("systemctl is-system-running --wait; test -e /run/each; test -e /etc/kept; test ! -e /run/gone")
    assert server.shell("ls /sys/class/net").split() == ["eth0", "lo"]
    assert "10.99" not in server.shell("ip route")
    assert server.read("/proc/sys/net/ipv4/ip_forward") == "0\n"
    assert lab.admin.ping(office.place.wan)
    assert server.ping(office.client.address)


def test_a_server_without_systemd_restarts_too():
    with Lab(["alpha"], rtt=0) as lab:
        office = lab.office("alpha")
        office.server.shell("touch /etc/kept; ip route add 10.99.0.0/16 via 192.168.10.1")
        office.restart_server()
        office.server.shell("test -e /etc/kept")
        assert "10.99" not in office.server.shell("ip route")
        assert office.client.ping(office.server.address)
        with remote.ssh("alpha", ssh_args=["-F", lab.ssh_config]) as context:
            assert context.call(len, ("abc",)) == 3


def test_the_groups_of_its_processes_go_with_it():
    with Lab(["alpha"], rtt=0, systemd=True) as lab:
        groups = spaces.cgroups_of(lab.name)
        assert groups
        assert all(group.is_dir() for group in groups)
    assert not any(group.exists() for group in groups)
