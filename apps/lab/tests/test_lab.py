"""What is in a lab, and what can be done to its internet."""

import os
import re
import socket

import pytest

from roamlet import remote
from roamlet_lab import CommandFailed, LabError

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def restored(request):
    """The internet and the offices as they were."""
    yield
    if "lab" in request.fixturenames:
        lab = request.getfixturevalue("lab")
        lab.internet.set(rtt=0.020, loss=0, rate=0, mtu=1500, queue=64 << 20, blackhole=False)
        for office in lab.offices:
            lab.internet.mend(office.name)
            office.set(stateful=False, forward=[51820], routes="gateway")


def rtt_of(machine, address):
    """The time of the quickest of three pings, in seconds."""
    said = machine.run(["ping", "-n", "-c", "3", "-i", "0.2", str(address)]).stdout
    return float(re.search(r"min/avg/max/mdev = ([\d.]+)/", said)[1]) / 1000


def line(lab, office):
    """What the internet has counted on the office's line."""
    return next(one["line"] for one in lab.described()["offices"] if one["name"] == office)


def test_a_packet_takes_as_long_as_was_set_and_never_less(lab):
    beta = lab.office("beta").place.wan
    assert rtt_of(lab.office("alpha").client, beta) >= 0.020
    lab.internet.set(delay=0.050)
    assert rtt_of(lab.office("alpha").client, beta) >= 0.100
    lab.internet.set(rtt=0.0)
    assert rtt_of(lab.office("alpha").client, beta) < 0.100


