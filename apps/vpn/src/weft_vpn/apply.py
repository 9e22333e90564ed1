"""Carries a plan out on all servers at once: all of them run the new configuration afterwards, or all the old one.

    look      connect, gather facts, plan. Changes nothing
    keys      those that are missing are made on their servers; then it looks again, with their public halves
    change    each server arms its own rollback, then acts; all at once
    confirm   a FRESH connection to every server, and facts that are as planned: the old connections prove nothing
    disarm    everywhere; or, when anything of that failed, everything is rolled back, and the report says what is known of each

What happens to this process in the middle of it does not matter to the servers: what is not confirmed in time rolls back by itself.
"""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import weft
from weft_vpn.actions import MakeKey
from weft_vpn.errors import VpnError
from weft_vpn.facts import Facts
from weft_vpn.host import act as host_act
from weft_vpn.host import rollback as host_rollback
from weft_vpn.network import Network
from weft_vpn.plan import Plan, make_plan
from weft_vpn.servers import Servers

__all__ = ["NotApplied", "Report", "SiteReport", "Survey", "apply", "look"]

ROLLBACK_AFTER = 60.0  # seconds
SHORTEST = 5.0  # a confirmation takes a few round trips, and sometimes a handshake
RECONNECTING = 10.0  # seconds for one try of a fresh connection
COMING_BACK = 90.0  # after its rollback a tunnel may need that long to shake hands again

State = Literal["unchanged", "changed", "rolled back", "out of reach", "unknown"]
Say = Callable[[str], object]


class NotApplied(VpnError):
    """Nothing was changed on any server, but keys may have been made. The message says why, and what to do."""


@dataclass(frozen=True)
class SiteReport:
    """How it ended for one site. `detail` says why, where there is something to say."""

    name: str
    state: State
    detail: str = ""
    actions: tuple[str, ...] = ()  # what was done; empty unless it has been changed


@dataclass(frozen=True)
class Report:
    """How an apply ended. `failure` is why all was rolled back; None when it was not."""

    sites: tuple[SiteReport, ...]
    failure: str | None = None
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what the plan would still do, by site

    @property
    def exit_code(self) -> int:
        """0 done, or nothing to do; 1 rolled back, or not all is as planned; 3 done, but some site was out of reach."""
        if self.failure is not None or any(self.left.values()):
            return 1
        return 3 if any(site.state == "out of reach" for site in self.sites) else 0

    @property
    def changed(self) -> bool:
        """Whether any server is another than before."""
        return any(site.state == "changed" for site in self.sites)


@dataclass(frozen=True)
class Survey:
    """What the servers say, and the plan that follows from it."""

    facts: Mapping[str, Facts]
    plan: Plan


def look(network: Network, servers: Servers, keys: Mapping[str, str] | None = None) -> Survey:
    """Gather the facts of all servers at once, over the connections that are open or can be opened, and plan.

    `keys` as for make_plan. Changes nothing. Blocks this tasklet only.
    """
    servers.connect()
    facts: dict[str, Facts] = {}
    unreachable: dict[str, str] = {}
    for name, answer in servers.facts().items():
        if answer.value is not None:
            facts[name] = answer.value
        else:
            unreachable[name] = _why(answer.error)
    return Survey(facts, make_plan(network, facts, keys, unreachable))


def apply(
    network: Network,
    servers: Servers,
    *,
    survey: Survey | None = None,
    partial: bool = False,
    rotate: Collection[str] = (),
    rollback_after: float = ROLLBACK_AFTER,
    before: Callable[[Plan], object] | None = None,
    say: Say = lambda line: None,
) -> Report:
    """Make the servers what the network says. `servers` belong to this network, and are connected where they are not.

    `survey`: what look() has found, if somebody has shown it; else it looks itself. `partial`: sites out of reach are left as they
    are, and the others changed; without it nothing is. `rotate`: sites that get a new key. `before` is called with the plan once
    nothing stands in its way any more, before the first server is changed: to write what the network's file gets. `say` gets lines
    that tell how far it is.

    Raises NotApplied when nothing was changed; what was changed and rolled back is in the report. Interrupted, it tells all
    servers to roll back, and raises what interrupted it. Blocks this tasklet only.
    """
    if not rollback_after >= SHORTEST:
        raise ValueError(f"rollback_after must be {SHORTEST:.0f} seconds or more, not {rollback_after!r}")
    survey = survey or look(network, servers)
    _refuse(survey, partial, rotate)
    survey = _with_keys(network, servers, survey, rotate, say)
    _refuse(survey, partial, rotate)
    if before is not None:
        before(survey.plan)
    wanted = {name: actions for name, actions in survey.plan.sites.items() if actions}
    if not wanted:
        return Report(tuple(_untouched(network, survey, "unchanged")))
    change = _Change(network, servers, survey, rollback_after, say)
    try:
        return change.run()
    except BaseException:
        change.abandon()
        raise


