"""Chooses the backend of a network. No other module compares `Network.backend` with a name, model/conflicts.py excepted."""

from collections.abc import Mapping

from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import BackendName, Network
from roamlet_vpn.planning.backend import Backend
from roamlet_vpn.planning.plan import Plan
from roamlet_vpn.ssh.backend import SSH
from roamlet_vpn.wireguard.backend import WIREGUARD

BACKENDS: dict[BackendName, Backend] = {"wireguard": WIREGUARD, "ssh": SSH}


def backend_of(network: Network) -> Backend:
    """The backend that network.toml names."""
    return BACKENDS[network.backend]


def make_plan(
    network: Network,
    facts: Mapping[str, Facts],
    keys: Mapping[str, str] | None = None,
    unreachable: Mapping[str, str] | None = None,
) -> Plan:
    """What must be done on each site of which there are facts.

    `keys` gives the public key that a site is to have, where that is not the one it has (a rotation). A site that has no key yet
    is written with MADE_BY_APPLY into the configurations of the others. A site of `unreachable` is known by what the others have
    of it. Raises FactsError for an invalid key: it would be written into the configurations of the others.
    """
    return backend_of(network).make_plan(network, facts, keys or {}, unreachable or {})
