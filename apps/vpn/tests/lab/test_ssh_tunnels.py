"""Offices joined by ssh tunnels: made, looked at, mended, brought back, changed and taken away by the ways that WireGuard has."""

import re
import time

import pytest

from apps.vpn.tests.lab.conftest import company as company_of
from apps.vpn.tests.lab.conftest import made_bare
from roamlet_lab import Lab
from roamlet_vpn.check.status import Watching, is_well
from roamlet_vpn.commands import lifecycle
from roamlet_vpn.commands.apply import take_survey
from roamlet_vpn.host import act as host_act
from roamlet_vpn.host import rollback as host_rollback

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
TOKEN = "0123456789abcdef"
DOWN = 600.0  # seconds

STATE = """
    cd /etc/roamlet-vpn && sha256sum *
    stat -c '%n %a %U' /etc/roamlet-vpn/* /etc/systemd/system/roamlet-vpn-ssh-* /etc/ssh/sshd_config.d/roamlet-vpn.conf
    for device in $(ip -o link | grep -o 'tun[0-9]*:' | tr -d : | sort); do
        ip -d link show $device | grep -o 'user [a-z-]*\\|qlen [0-9]*'; ip -o address show $device | grep -o 'inet .*'
        ip route show dev $device | sed 's/ linkdown//'
    done
    ls /etc/systemd/system/multi-user.target.wants | grep roamlet
    id -un roamlet-vpn
    cat /proc/sys/net/ipv4/ip_forward /etc/sysctl.d/99-roamlet-vpn.conf
"""
NOTHING = """
    systemctl disable --now $(ls /etc/systemd/system | grep ^roamlet-vpn-ssh-)
    for pid in /run/roamlet-vpn-ssh-*.pid; do kill -- -$(cat $pid); done
    pkill -u roamlet-vpn
    for device in $(ip -o link | grep -o 'tun[0-9]*:' | tr -d :); do ip link del $device; done
    rm -rf /etc/roamlet-vpn /etc/systemd/system/roamlet-vpn-ssh-* /etc/ssh/sshd_config.d/roamlet-vpn.conf /run/roamlet-vpn-ssh-*
    userdel roamlet-vpn
    true
"""


@pytest.fixture(scope="module")
def plain_lab():
    with Lab(3, rtt=0.010) as lab:
        yield company_of(lab)


@pytest.fixture(scope="module")
def booted_lab():
    with Lab(2, rtt=0.010, systemd=True) as lab:
        yield company_of(lab)


@pytest.fixture
def company(plain_lab):
    """Three offices whose servers have no systemd, and nothing of a VPN."""
    return bare(plain_lab)


@pytest.fixture
def booted_company(booted_lab):
    """Two offices whose servers run systemd, and nothing of a VPN."""
    said = booted_lab.server("alpha").run(["systemctl", "is-system-running"], check=False).stdout
    if said.strip() == "offline":
        pytest.skip("the servers of this machine's labs run no systemd")
    return bare(booted_lab)


def bare(company):
    made_bare(company)
    for office in company.lab.offices:
        office.server.run(["sh", "-c", NOTHING], check=False)
    return company


def tunnels(company, *names):
    """The network of these sites, joined by ssh."""
    return company.of(*names, backend="ssh")


def state(company, name):
    return company.server(name).run(["sh", "-c", STATE], check=False).stdout


def planned(company, network):
    with company.servers(network) as servers:
        return take_survey(network, servers).plan


def well(company, network):
    """Whether the tunnels are up, as `roamlet vpn status` has it; ssh takes its time to connect, and to connect again."""
    with company.servers(network) as servers:
        watching = Watching(network, servers)
        deadline = time.monotonic() + 60
        while not is_well(found := watching.update()):
            if time.monotonic() > deadline:
                return found
            time.sleep(0.3)
        return None