def _refuse(survey: Survey, partial: bool, rotate: Iterable[str]) -> None:
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
    """Have the keys made that are missing, each on its server, and look again if there were any."""
    missing = {
        name
        for name, actions in survey.plan.sites.items()
        if name in rotate or any(isinstance(action, MakeKey) for action in actions)
    }
    if not missing:
        return survey
    say(f"making keys on {', '.join(sorted(missing))}")
    made = servers.each(host_act.make_key, dict.fromkeys(missing, (network.interface,)))
    errors = [f"    {name}: {_why(answer.error)}" for name, answer in made.items() if answer.error is not None]
    if errors:
        raise NotApplied("nothing was changed, because a key could not be made:\n" + "\n".join(errors))
    return look(network, servers, {name: str(answer.value) for name, answer in made.items()})


def _untouched(network: Network, survey: Survey, state: State) -> Iterable[SiteReport]:
    unreachable = survey.plan.unreachable or {}
    for site in network.sites:
        if site.name in unreachable:
            yield SiteReport(site.name, "out of reach", unreachable[site.name])
        else:
            yield SiteReport(site.name, state)


class _Failed(Exception):
    """Something is not as it must be to confirm; the message says what."""


class _Change:
    """One change of several servers, from the first rollback that is armed to the last one that is not."""

    def __init__(self, network: Network, servers: Servers, survey: Survey, rollback_after: float, say: Say) -> None:
        self.network = network
        self.servers = servers
        self.survey = survey
        self.wanted = {name: actions for name, actions in survey.plan.sites.items() if actions}
        self.token = secrets.token_hex(8)
        self.rollback_after = rollback_after
        self.say = say
        self.deadline = 0.0  # when the first server may roll back by itself
        self.doubtful: list[str] = []  # sites of which nobody knows how far they have come
        self.left: dict[str, tuple[str, ...]] = {}
        self.settled: dict[str, str] = {}  # sites that have rolled back by themselves, with what they said

    def run(self) -> Report:
        self.deadline = time.monotonic() + self.rollback_after
        try:
            self._act()
            self._confirm()
            return self._disarm()
        except _Failed as failure:
            return self._roll_back(str(failure))

    def _act(self) -> None:
        """Have all servers act at once. Raises _Failed when one says that it could not."""
        self.say(
            f"changing {', '.join(self.wanted)}; what is not confirmed rolls back after {self.rollback_after:.0f} s"
        )
        orders = {
            name: (self.network.interface, [action.plain() for action in actions], self.token, self.rollback_after)
            for name, actions in self.wanted.items()
        }
        answers = self.servers.each(host_act.act, orders, timeout=self.rollback_after / 2)
        problems = []
        for name, answer in answers.items():
            if isinstance(answer.error, ConnectionError | TimeoutError):
                # The change may have cut the connection that it came by, and all be well. The fresh one will tell.
                self.say(f"{name}: the connection was lost while it changed")
                self.doubtful.append(name)
            elif answer.error is not None:
                self.settled[name] = ""
                problems.append(f"{name}: {_why(answer.error)}")
            elif answer.value is not None and answer.value["error"] is not None:
                self.settled[name] = _errors(answer.value["outcome"])
                problems.append(f"{name}: {answer.value['error']}")
        if problems:
            raise _Failed("; ".join(problems))

    def _confirm(self) -> None:
        """Reach every server anew, those that were not changed too: a change of one may have cut off another."""
        names = list(self.survey.facts)
        self.say("confirming by fresh connections")
        errors = dict.fromkeys(names, Exception("not tried yet"))
        latest = self.deadline - max(2.0, self.rollback_after / 6)
        while errors and time.monotonic() < latest:
            patience = min(RECONNECTING, latest - time.monotonic())
            errors = self.servers.connect(errors, timeout=max(1.0, patience), fresh=True)
            if errors:
                weft.sleep(0.5)
        if errors:
            name, error = next(iter(errors.items()))
            raise _Failed(f"{name} cannot be reached any more: {_why(error)}")
        answers = self.servers.facts(names)
        for name, answer in answers.items():
            if answer.error is not None:
                raise _Failed(f"{name} does not answer as before: {_why(answer.error)}")
        facts = {name: answer.get() for name, answer in answers.items()}
        for name in self.wanted:
            armed = facts[name].rollback
            if armed is None or armed.token != self.token:
                raise _Failed(f"{name} has rolled back before it could be confirmed")
        plan = make_plan(self.network, facts, unreachable=self.survey.plan.unreachable)
        self.left = {
            name: tuple(action.repairs for action in actions) for name, actions in plan.sites.items() if actions
        }
        for name in self.doubtful:
            if name in self.left:
                raise _Failed(f"{name} was cut off in the middle of its change: {'; '.join(self.left[name])}")

    def _disarm(self) -> Report:
        answers = self.servers.each(
            host_rollback.disarm, dict.fromkeys(self.wanted, (self.token,)), timeout=max(5.0, self._seconds_left())
        )
        reports: list[SiteReport] = []
        problems: list[str] = []
        for site in _untouched(self.network, self.survey, "unchanged"):
            if site.name not in answers:
                reports.append(site)
                continue
            answer = answers[site.name]
            if answer.value == host_rollback.DISARMED:
                done = tuple(action.describe() for action in self.wanted[site.name])
                reports.append(SiteReport(site.name, "changed", actions=done))
            elif answer.value == host_rollback.ROLLED_BACK:
                reports.append(SiteReport(site.name, "rolled back", "it was confirmed too late"))
                problems.append(f"{site.name} has rolled back by itself")
            else:
                why = _why(answer.error) if answer.error else "it knows nothing of the change: was it restarted?"
                reports.append(SiteReport(site.name, "unknown", why))
                problems.append(f"{site.name} may have rolled back: {why}")
        failure = "; ".join(problems) + ". Look with `weft vpn plan`, and apply again" if problems else None
        return Report(tuple(reports), failure, self.left)

    def _roll_back(self, failure: str) -> Report:
        """Every server back to what it was, and what is known of each."""
        self.say(f"rolling back: {failure}")
        outcomes: dict[str, str] = dict(self.settled)
        asked = [name for name in self.wanted if name not in outcomes]
        missing = self._ask_back(asked, outcomes)
        latest = self.deadline + COMING_BACK
        while missing and time.monotonic() < latest:
            self.say(f"waiting for {', '.join(missing)} to come back")
            weft.sleep(1.0)
            errors = self.servers.connect(missing, timeout=RECONNECTING, fresh=True)
            missing = [*errors, *self._ask_back([name for name in missing if name not in errors], outcomes)]
        reports: list[SiteReport] = []
        for site in _untouched(self.network, self.survey, "unchanged"):
            if site.name not in self.wanted:
                reports.append(site)
            elif site.name in outcomes:
                reports.append(SiteReport(site.name, "rolled back", outcomes[site.name]))
            else:
                why = "it cannot be reached; it has rolled back by itself, unless it was switched off"
                reports.append(SiteReport(site.name, "unknown", why))
        return Report(tuple(reports), failure)

    def _ask_back(self, names: list[str], outcomes: dict[str, str]) -> list[str]:
        """Tell these to roll back; note what they say, and return those of which nothing was heard."""
        answers = self.servers.each(host_rollback.roll_back, dict.fromkeys(names, (self.token,)), timeout=30.0)
        silent = []
        for name, answer in answers.items():
            if answer.value is None:
                silent.append(name)
            else:
                outcomes[name] = _errors(answer.value)
        return silent

    def abandon(self) -> None:
        """Tell all to roll back, as quickly as can be; those that do not hear it do so by themselves."""
        self.say("interrupted: rolling back")
        self._ask_back(list(self.wanted), {})

    def _seconds_left(self) -> float:
        return self.deadline - time.monotonic()


def _errors(outcome: Any) -> str:
    """What a rollback says that it could not restore."""
    if not isinstance(outcome, dict) or not outcome.get("errors"):
        return ""
    return "could not be restored: " + "; ".join(str(error) for error in outcome["errors"])


def _why(error: BaseException | None) -> str:
    """The first line of an error, as it may stand in a report."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
