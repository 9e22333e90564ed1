"""What a plan is, and the parts of one that do not depend on the backend. Pure.

The plans themselves are made in wireguard/plan.py and ssh/plan.py. A plan that was carried out leaves nothing to do: made again
from what the servers report then, it is empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from roamlet_vpn.model.edit import FileChange
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Network
from roamlet_vpn.planning.actions import Action, Forward


@dataclass(frozen=True)
class Refusal:
    """Why nothing is applied; the site is where."""

    site: str
    message: str


@dataclass(frozen=True)
class Note:
    """Something about a server that changes nothing, but that the reader of the plan should know."""

    site: str
    message: str
    wrong: bool = False  # whether it keeps something from working, although it is not apply's to change


@dataclass(frozen=True)
class Plan:
    """What is to be done. `sites` has every site whose facts are known, in the file's order, perhaps with nothing to do."""

    sites: Mapping[str, tuple[Action, ...]]
    file_changes: tuple[FileChange, ...] = ()
    refusals: tuple[Refusal, ...] = ()  # while there are any, nothing may be applied
    notes: tuple[Note, ...] = ()
    unreachable: Mapping[str, str] | None = None  # why there are no facts of a site

    @property
    def empty(self) -> bool:
        """Nothing is to be done, and nothing is refused. Sites out of reach do not count: their state is not known."""
        return not (any(self.sites.values()) or self.file_changes or self.refusals)

    @property
    def exit_code(self) -> int:
        """0 nothing to do; 1 refused, or not all sites were reached; 2 there is a difference."""
        return 1 if self.refusals or self.unreachable else 0 if self.empty else 2


def given_addresses(network: Network) -> tuple[FileChange, ...]:
    """The addresses that sites without one get, for the file, in which they stay."""
    pairs = zip(network.sites, network.with_addresses().sites, strict=True)
    return tuple(
        FileChange(new.name, "address", str(new.address) if new.second is None else [str(new.address), str(new.second)])
        for old, new in pairs
        if (old.address, old.second) != (new.address, new.second)
    )


def forwarding_actions(network: Network, facts: Facts) -> list[Action]:
    """What turns forwarding on, now and after a restart, where it is not."""
    families = sorted(
        {lan.version for site in network.sites for lan in site.lans} | {lan.version for lan in network.tunnels}
    )
    actions: list[Action] = []
    for family in families:
        now = facts.forwarding[family]
        if now.live is None or (now.live and now.persistent):
            continue
        why = "off" if not now.live else "on, but off again after a restart"
        # With forwarding on, the kernel ignores router advertisements unless accept_ra is 2: a default route by one would end.
        routed = {route.dev for route in facts.routes if route.protocol == "ra" and family == 6}
        told = tuple(name for name, device in facts.devices.items() if device.accept_ra == 1 and name in routed)
        actions.append(Forward(f"forwarding of IPv{family} is {why}", family, not now.live, not now.persistent, told))
    return actions
