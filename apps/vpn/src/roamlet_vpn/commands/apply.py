"""Makes the servers what the network says: takes a survey, has missing keys made, plans, and carries the plan out
(commands/transaction.py).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from roamlet_vpn.backends import backend_of, make_plan
from roamlet_vpn.commands.transaction import ROLLBACK_AFTER, Handshake, Report, Say, SiteReport, Transaction, reason
from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Network
from roamlet_vpn.planning.actions import Action, MakeKey
from roamlet_vpn.planning.plan import Plan
from roamlet_vpn.servers import Servers
from roamlet_vpn.wireguard.actions import Hold, LinkUp, Sync, Up
from roamlet_vpn.wireguard.plan import known_keys


class NotApplied(VpnError):
    """Nothing was changed on any server, but keys may have been made. The message says why, and what to do."""


@dataclass(frozen=True)
class Survey:
    """What the servers say, and the plan that follows from it."""

    facts: Mapping[str, Facts]
    plan: Plan
    keys: Mapping[str, str]  # the public key that each site is to have, where it is known


def take_survey(network: Network, servers: Servers, keys: Mapping[str, str] | None = None) -> Survey:
    """Gather the facts of all servers at once, over the connections that are open or can be opened, and plan.

    `keys` as for make_plan. Changes nothing. Blocks this tasklet only.
    """
    servers.connect([site.name for site in network.sites])
    return _surveyed(network, servers, keys)


def _surveyed(network: Network, servers: Servers, keys: Mapping[str, str] | None) -> Survey:
    """The same, over the connections that are open."""
    names = [site.name for site in network.sites]
    facts: dict[str, Facts] = {}
    unreachable: dict[str, str] = {}
    for name, answer in servers.facts(names).items():
        if answer.value is not None:
            facts[name] = answer.value
        else:
            unreachable[name] = reason(answer.error)
    plan = make_plan(network, facts, keys, unreachable)
    return Survey(facts, plan, {**known_keys(network.with_addresses(), facts), **(keys or {})})


def apply(
    network: Network,
    servers: Servers,
    *,
    survey: Survey | None = None,
    partial: bool = False,
    rotate: Collection[str] = (),
    rollback_after: float = ROLLBACK_AFTER,
    before: Callable[[Plan], object] | None = None,
    more: Mapping[str, tuple[Action, ...]] | None = None,
    say: Say = lambda line: None,
) -> Report:
    """Make the servers what the network says. `servers` know all of its sites, and are connected where they are not.

    `survey`: the result of take_survey(), where it was shown before; else apply() takes one. `partial`: sites out of
    reach are left as they are, and the others changed; without it nothing is. `rotate`: sites that get a new key.
    `before` is called with the plan once nothing refuses it any more, before the first server is changed: to
    write what the network's file gets. `more`: actions for servers that are no longer sites of the network, done in the
    same change. `say` gets lines that tell how far it is.

    Raises NotApplied when nothing was changed; what was changed and rolled back is in the report. Interrupted, it tells all
    servers to roll back, and raises what interrupted it. Blocks this tasklet only.
    """
    survey = survey or take_survey(network, servers)
    _refuse(survey, partial, rotate)
    survey = _with_keys(network, servers, survey, rotate, say)
    _refuse(survey, partial, rotate)
    if before is not None:
        before(survey.plan)
    unreachable = survey.plan.unreachable or {}
    absent = [SiteReport(name, "out of reach", why) for name, why in unreachable.items()]
    wanted = {name: actions for name, actions in survey.plan.sites.items() if actions} | dict(more or {})
    others = [name for name in survey.facts if name not in wanted]
    if not wanted:
        found = {report.name: report for report in absent} | {name: SiteReport(name, "unchanged") for name in others}
        return Report(tuple(found[site.name] for site in network.sites))

    def left(facts: dict[str, Facts]) -> dict[str, tuple[str, ...]]:
        ours = {name: facts[name] for name in survey.facts}
        sites = make_plan(network, ours, unreachable=unreachable).sites
        return {name: tuple(action.repairs for action in actions) for name, actions in sites.items() if actions}

    return Transaction(
        servers,
        wanted,
        keep_reachable=others,
        untouched=absent,
        check=left,
        handshakes=_handshakes(network.with_addresses(), survey),
        rollback_after=rollback_after,
        say=say,
    ).run()


def _handshakes(network: Network, survey: Survey) -> list[Handshake]:
    """The tunnels that the plan makes or changes, each called from an end that changes and knows the other's endpoint."""
    changed = {
        name
        for name, actions in survey.plan.sites.items()
        if any(isinstance(action, Hold | LinkUp | Sync | Up) for action in actions)
    }
    there = survey.facts.keys() & survey.keys.keys()
    handshakes = []
    for site, peer in network.pairs():
        if not {site.name, peer.name} <= there:
            continue
        for caller, called in ((site, peer), (peer, site)):
            if caller.name in changed and called.endpoint is not None:
                handshakes.append(Handshake(caller.name, called.name, survey.keys[called.name], str(called.address)))
                break
    return handshakes


def _refuse(survey: Survey, partial: bool, rotate: Collection[str]) -> None:
    """Raise NotApplied if this must not be carried out."""
    if survey.plan.refusals:
        lines = [f"    {refusal.site}: {refusal.message}" for refusal in survey.plan.refusals]
        raise NotApplied("nothing was changed:\n" + "\n".join(lines))
    unreachable = survey.plan.unreachable or {}
    if unreachable and not (partial and survey.facts):
        lines = [f"    {name}: {why}" for name, why in unreachable.items()]
        if survey.facts:
            lines.append("Change the others with --partial: the tunnels to these sites stay as far as they can.")
        raise NotApplied("nothing was changed, because not every server can be reached:\n" + "\n".join(lines))
    gone = [name for name in rotate if name not in survey.facts]
    if gone:
        raise NotApplied(f"nothing was changed: {', '.join(gone)} must be reached to get a new key")


def _with_keys(network: Network, servers: Servers, survey: Survey, rotate: Collection[str], say: Say) -> Survey:
    """Make the missing keys, each on its server, and then take the survey again."""
    missing = [
        name
        for name, actions in survey.plan.sites.items()
        if name in rotate or any(isinstance(action, MakeKey) for action in actions)
    ]
    if not missing:
        return survey
    say(f"making keys on {', '.join(missing)}")
    make = backend_of(network).make_key
    made = servers.each(make, dict.fromkeys(missing, (network.interface,)))
    errors = [f"    {name}: {reason(answer.error)}" for name, answer in made.items() if answer.error is not None]
    if errors:
        raise NotApplied("nothing was changed, because a key could not be made:\n" + "\n".join(errors))
    return _surveyed(network, servers, {name: str(answer.value) for name, answer in made.items()})
