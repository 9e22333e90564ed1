"""One change of several servers: all of them run the new configuration afterwards, or all the old one. Decides on no action.

    act       each server arms its own rollback, then acts; all at once
    shake     new tunnels shake hands; packets that went another way until then go through them from here on
    confirm   a FRESH connection to every server, and facts that are as planned: the old connections prove nothing
    disarm    everywhere; or, when anything of that failed, everything is rolled back, and the report says what is known of each

The servers do not depend on this process: a change that is not confirmed in time rolls back by itself.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import roamlet
from roamlet_vpn.host import act as host_act
from roamlet_vpn.host import handshake as host_handshake
from roamlet_vpn.host import live as host_live
from roamlet_vpn.host import rollback as host_rollback
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.planning.actions import Action
from roamlet_vpn.servers import Servers
from roamlet_vpn.wireguard.actions import Hold

ROLLBACK_AFTER = 60.0  # seconds
SHORTEST = 5.0  # a confirmation takes a few round trips, and sometimes a handshake
RECONNECTING = 10.0  # seconds for one try of a fresh connection
COMING_BACK = (
    90.0  # a server that is reached through the tunnel alone: after its rollback that may need so long to shake hands
)
GRACE = 5.0  # for any other: when its rollback is due it has been done, or its line is cut
ASKING_BACK = 30.0
SHAKING_HANDS = 4.0  # seconds that new tunnels have to shake hands, where nothing depends on it

State = Literal["unchanged", "changed", "rolled back", "out of reach", "unknown"]
Say = Callable[[str], object]
Left = Mapping[str, tuple[str, ...]]
"""What is not as it should be, by site."""


@dataclass(frozen=True)
class SiteReport:
    """How it ended for one site. `detail` says why, where there is something to say."""

    name: str
    state: State
    detail: str = ""
    actions: tuple[str, ...] = ()  # what was done; empty unless it has been changed


@dataclass(frozen=True)
class Report:
    """How a change ended. `failure` is why all was rolled back, or not all confirmed; None when everything was."""

    sites: tuple[SiteReport, ...]
    failure: str | None = None
    left: Left = field(default_factory=dict)

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

    def lines(self) -> list[str]:
        """It all in words, a line or two a site."""
        lines = []
        for site in self.sites:
            lines.append(f"{site.name}: {site.state}" + (f" ({site.detail})" if site.detail else ""))
            lines += [f"    {action}" for action in site.actions]
            lines += [f"    still to do: {what}" for what in self.left.get(site.name, ())]
        if self.failure is not None:
            lines.append(f"FAILED: {self.failure}")
        return lines


@dataclass(frozen=True)
class Handshake:
    """A tunnel that must work after the change: the site that calls, the one that is called, its key, its tunnel address."""

    caller: str
    called: str
    public_key: str
    address: str


class _Failed(Exception):
    """Something is not as it must be to confirm; the message says what."""


class Transaction:
    """`wanted` has the actions of each server that is changed; `keep_reachable` are sites that were connected and must
    stay within reach.

    `check` is given the facts after the change, and says what is not as it should be. It is reported; and where it is of a server
    whose connection broke while it changed, all is rolled back. `untouched`: reports of the sites that are no part of it.
    `handshakes`: tunnels that are waited for. A missing handshake is left to `roamlet vpn check`, unless a site has a
    route in use that the tunnel is to take over (Hold): then all is rolled back.
    """

    def __init__(
        self,
        servers: Servers,
        wanted: Mapping[str, Sequence[Action]],
        *,
        keep_reachable: Sequence[str] = (),
        untouched: Sequence[SiteReport] = (),
        check: Callable[[dict[str, Facts]], Left],
        handshakes: Sequence[Handshake] = (),
        rollback_after: float = ROLLBACK_AFTER,
        say: Say = lambda line: None,
    ) -> None:
        if not rollback_after >= SHORTEST:
            raise ValueError(f"rollback_after must be {SHORTEST:.0f} seconds or more, not {rollback_after!r}")
        self._servers = servers
        self._wanted = dict(wanted)
        self._all = [*self._wanted, *keep_reachable]
        self._untouched = (*untouched, *(SiteReport(name, "unchanged") for name in keep_reachable))
        self._check = check
        self._handshakes = tuple(handshakes)
        self._rollback_after = rollback_after
        self._say = say
        self._token = secrets.token_hex(8)
        self._deadline = 0.0  # when the first server may roll back by itself
        self._doubtful: list[str] = []  # sites that may have done only a part of it
        self._refused: set[str] = set()  # sites that raised rather than act
        self._never_armed: set[str] = set()  # sites that know of no rollback when they are asked for it
        self._settled: dict[str, str] = {}  # sites that have rolled back by themselves, with what they said
        self._left: Left = {}

    def run(self) -> Report:
        """Do it. Interrupted, it tells all servers to roll back, and raises what interrupted it. Blocks this tasklet only."""
        self._deadline = time.monotonic() + self._rollback_after
        try:
            self._act()
            self._shake_hands()
            self._confirm()
            return self._disarm()
        except _Failed as failure:
            return self._roll_back(str(failure))
        except BaseException:
            self._say("interrupted: rolling back")
            self._ask_back(list(self._wanted), {})  # those that do not hear it do so by themselves
            raise

    def _act(self) -> None:
        """Have all servers act at once. Raises _Failed when one says that it could not."""
        self._say(
            f"changing {', '.join(self._wanted)}; what is not confirmed rolls back after {self._rollback_after:.0f} s"
        )
        interface = self._servers.network.interface
        arguments = {
            name: (interface, [action.plain() for action in actions], self._token, self._rollback_after)
            for name, actions in self._wanted.items()
        }
        problems = []
        for name, answer in self._servers.each(host_act.act, arguments, timeout=self._rollback_after / 2).items():
            if isinstance(answer.error, ConnectionError | TimeoutError):
                # The change may have cut the connection that it came by, and all be well. The fresh one will tell.
                self._say(f"{name}: the connection was lost while it changed")
                self._doubtful.append(name)
            elif answer.error is not None:
                self._refused.add(name)
                problems.append(f"{name}: {reason(answer.error)}")
            elif not isinstance(answer.value, dict) or answer.value.get("error") is not None:
                said = (
                    answer.value
                    if isinstance(answer.value, dict)
                    else {"error": "it answers something else than was asked"}
                )
                if _has_rolled_back(said.get("outcome")):
                    self._settled[name] = _errors(said["outcome"])
                problems.append(f"{name}: {said['error']}")
        if problems:
            raise _Failed("; ".join(problems))

    def _shake_hands(self) -> None:
        """Have new tunnels shake hands, then let go of the routes that were held until then."""
        holding = [name for name, actions in self._wanted.items() if any(isinstance(one, Hold) for one in actions)]
        calls: dict[str, dict[str, str]] = {}
        for one in self._handshakes:
            if one.caller in self._wanted and one.caller not in self._doubtful:
                calls.setdefault(one.caller, {})[one.public_key] = one.address
        patience = min(2 * SHAKING_HANDS if holding else SHAKING_HANDS, self._rollback_after / 4)
        interface = self._servers.network.interface
        arguments = {name: (interface, self._token, peers, patience) for name, peers in calls.items()}
        missing = set()
        for name, answer in self._servers.each(
            host_handshake.shake_hands, arguments, timeout=self._rollback_after / 2
        ).items():
            if answer.error is not None:
                self._say(f"{name}: {reason(answer.error)}")
            failed = answer.value if isinstance(answer.value, list) else calls[name]
            missing |= {
                (name, one.called) for one in self._handshakes if one.caller == name and one.public_key in failed
            }
        pairs = [f"{caller} and {called}" for caller, called in sorted(missing)]
        depends = [name for name in holding if any(name in pair for pair in missing)]
        if depends:
            raise _Failed(
                f"{', '.join(pairs)} do not shake hands, and {', '.join(depends)} would give up a way that works for that tunnel; "
                "is the UDP port forwarded? `roamlet vpn gateway` has the lines"
            )
        if pairs:
            self._say(f"no handshake yet: {', '.join(pairs)}; `roamlet vpn check` says why")
        released = self._servers.each(
            host_live.release_routes, dict.fromkeys(holding, ()), timeout=self._rollback_after / 2
        )
        for name, answer in released.items():
            if answer.error is not None:
                raise _Failed(f"{name}: {reason(answer.error)}")

    def _confirm(self) -> None:
        """Reach every server anew, those that were not changed too: a change of one may have cut off another."""
        self._say("confirming by fresh connections")
        errors: dict[str, Exception] = dict.fromkeys(self._all, TimeoutError("there was no time to try it"))
        latest = self._deadline - max(2.0, self._rollback_after / 6)
        while errors and time.monotonic() < latest:
            patience = max(1.0, min(RECONNECTING, latest - time.monotonic()))
            errors = self._servers.connect(errors, timeout=patience, fresh=True)
            if errors:
                roamlet.sleep(0.5)
        if errors:
            name, error = next(iter(errors.items()))
            raise _Failed(f"{name} cannot be reached any more: {reason(error)}")
        facts: dict[str, Facts] = {}
        for name, answer in self._servers.facts(self._all).items():
            if answer.value is None:
                raise _Failed(f"{name} does not answer as before: {reason(answer.error)}")
            facts[name] = answer.value
        for name in self._wanted:
            armed = facts[name].rollback
            if armed is None or armed.token != self._token:
                raise _Failed(f"{name} has rolled back before it could be confirmed")
        self._left = self._check(facts)
        for name in self._doubtful:
            if self._left.get(name):
                raise _Failed(f"{name} was cut off in the middle of its change: {'; '.join(self._left[name])}")

    def _disarm(self) -> Report:
        patience = max(5.0, self._deadline - time.monotonic())
        answers = self._servers.each(
            host_rollback.disarm, dict.fromkeys(self._wanted, (self._token,)), timeout=patience
        )
        reports = list(self._untouched)
        problems: list[str] = []
        for name, answer in answers.items():
            if answer.value == host_rollback.DISARMED:
                done = tuple(action.describe() for action in self._wanted[name])
                reports.append(SiteReport(name, "changed", actions=done))
            elif answer.value == host_rollback.ROLLED_BACK:
                reports.append(SiteReport(name, "rolled back", "it was confirmed too late"))
                problems.append(f"{name} has rolled back by itself")
            else:
                why = reason(answer.error) if answer.error else "it knows nothing of the change: was it restarted?"
                reports.append(SiteReport(name, "unknown", why))
                problems.append(f"{name} may have rolled back: {why}")
        failure = "; ".join(problems) + ". Look with `roamlet vpn plan`, and apply again" if problems else None
        return Report(self._in_order(reports), failure, self._left)

    def _roll_back(self, failure: str) -> Report:
        """Every server back to what it was, and what is known of each."""
        self._say(f"rolling back: {failure}")
        outcomes = dict(self._settled)
        missing = self._ask_back([name for name in self._wanted if name not in outcomes], outcomes)
        inside = self._servers.reached_through_tunnel(missing)
        while missing:
            latest = self._deadline + (COMING_BACK if inside.intersection(missing) else GRACE)
            left = latest - time.monotonic()
            if left <= 0:
                break
            self._say(f"waiting for {', '.join(missing)} to come back")
            roamlet.sleep(min(1.0, left))
            errors = self._servers.connect(missing, timeout=max(1.0, min(RECONNECTING, left)), fresh=True)
            missing = [*errors, *self._ask_back([name for name in missing if name not in errors], outcomes)]
        reports = list(self._untouched)
        for name in self._wanted:
            if name in self._refused and name in self._never_armed:
                reports.append(SiteReport(name, "unchanged"))
            elif name in outcomes:
                reports.append(SiteReport(name, "rolled back", outcomes[name]))
            else:
                why = "it cannot be reached; it has rolled back by itself, unless it was switched off"
                reports.append(SiteReport(name, "unknown", why))
        return Report(self._in_order(reports), failure)

    def _ask_back(self, names: list[str], outcomes: dict[str, str]) -> list[str]:
        """Tell these to roll back; note what they say, and return those of which nothing was heard."""
        silent = []
        patience = min(ASKING_BACK, max(GRACE, self._deadline - time.monotonic()))
        answers = self._servers.each(host_rollback.roll_back, dict.fromkeys(names, (self._token,)), timeout=patience)
        for name, answer in answers.items():
            if answer.value is None:
                silent.append(name)
            else:
                outcomes[name] = _errors(answer.value)
                if isinstance(answer.value, dict) and answer.value.get("outcome") == host_rollback.UNKNOWN:
                    self._never_armed.add(name)
        return silent

    def _in_order(self, reports: Sequence[SiteReport]) -> tuple[SiteReport, ...]:
        order = [site.name for site in self._servers.network.sites]
        return tuple(sorted(reports, key=lambda report: order.index(report.name)))


def reason(error: BaseException | None) -> str:
    """The first line of an error, for a report."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _has_rolled_back(outcome: Any) -> bool:
    return isinstance(outcome, dict) and outcome.get("outcome") == host_rollback.ROLLED_BACK


def _errors(outcome: Any) -> str:
    """What a rollback says that it could not restore."""
    if not isinstance(outcome, dict) or not outcome.get("errors"):
        return ""
    return "could not be restored: " + "; ".join(str(error) for error in outcome["errors"])
