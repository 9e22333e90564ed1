"""`roamlet vpn apply` in a process of its own that kills itself at a certain step: python -m apps.vpn.tests.lab.applier LAB STEP

STEP is the beginning of what apply says when it comes there; or the name of a call on the servers with how far it gets, as in
"make_key after one": before anybody is called, after one server was, or after all were; or "acting N": the first server is held
before its action N, the second before N + 1 and so on, and the process waits for its end by somebody else.
"""

import os
import signal
import sys
from dataclasses import replace

import roamlet_lab
from apps.vpn.tests.lab import dying
from apps.vpn.tests.lab.conftest import Patient, company
from roamlet_vpn.commands.apply import apply
from roamlet_vpn.host import act as host_act
from roamlet_vpn.model.network import Network

ROLLBACK_AFTER = 200.0  # longer than anything here takes: the tests let the time of a rollback run out
IMPOSSIBLE = {"do": "routes", "add": ["192.0.2.0/99"], "remove": []}
ROTATING = "rotating: "  # in front of a STEP: new keys for all


def other(network: Network) -> Network:
    """The network with something else for every server: its MTU, and how often its peers hear of it."""
    return replace(network, sites=tuple(replace(site, mtu=1380, keepalive=20) for site in network.sites))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: str, line: str) -> None:
    if line.startswith(step):
        die()


class Dying(Patient):
    """Servers of somebody who dies when it comes to a certain call."""

    step = ""

    def each(self, function, arguments, *, timeout=60.0):  # type: ignore[no-untyped-def]
        call, _, how_far = self.step.partition(" ")
        if function is host_act.act and call == "acting":
            held = {name: (int(how_far) + number, *args) for number, (name, args) in enumerate(arguments.items())}
            return super().each(dying.act_held, held, timeout=ROLLBACK_AFTER)
        if function is host_act.act and call == "roll_back":  # so that there is a reason to
            arguments = {name: (args[0], [*args[1], IMPOSSIBLE], *args[2:]) for name, args in arguments.items()}
        if function.__name__ != call:
            return super().each(function, arguments, timeout=timeout)
        if how_far != "before":
            reached = 1 if how_far == "after one" else len(arguments)
            super().each(function, dict(list(arguments.items())[:reached]), timeout=timeout)
        return die()


def main(lab_name: str, step: str) -> None:
    lab = roamlet_lab.running(lab_name)
    network = company(lab).network
    rotating = [site.name for site in network.sites] if step.startswith(ROTATING) else []
    step = step.removeprefix(ROTATING)
    if not rotating:
        network = other(network)
    Dying.step = step
    with Dying(network, ssh_config=lab.ssh_config) as servers:
        apply(
            network,
            servers,
            rotate=rotating,
            rollback_after=ROLLBACK_AFTER,
            say=lambda line: die_at(step, line),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