def test_lans_do_not_reach_each_other_by_themselves(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    assert alpha.client.ping(alpha.server.address)
    assert alpha.client.ping(alpha.place.address6(100))
    assert not alpha.client.ping(beta.client.address, timeout=0.5)
    assert not alpha.client.ping(beta.gateway.address, timeout=0.5)


def test_ssh_with_the_labs_configuration_reaches_a_server_from_the_internet_as_root_and_as_an_admin(lab):
    with (
        remote.ssh("alpha", ssh_args=["-F", lab.ssh_config]) as alpha,
        remote.ssh("beta-admin", ssh_args=["-F", lab.ssh_config]) as beta,
        remote.sudo(via=beta) as root,
    ):
        assert alpha.call(socket.gethostname) == "alpha"
        assert alpha.call(os.getuid) == 0
        assert beta.call(os.getuid) != 0
        assert root.call(os.getuid) == 0
        assert root.call(socket.gethostname) == "beta"


def test_servers_reach_each_other_by_ssh_under_every_name_they_have(lab):
    for name in ("beta.example", "198.51.100.2"):
        words = ["ssh", "-o", "BatchMode=yes", name, "hostname"]
        assert lab.office("alpha").server.run(words).stdout == "beta\n"


def test_a_udp_port_is_forwarded_to_the_server_unless_the_office_says_otherwise(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")

    def arrives(port):
        listener = beta.server.popen(
            ["timeout", "3", "nc", "-u", "-l", "-p", str(port), "-W", "1"], stdout=-1, text=True
        )
        until_listening = f"until ss -Hlun sport = {port} | grep -q .; do :; done"
        beta.server.shell(until_listening)
        # From the address that the gateway gives it: no server of alpha has that port open.
        alpha.server.shell(f"echo hello | nc -u -w 1 -q 0 {beta.place.wan} {port}")
        return listener.communicate()[0]

    assert arrives(51820) == "hello\n"
    assert arrives(51821) == ""
    beta.set(forward=[51821])
    assert arrives(51821) == "hello\n"
    beta.set(forward=[])
    assert arrives(51820) == ""


def test_a_line_that_is_cut_carries_nothing_until_it_is_mended(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    lab.internet.cut("beta")
    assert not alpha.client.ping(beta.place.wan, timeout=0.5)
    assert not line(lab, "beta")["up"]
    assert line(lab, "alpha")["up"]
    lab.internet.mend("beta")
    assert alpha.client.ping(beta.place.wan)


def test_packets_are_lost_as_set_and_counted(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    before = line(lab, "beta")["lost"]
    lab.internet.set(loss=1)
    assert not alpha.client.ping(beta.place.wan, timeout=0.5)
    assert line(lab, "beta")["lost"] == before + 1
    lab.internet.set(loss=0.5)
    alpha.client.run(["ping", "-n", "-c", "60", "-i", "0.01", str(beta.place.wan)], check=False)
    assert 10 < line(lab, "beta")["lost"] - before < 50  # of 60: else by luck once in 10 ** 6
    lab.internet.set(loss=0)
    assert alpha.client.ping(beta.place.wan)


def test_a_slow_line_makes_packets_wait_and_drops_what_its_queue_does_not_hold(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    lab.internet.set(rtt=0, rate=0.1)
    assert rtt_of(alpha.client, beta.place.wan) >= 2 * 84 * 8 / 0.1e6  # 84 bytes each way
    lab.internet.set(rate=1, queue=20_000)
    before = line(lab, "beta")["crowded_out"]
    alpha.client.run(["ping", "-n", "-c", "40", "-l", "40", "-s", "1400", "-W", "1", str(beta.place.wan)], check=False)
    assert line(lab, "beta")["crowded_out"] > before


def test_a_packet_too_large_for_the_line_is_told_to_its_sender(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    lab.internet.set(mtu=1400, office="beta")
    assert alpha.server.ping(beta.place.wan, size=1400)
    said = alpha.server.run(
        ["ping", "-n", "-c", "1", "-W", "2", "-M", "do", "-s", "1373", str(beta.place.wan)], check=False
    )
    assert "mtu = 1400" in said.stdout.replace("mtu=", "mtu = ")
    assert alpha.server.run(["ip", "route", "get", str(beta.place.wan)]).stdout.count("mtu 1400") == 1


def test_a_black_hole_tells_nobody(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    lab.internet.set(mtu=1300, blackhole=True, office="beta")
    before = line(lab, "beta")["too_large"]
    said = alpha.client.run(
        ["ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "1300", str(beta.place.wan)], check=False
    )
    assert said.returncode == 1
    assert "mtu" not in said.stdout
    assert line(lab, "beta")["too_large"] == before + 1


def test_a_large_packet_that_may_be_cut_arrives_in_pieces(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    lab.internet.set(mtu=800, office="beta")
    pings = ["ping", "-n", "-c", "2", "-i", "0.2", "-W", "2", "-M", "dont", "-s"]
    for size in ("1400", "4000", "777"):
        assert "2 received" in alpha.client.run([*pings, size, str(beta.place.wan)]).stdout


def test_tcp_goes_whole_over_a_small_line_that_loses_packets(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    lab.internet.set(mtu=1000, loss=0.02, rtt=0.002)
    alpha.server.shell("head -c 300000 /dev/urandom >/tmp/sent")
    alpha.server.shell(f"ssh -o BatchMode=yes {beta.place.wan} 'cat >/tmp/got' </tmp/sent")
    assert beta.server.shell("sha256sum </tmp/got") == alpha.server.shell("sha256sum </tmp/sent")


def test_an_office_gets_another_wan_address_and_its_name_leads_there(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    old = str(beta.place.wan)
    fresh = lab.internet.renumber("beta")
    assert fresh != old
    assert str(beta.place.wan) == fresh
    assert not alpha.client.ping(old, timeout=0.5)
    assert alpha.client.ping(fresh)
    assert alpha.client.run(["getent", "hosts", "beta.example"]).stdout.split()[0] == fresh
    with remote.ssh("beta", ssh_args=["-F", lab.ssh_config]) as context:
        assert context.call(socket.gethostname) == "beta"
    quiet = lab.internet.renumber("beta", dns=False)
    assert alpha.client.run(["getent", "hosts", "beta.example"]).stdout.split()[0] == fresh
    assert alpha.client.ping(quiet)
    lab.internet.renumber("beta")


def test_a_strict_gateway_drops_what_comes_and_goes_by_different_ways_and_a_plain_one_does_not(lab):
    alpha, beta = lab.office("alpha"), lab.office("beta")
    key = {}
    for number, office in enumerate((alpha, beta), 1):
        key[office.name] = office.server.run(["wg", "genkey"]).stdout
        office.server.write("/etc/wireguard/key", key[office.name], 0o600)
        office.server.shell(
            f"wireguard-go t0 >/dev/null 2>&1\nwg set t0 listen-port 51820 private-key /etc/wireguard/key\n"
            f"ip address add 10.8.1.{number}/24 dev t0\nip link set t0 mtu 1420 up\n"
            "echo 1 >/proc/sys/net/ipv4/conf/all/forwarding"
        )
    for office, other in ((alpha, beta), (beta, alpha)):
        public = other.server.run(["wg", "pubkey"], data=key[other.name]).stdout.strip()
        office.server.shell(
            f"wg set t0 peer {public} endpoint {other.place.wan}:51820 allowed-ips {other.place.lan}\n"
            f"ip route add {other.place.lan} dev t0"
        )
    try:
        assert alpha.client.ping(beta.client.address, timeout=5)
        alpha.set(stateful=True)
        beta.set(stateful=True)
        assert not alpha.client.ping(beta.client.address, timeout=1)
        alpha.set(routes="clients")
        beta.set(routes="clients")
        assert alpha.client.ping(beta.client.address)
        beta.set(routes="none")
        assert not alpha.client.ping(beta.client.address, timeout=1)
        beta.set(routes="gateway", stateful=False)
        with beta.client.pings(alpha.client.address, every=0.05) as pings:
            beta.client.shell("sleep 0.5")
        assert pings.sent > 3
        assert pings.lost == 0
        assert pings.longest_gap < 0.11
        with beta.client.pings(alpha.client.address, every=0.05) as pings:
            lab.internet.cut("alpha")
            beta.client.shell("sleep 0.3")
            lab.internet.mend("alpha")
            beta.client.shell("sleep 0.5")
        assert pings.lost > 3
    finally:
        for office in (alpha, beta):
            office.server.shell("ip link del t0")


def test_a_machine_hands_over_input_output_and_status(lab):
    client = lab.office("alpha").client
    assert client.run(["cat"], data="to it").stdout == "to it"
    assert client.run(["sh", "-c", "exit 7"], check=False).returncode == 7
    assert client.run(["sh", "-c", "kill -9 $$"], check=False).returncode == -9
    client.write("/tmp/file", "first\n", 0o600)
    assert client.read("/tmp/file") == "first\n"
    assert client.shell("stat -c %a /tmp/file") == "600\n"
    with pytest.raises(CommandFailed, match=r"on alpha-client, `sh -euc echo why >&2; false` ended with 1: why"):
        client.shell("echo why >&2; false")
    assert client.run(["no-such-program"], check=False).returncode == 127


def test_machines_and_offices_that_there_are_not_are_named(lab):
    with pytest.raises(LabError, match="no office 'gamma' in lab lab-[0-9a-f]+: there are alpha, beta"):
        lab.office("gamma")
    with pytest.raises(LabError, match="no machine 'alpha-printer' .* there are alpha, beta, alpha-client"):
        lab.machine("alpha-printer")
    for act in (
        lab.internet.cut,
        lab.internet.mend,
        lab.internet.renumber,
        lambda name: lab.internet.set(mtu=1400, office=name),
    ):
        with pytest.raises(LabError, match="no office 'gamma' .* there are alpha, beta"):
            act("gamma")
    with pytest.raises(LabError, match="loss=2: give a number from 0 to 1"):
        lab.internet.set(loss=2)
    with pytest.raises(LabError, match="give one of them"):
        lab.internet.set(delay=1, rtt=2)
    assert lab.machine("alpha") is lab.office("alpha").server
