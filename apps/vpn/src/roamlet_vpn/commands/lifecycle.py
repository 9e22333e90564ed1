"""Changes of a network that apply() alone does not make: a site leaves, a key is replaced, all tunnels go.

Each uses apply() or a Transaction, so each is confirmed by fresh connections or rolled back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from roamlet_vpn.backends import backend_of
from roamlet_vpn.commands.apply import NotApplied, apply
from roamlet_vpn.commands.transaction import ROLLBACK_AFTER, Report, Say, SiteReport, Transaction, reason
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.planning.actions import Action
from roamlet_vpn.servers import Servers


def remove(
    network: Network,
    servers: Servers,
    name: str,
    *,
    partial: bool = False,
    rollback_after: float = ROLLBACK_AFTER,
    say: Say = lambda line: None,
) -> Report:
    """Take a site out of `network`, to which `servers` belong: the others forget it, and its own interface goes.

    All in one change, and as apply() otherwise. Where the server of the site itself cannot be reached, the others forget it all the
    same, and the report says so: its own configuration stays as it is, and has no peers. Raises KeyError for an unknown site,
    NotApplied when nothing was changed.
    """
    leaving = network.site(name)
    if network.topology == "hub" and network.hub == name:
        raise NotApplied(f"{name} is the hub, and the others meet there: make another site the hub in the file first")
    _refuse_to_lose_foreign_peers(network, [leaving])
    whole = network.with_addresses()
    smaller = replace(whole, sites=tuple(site for site in whole.sites if site.name != name))
    errors = servers.connect([leaving.name])
    more: dict[str, tuple[Action, ...]] = {}
    if not errors:
        more[name] = (backend_of(network).down(f"{name} leaves the network", False),)
    report = apply(smaller, servers, partial=partial, rollback_after=rollback_after, more=more, say=say)
    if errors:
        why = f"{reason(errors[name])}; its own configuration is still there, and no peer answers to it"
        report = replace(report, sites=(*report.sites, SiteReport(name, "out of reach", why)))
    return report


def rotate(
    network: Network,
    servers: Servers,
    names: Sequence[str],
    *,
    rollback_after: float = ROLLBACK_AFTER,
    say: Say = lambda line: None,
) -> Report:
    """Give these sites new keys, made on their servers and told to their peers in the same transaction. Other tunnels
    are not touched.

    Theirs are silent for the moment between the first and the last server that changes; those of ssh until they have called
    anew, some seconds. Otherwise as apply().
    """
    for name in names:
        network.site(name)
    return apply(network, servers, rotate=names, rollback_after=rollback_after, say=say)


def down(
    network: Network,
    servers: Servers,
    *,
    keep_config: bool = False,
    partial: bool = False,
    rollback_after: float = ROLLBACK_AFTER,
    say: Say = lambda line: None,
) -> Report:
    """Take the tunnels away on all servers: interface, unit and, unless it is kept, configuration, which is renamed.

    A server that can be reached through the tunnel alone brings it back by itself, and with it all others: the report says so.
    Raises NotApplied when nothing was changed.
    """
    backend = backend_of(network)
    _refuse_to_lose_foreign_peers(network, network.sites)
    errors = servers.connect()
    if errors and not (partial and len(errors) < len(network.sites)):
        lines = [f"    {name}: {reason(error)}" for name, error in errors.items()]
        raise NotApplied("nothing was changed, because not every server can be reached:\n" + "\n".join(lines))
    absent = [SiteReport(name, "out of reach", reason(error)) for name, error in errors.items()]
    wanted: dict[str, tuple[Action, ...]] = {}
    others = []
    for name, answer in servers.facts([site.name for site in network.sites if site.name not in errors]).items():
        if answer.value is None:
            raise NotApplied(f"nothing was changed: {name}: {reason(answer.error)}")
        facts = answer.value
        if backend.is_down(facts, keep_config):
            others.append(name)
        else:
            wanted[name] = (backend.down("the network is taken down", keep_config),)

    def left(facts: dict[str, Facts]) -> dict[str, tuple[str, ...]]:
        return {name: ("tunnels are still there",) for name in wanted if not backend.is_down(facts[name], True)}

    if not wanted:
        return Report((*absent, *(SiteReport(name, "unchanged") for name in others)))
    transaction = Transaction(
        servers, wanted, keep_reachable=others, untouched=absent, check=left, rollback_after=rollback_after, say=say
    )
    return transaction.run()


def _refuse_to_lose_foreign_peers(network: Network, sites: Iterable[Site]) -> None:
    """Raise NotApplied where peers that are no sites would lose their tunnel with the interface."""
    kept = [f"{site.name} ({len(site.other_peers)})" for site in sites if site.other_peers]
    if kept and backend_of(network).foreign_peers:
        raise NotApplied(
            f"nothing was changed: peers that are no sites would lose their tunnel too: {', '.join(kept)}. If that is meant, "
            "take other_peers out of the file first"
        )
