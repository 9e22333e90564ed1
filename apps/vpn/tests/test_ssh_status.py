"""What status reports about ssh tunnels, and what check reports about one that carries nothing."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from apps.vpn.tests.measuring import changed, measurements, silent, well
from apps.vpn.tests.servers import Offices
from apps.vpn.tests.test_ssh_plan import TWO
from roamlet_vpn.check import status
from roamlet_vpn.check.diagnose import diagnose
from roamlet_vpn.commands.tables import status_table


@pytest.fixture
def offices():
    """Two that are joined, and whose devices are held by somebody."""
    made = Offices(TWO)
    made.apply()
    for name, device in (("alpha", "tun2"), ("beta", "tun1")):
        made[name].ssh["devices"][device].update(carrier=True, rx=1000, tx=2000)
    return made


def facts(offices):
    return {name: offices[name].facts for name in ("alpha", "beta")}


def shown(network, found):
    console = Console(file=StringIO(), width=150)
    console.print(status_table(network, found))
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_who_calls_whom_since_when_and_how_much_has_passed(offices):
    found = status.status(offices.network, facts(offices), {})
    assert status.is_well(found)
    assert shown(offices.network, found) == [
        "site peer connected received sent by",
        "alpha beta up 1 s ago 1.0 kB 2.0 kB tun2, calls",
        "beta alpha up 1.0 kB 2.0 kB tun1, is called",
    ]
    (tunnel,) = status.plain(found)["sites"]["alpha"]["peers"]
    assert tunnel["device"] == "tun2" and tunnel["calls"] is True and tunnel["unit"] == "active"


def test_rates_are_those_between_two_looks(offices):
    before = facts(offices)
    offices["alpha"].ssh["devices"]["tun2"].update(rx=5000, tx=4000)
    offices["alpha"].plain["time"] += 2
    found = status.status(offices.network, facts(offices), {}, before)
    assert (found[0].peers[0].rx_rate, found[0].peers[0].tx_rate) == (2000.0, 1000.0)
    offices["alpha"].ssh["devices"]["tun2"].update(rx=1, tx=1)
    assert status.status(offices.network, facts(offices), {}, before)[0].peers[0].rx_rate is None


def test_a_tunnel_that_is_down_says_why(offices):
    offices["alpha"].ssh["devices"]["tun2"]["carrier"] = False
    offices["alpha"].ssh["ends"]["call-beta"].update(active="activating", age=None, said="Connection timed out")
    found = status.status(offices.network, facts(offices), {})
    assert not status.is_well(found)
    assert shown(offices.network, found)[1] == (
        "alpha beta down no 1.0 kB 2.0 kB tun2, calls; it is activating: Connection timed out"
    )


def test_a_server_without_tunnels_says_what_makes_them(offices):
    offices["beta"].do_tunnel_down()
    found = status.status(offices.network, facts(offices), {})
    assert found[1].error == "there are no ssh tunnels: `roamlet vpn apply` makes them" and not status.is_well(found)


def not_there(offices):
    offices["alpha"].do_tunnel_remove("call-beta")


def no_device(offices):
    offices["beta"].lose_device("tun1")


def device_down(offices):
    offices["alpha"].plain["devices"]["tun2"]["up"] = False


@pytest.mark.parametrize(
    ("broken", "site", "what", "fix"),
    [
        (not_there, "alpha", "nothing on the server of alpha calls beta", "roamlet vpn apply"),
        (no_device, "beta", "beta has no device for the tunnel with alpha", "roamlet vpn apply"),
        (device_down, "alpha", "alpha has no device for the tunnel with beta", "roamlet vpn apply"),
        ("Permission denied (publickey).", "beta", "beta does not let alpha in", "roamlet vpn apply"),
        (
            "Host key verification failed.",
            "alpha",
            "the machine that answers at 198.51.100.2 has another key",
            "port 22 of 198.51",
        ),
        ("ssh: connect to host: Connection timed out", "beta", "alpha does not reach the sshd of beta", "TCP port 22"),
        ("Tunnel forwarding failed", "beta", "beta does not let alpha have tun1", "roamlet vpn apply"),
        (
            None,
            "alpha",
            "no packet gets through the ssh tunnel between alpha and beta",
            "sh -x /etc/roamlet-vpn/call-beta",
        ),
    ],
)
def test_why_a_tunnel_carries_nothing(offices, broken, site, what, fix):
    network = replace(well(2), backend="ssh")
    if callable(broken):
        broken(offices)
    else:
        offices["alpha"].ssh["ends"]["call-beta"]["said"] = broken
    found = changed(measurements(network), silent(network, "alpha", "beta"))
    told = [one for one in diagnose(network, facts(offices), found) if one.name == "ssh-tunnel-down"]
    assert [(one.severity, one.site) for one in told] == [("error", site)]
    assert told[0].what.startswith(what) and any(fix in step for step in told[0].fix)
    assert not [
        one for one in diagnose(network, facts(offices), measurements(network)) if one.name == "ssh-tunnel-down"
    ]