def test_each_drift_is_found_and_mended_and_then_nothing_is_left_to_do(company):
    network = tunnels(company, "alpha", "beta", "gamma")
    assert planned(company, network).exit_code == 2
    report = company.apply(network)
    assert report.exit_code == 0 and report.changed, report.lines()
    assert planned(company, network).exit_code == 0
    assert not company.apply(network).changed
    assert well(company, network) is None
    assert company.reaches("alpha", "gamma") and company.reaches("gamma", "beta")
    before = {name: state(company, name) for name in ("alpha", "beta", "gamma")}
    assert "/etc/roamlet-vpn/id_ed25519 600 root\n" in before["alpha"]
    drifts = {  # beta is called by alpha, by its tun1, and calls gamma, by its tun3
        "echo 0 > /proc/sys/net/ipv4/ip_forward": "forwarding of IPv4 is off",
        "sed -i s/ServerAliveInterval=5/ServerAliveInterval=50/ /etc/roamlet-vpn/call-gamma": "call-gamma says something else",
        "echo 'ssh-ed25519 AAAA any' >> /etc/roamlet-vpn/authorized_keys": "authorized_keys says something else",
        "rm /etc/roamlet-vpn/known_hosts": "there is no /etc/roamlet-vpn/known_hosts",
        "sed -i s/PermitTTY/#PermitTTY/ /etc/ssh/sshd_config.d/roamlet-vpn.conf": "sshd for tunnels says something else",
        "ip link set tun1 txqueuelen 500": "tun1 has a queue of 500 packets",
        "ip link set tun1 mtu 1300": "tun1 has the MTU 1300",
        "ip route del 192.168.10.0/24 dev tun1": "no route through tun1 to 192.168.10.0/24",
        "ip route add 192.168.77.0/24 dev tun1": "tun1 has a route to 192.168.77.0/24",
        "ip address add 10.9.9.9/32 dev tun1": "tun1 has the address 10.9.9.9",
        "chmod 644 /etc/roamlet-vpn/id_ed25519": "has mode 0644",
        "kill -- -$(cat /run/roamlet-vpn-ssh-call-gamma.pid)": "nothing keeps the tunnel: it is inactive",
    }
    for command in drifts:
        company.server("beta").shell(command)
    company.server("alpha").shell("ip link del tun2")
    company.server("gamma").shell("ip link del tun2; ip tuntap add dev tun2 mode tun user root; ip link set tun2 up")
    plan = planned(company, network)
    assert plan.exit_code == 1 and "there is a tun2 that is not of this network" in plan.refusals[0].message
    company.server("gamma").shell("ip address add 10.8.1.3 peer 10.8.1.2 dev tun2")
    plan = planned(company, network)
    assert plan.exit_code == 2, plan.refusals
    repairs = {name: "; ".join(action.repairs for action in actions) for name, actions in plan.sites.items()}
    for wanted in drifts.values():
        assert wanted in repairs["beta"]
    assert "there is no tun2" in repairs["alpha"] and "tun2 belongs to root" in repairs["gamma"]
    report = company.apply(network)
    assert report.exit_code == 0, report.lines()
    assert planned(company, network).exit_code == 0
    assert {name: state(company, name) for name in before} == before
    assert well(company, network) is None
    assert company.reaches("alpha", "beta") and company.reaches("beta", "gamma")


def test_sites_come_and_go_and_keys_are_replaced_and_the_other_tunnels_do_not_notice(company):
    two, three = tunnels(company, "alpha", "beta"), tunnels(company, "alpha", "beta", "gamma")
    assert company.apply(two).exit_code == 0
    assert well(company, two) is None and company.reaches("alpha", "beta")
    before = {name: state(company, name) for name in ("alpha", "beta", "gamma")}
    with company.client("alpha").pings(company.client("beta").address) as pings:
        assert company.apply(three).exit_code == 0
        assert well(company, three) is None and company.reaches("gamma", "alpha")
        with company.servers(three) as servers:
            report = lifecycle.remove(three, servers, "gamma", rollback_after=120)
        assert report.exit_code == 0, report.lines()
    assert pings.lost == 0
    assert {name: state(company, name) for name in ("alpha", "beta")} == {
        name: before[name] for name in ("alpha", "beta")
    }
    assert "tun" not in state(company, "gamma") and "roamlet-vpn" not in state(company, "gamma")
    key = company.server("alpha").shell("cat /etc/roamlet-vpn/id_ed25519.pub")
    with company.servers(two) as servers:
        assert lifecycle.rotate(two, servers, ["alpha"], rollback_after=120).exit_code == 0
    assert company.server("alpha").shell("cat /etc/roamlet-vpn/id_ed25519.pub") != key
    assert well(company, two) is None and company.reaches("alpha", "beta")
    with company.servers(two) as servers:
        assert lifecycle.down(two, servers, rollback_after=120).exit_code == 0
        assert not lifecycle.down(two, servers, rollback_after=120).changed
    for name in ("alpha", "beta"):
        assert re.findall("tun|roamlet", state(company, name)) == []


