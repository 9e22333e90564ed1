"""`weft vpn apply` in a process of its own that kills itself at a certain step: python -m apps.vpn.tests.lab.applier LAB STEP

STEP is the beginning of what apply says when it comes there, or one of BEFORE_DISARMING and AFTER_ONE.
"""

import os
import signal
import sys
from dataclasses import replace

import weft_lab
from apps.vpn.tests.lab.conftest import company
from weft_vpn.apply import apply
from weft_vpn.host import rollback as host_rollback
from weft_vpn.network import Network
from weft_vpn.servers import Servers

BEFORE_DISARMING, AFTER_ONE = "before disarming", "after one"
ROLLBACK_AFTER = {BEFORE_DISARMING: 25.0, AFTER_ONE: 25.0}  # long enough to come there on a busy machine


def other(network: Network) -> Network:
    """The network with something else for every server: its MTU, and how often its peers hear of it."""
    return replace(network, sites=tuple(replace(site, mtu=1380, keepalive=20) for site in network.sites))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: str, line: str) -> None:
    if line.startswith(step):
        die()


class Dying(Servers):
    """Servers of somebody who dies when it comes to disarming."""

    step = ""

    def each(self, function, arguments, *, timeout=60.0):  # type: ignore[no-untyped-def]
        if function is host_rollback.disarm:
            if self.step == BEFORE_DISARMING:
                die()
            if self.step == AFTER_ONE:
                super().each(function, dict(list(arguments.items())[:1]), timeout=timeout)
                die()
        return super().each(function, arguments, timeout=timeout)


def main(lab_name: str, step: str) -> None:
    lab = weft_lab.running(lab_name)
    network = other(company(lab).network)
    Dying.step = step
    with Dying(network, ssh_config=lab.ssh_config) as servers:
        patience = ROLLBACK_AFTER.get(step, 6.0)
        apply(network, servers, rollback_after=patience, say=lambda line: die_at(step, line))


if __name__ == "__main__":
    main(*sys.argv[1:])
