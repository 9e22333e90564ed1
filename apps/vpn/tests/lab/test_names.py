"""Both ends of a tunnel get new addresses, and the timer of systemd finds them by their names, in the time that it really takes.

That is three minutes: two and a half until a peer counts as silent, and an interval of the timer.
"""

import time
from dataclasses import replace

import pytest

from apps.vpn.tests.lab.conftest import company
from roamlet_lab import Lab
from roamlet_vpn.host.names import SILENT
from roamlet_vpn.model.network import Endpoint

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

SERVICE = "roamlet-vpn-names@wg0.service"
STARTS = f"journalctl -q -o short-unix --no-pager -u {SERVICE} | grep -F ': Starting ' | cut -d. -f1"


@pytest.fixture(scope="module")
def followed():
    """Two offices that know each other by name."""
    with Lab(2, rtt=0.080, systemd=True) as lab:
        offices = company(lab)
        sites = tuple(replace(site, endpoint=Endpoint(f"{site.name}.example", 51820)) for site in offices.network.sites)
        offices.network = replace(offices.network, sites=sites)
        yield offices


def test_both_addresses_change_and_one_interval_of_the_timer_brings_the_tunnel_back(followed, told):
    offices = followed
    report = offices.apply(offices.network)
    assert report.exit_code == 0, report.lines()
    assert offices.reaches("alpha", "beta") and offices.reaches("beta", "alpha")
    for name in ("alpha", "beta"):
        offices.lab.internet.renumber(name)
    began = time.monotonic()
    assert not offices.client("alpha").ping(offices.client("beta").address, timeout=1)
    shaken = {name: int(offices.dump(name)[0][4]) for name in ("alpha", "beta")}
    new = {
        name: f"{offices.lab.office(other).place.wan}:51820" for name, other in (("alpha", "beta"), ("beta", "alpha"))
    }
    deadline = time.monotonic() + 500
    while not any(offices.dump(name)[0][2] == new[name] for name in new):
        assert time.monotonic() < deadline, "neither of them has looked the name up"
        time.sleep(0.5)
    # The first run of either timer for which the peer had been silent long enough has found it.
    for name in new:
        runs = [int(line) for line in offices.server(name).shell(STARTS).split()]
        assert len(runs) > 2
        assert len([at for at in runs if at >= shaken[name] + SILENT]) <= 1
    assert offices.reaches("alpha", "beta") and offices.reaches("beta", "alpha")
    told(f"both addresses new: back after {time.monotonic() - began:.0f} s")
    assert not offices.apply(offices.network).changed