def test_what_fails_on_one_server_leaves_nothing_on_any(company):
    network = tunnels(company, "alpha", "beta")
    before = {name: state(company, name) for name in ("alpha", "beta")}
    company.server("beta").shell("sed -i 's/^Include/#Include/' /etc/ssh/sshd_config")
    try:
        report = company.apply(network)
    finally:
        company.server("beta").shell("sed -i 's/^#Include/Include/' /etc/ssh/sshd_config")
    assert report.exit_code == 1 and "sshd does not read /etc/ssh/sshd_config.d/roamlet-vpn.conf" in str(report.failure)
    assert [site.state for site in report.sites] == ["rolled back", "rolled back"]
    # The keys were made before, and wait.
    found = {name: re.sub(r"(?m)^.*id_ed25519.new.*\n", "", state(company, name)) for name in before}
    assert found == before


def brought_back(company):
    """Everything is taken away in a change that is rolled back, by the process that would do it after its time."""
    network = tunnels(company, "alpha", "beta")
    assert company.apply(network).exit_code == 0
    before = {name: state(company, name) for name in ("alpha", "beta")}
    with company.servers(network) as servers:
        servers.connect()
        arguments = dict.fromkeys(before, ("wg0", [{"do": "tunnel_down"}], TOKEN, 60))
        for answer in servers.each(host_act.act, arguments).values():
            assert answer.get() == {"done": 1, "error": None, "outcome": None}
        assert not re.search("tun[0-9]", "".join(state(company, name) for name in before))
        for answer in servers.each(host_rollback.roll_back, dict.fromkeys(before, (TOKEN,))).values():
            assert answer.get() == {"outcome": host_rollback.ROLLED_BACK, "errors": []}
    assert {name: state(company, name) for name in before} == before
    assert planned(company, network).exit_code == 0
    assert well(company, network) is None
    assert company.reaches("alpha", "beta")


def test_what_is_rolled_back_has_its_tunnels_again(company):
    brought_back(company)


def test_what_is_rolled_back_has_its_units_again(booted_company):
    brought_back(booted_company)


def test_a_tunnel_comes_back_after_its_line_was_down(company):
    network = tunnels(company, "alpha", "beta")
    assert company.apply(network).exit_code == 0
    assert well(company, network) is None
    company.lab.internet.cut("beta")
    try:
        company.server("alpha").shell("while pgrep -x ssh >/dev/null; do sleep 0.2; done", timeout=60)  # it has noticed
    finally:
        company.lab.internet.mend("beta")
    assert well(company, network) is None
    assert company.reaches("alpha", "beta")


def test_units_bring_the_tunnel_back_after_either_server_was_restarted(booted_company):
    company = booted_company
    network = tunnels(company, "alpha", "beta")
    report = company.apply(network)
    assert report.exit_code == 0, report.lines()
    assert well(company, network) is None
    assert company.server("alpha").shell("systemctl is-active roamlet-vpn-ssh-call-beta").strip() == "active"
    company.server("alpha").shell("systemctl disable --now roamlet-vpn-ssh-call-beta")
    company.server("beta").shell("sed -i s/oneshot/simple/ /etc/systemd/system/roamlet-vpn-ssh-accept-alpha.service")
    plan = planned(company, network)
    assert [[action.repairs for action in actions] for actions in plan.sites.values()] == [
        ["nothing keeps the tunnel: it is inactive"],
        ["unit accept-alpha.service says something else", "accept-alpha runs with what it had before"],
    ]
    assert company.apply(network).exit_code == 0
    before = {name: state(company, name) for name in ("alpha", "beta")}
    for name in before:
        company.lab.office(name).restart_server()
    assert well(company, network) is None
    assert company.reaches("alpha", "beta") and company.reaches("beta", "alpha")
    assert {name: state(company, name) for name in ("alpha", "beta")} == before
    assert not company.apply(network).changed


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_a_line_that_is_down_for_ten_minutes_ends_no_tunnel(company, booted_company):
    companies = (company, booted_company)
    for one in companies:
        assert one.apply(tunnels(one, "alpha", "beta")).exit_code == 0
        assert well(one, tunnels(one, "alpha", "beta")) is None
        one.lab.internet.cut("beta")
    time.sleep(DOWN)
    tries = "systemctl show --value -p NRestarts roamlet-vpn-ssh-call-beta"
    assert int(booted_company.server("alpha").shell(tries)) > DOWN / 60
    for one in companies:
        one.lab.internet.mend("beta")
    for one in companies:
        network = tunnels(one, "alpha", "beta")
        assert well(one, network) is None
        assert one.reaches("alpha", "beta") and one.reaches("beta", "alpha")
        assert planned(one, network).exit_code == 0
    # The one that is called is gone without a word, and another one of that name comes.
    booted_company.lab.office("beta").restart_server(abrupt=True)
    assert well(booted_company, tunnels(booted_company, "alpha", "beta")) is None
    assert booted_company.reaches("alpha", "beta")
