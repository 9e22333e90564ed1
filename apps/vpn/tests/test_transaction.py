"""One change of several servers: all of them or none, whatever fails in between, and a report that is true of each."""

from dataclasses import dataclass, field
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import pytest

from roamlet.remote import CallTimeout, ContextDied, HostUnreachable, Result
from roamlet_vpn.commands import transaction
from roamlet_vpn.commands.transaction import Handshake, Report, SiteReport, Transaction
from roamlet_vpn.host import act as host_act
from roamlet_vpn.host import handshake as host_handshake
from roamlet_vpn.host import live as host_live
from roamlet_vpn.host import rollback as host_rollback
from roamlet_vpn.wireguard.actions import Hold, LinkUp, Mtu

DONE = {"done": 1, "error": None, "outcome": None}
BACK = {"outcome": host_rollback.ROLLED_BACK, "errors": []}


@dataclass
class Fleet:
    """In place of Servers: two that are changed and one that is not, and what is to go wrong."""

    acts: dict[str, Any] = field(default_factory=dict)  # what act answers, by site: a dict or an error
    cut_off: dict[str, int] = field(default_factory=dict)  # how many fresh connections to a site fail
    armed: dict[str, bool] = field(default_factory=dict)  # False: it has rolled back before it was asked
    disarms: dict[str, Any] = field(default_factory=dict)
    backs: dict[str, Any] = field(default_factory=dict)  # what roll_back answers, by site
    strangers: dict[str, Any] = field(
        default_factory=dict
    )  # what shake_hands answers, by site: keys that did not shake hands
    interrupt: bool = False
    heard: list[str] = field(default_factory=list)
    token: str = ""
    network = SimpleNamespace(
        interface="wg0", sites=[SimpleNamespace(name=name) for name in ("alpha", "beta", "gamma")]
    )

    inside: frozenset[str] = frozenset()  # sites that ssh reaches through the tunnel

    def reached_through_tunnel(self, names):
        return self.inside.intersection(names)

    def each(self, function, arguments, *, timeout):
        assert timeout > 0
        self.heard += [f"{function.__name__} {name}" for name in arguments]
        return {name: self._answer(function, name, args) for name, args in arguments.items()}

    def _answer(self, function, name, args):
        if function is host_act.act:
            self.token = args[2]
            value = self.acts.get(name, DONE)
        elif function is host_handshake.shake_hands:
            value = self.strangers.get(name, [])
        elif function is host_live.release_routes:
            value = None
        elif function is host_rollback.disarm:
            value = self.disarms.get(name, host_rollback.DISARMED)
        elif name in self.backs:
            value = self.backs[name]
        else:
            value = ContextDied(f"{name} is gone") if self.cut_off.get(name) else BACK
        return Result(name, error=value) if isinstance(value, Exception) else Result(name, value=value)

    def connect(self, names, *, timeout, fresh):
        assert fresh
        if self.interrupt:
            raise KeyboardInterrupt
        errors = {}
        for name in names:
            if self.cut_off.get(name):
                self.cut_off[name] -= 1
                errors[name] = HostUnreachable(f"no host answers at {name}\n    more")
        return errors

    def facts(self, names):
        rollback = SimpleNamespace(token=self.token)
        return {
            name: Result(name, value=SimpleNamespace(rollback=rollback if self.armed.get(name, True) else None))
            for name in names
        }


@pytest.fixture
def clock(monkeypatch):
    """Time passes when somebody sleeps, and a second with each look at the clock."""
    now = [1000.0]

    def monotonic():
        now[0] += 1
        return now[0]

    monkeypatch.setattr(transaction, "time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr(
        transaction, "roamlet", SimpleNamespace(sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    )


HANDSHAKE = Handshake("alpha", "beta", "beta's key", "10.8.1.2")


def run(fleet, left=None, *, hold=False, **options):
    wanted = {"alpha": (Mtu("it is 1420", 1380),), "beta": (LinkUp("it is down"),)}
    if hold:
        wanted["beta"] += (Hold("another way", ((ip_network("192.168.10.0/24"), "tun1", None),)),)
    return Transaction(fleet, wanted, keep_reachable=["gamma"], check=lambda facts: left or {}, **options).run()


def states(report: Report) -> dict[str, str]:
    return {site.name: site.state for site in report.sites}


ALL_BACK = {"alpha": "rolled back", "beta": "rolled back", "gamma": "unchanged"}


def test_all_goes_well(clock):
    fleet = Fleet()
    report = run(fleet)
    assert states(report) == {"alpha": "changed", "beta": "changed", "gamma": "unchanged"}
    assert report.sites[0] == SiteReport("alpha", "changed", actions=("set the MTU to 1380",))
    assert report.exit_code == 0 and report.changed and report.failure is None
    assert fleet.heard == ["act alpha", "act beta", "disarm alpha", "disarm beta"]


def test_new_tunnels_are_waited_for_and_held_routes_let_go_before_it_is_confirmed(clock):
    fleet = Fleet()
    assert run(fleet, hold=True, handshakes=[HANDSHAKE]).exit_code == 0
    assert fleet.heard[2:] == ["shake_hands alpha", "release_routes beta", "disarm alpha", "disarm beta"]


def test_a_tunnel_that_does_not_come_is_told_and_changes_nothing(clock):
    said = []
    report = run(Fleet(strangers={"alpha": ["beta's key"]}), handshakes=[HANDSHAKE], say=said.append)
    assert report.exit_code == 0
    assert "no handshake yet: alpha and beta; `roamlet vpn check` says why" in said


@pytest.mark.parametrize("answer", [["beta's key"], ContextDied("the connection broke"), "nonsense"])
def test_a_way_that_works_is_not_given_up_for_a_tunnel_that_does_not_come(clock, answer):
    fleet = Fleet(strangers={"alpha": answer})
    report = run(fleet, hold=True, handshakes=[HANDSHAKE])
    assert states(report) == ALL_BACK
    assert report.failure.startswith("alpha and beta do not shake hands, and beta would give up a way that works")
    assert "release_routes beta" not in fleet.heard


def test_one_that_cannot_act_takes_the_other_back(clock):
    fleet = Fleet(acts={"beta": {"done": 0, "error": "link_up: no such device", "outcome": BACK}})
    report = run(fleet)
    assert states(report) == ALL_BACK and report.exit_code == 1
    assert report.failure == "beta: link_up: no such device"
    assert fleet.heard[2:] == ["roll_back alpha"]


def test_one_that_never_began_because_somebody_else_is_at_work_is_reported_as_it_is(clock):
    unknown = {"outcome": host_rollback.UNKNOWN, "errors": []}
    fleet = Fleet(acts={"beta": RuntimeError("another change waits to be confirmed")}, backs={"beta": unknown})
    report = run(fleet)
    assert states(report) == {"alpha": "rolled back", "beta": "unchanged", "gamma": "unchanged"}
    assert report.failure == "beta: another change waits to be confirmed" and report.exit_code == 1


@pytest.mark.parametrize("answer", ["nonsense", None, {"error": "link_up: no such device", "outcome": 7}])
def test_an_answer_that_is_none_takes_all_back(clock, answer):
    report = run(Fleet(acts={"beta": answer}))
    assert states(report) == ALL_BACK
    assert report.failure.startswith("beta: ")


def test_what_a_server_could_not_restore_stands_in_the_report(clock):
    outcome = {"outcome": host_rollback.ROLLED_BACK, "errors": ["MTU: no such device"]}
    report = run(Fleet(acts={"beta": {"done": 0, "error": "link_up: no such device", "outcome": outcome}}))
    assert report.sites[1].detail == "could not be restored: MTU: no such device"


def test_a_server_that_cannot_be_reached_anew_takes_all_back_and_is_waited_for(clock):
    fleet = Fleet(cut_off={"beta": 30}, inside=frozenset({"beta"}))
    report = run(fleet)
    assert states(report) == ALL_BACK and report.exit_code == 1
    assert report.failure == "beta cannot be reached any more: no host answers at beta"
    assert fleet.heard == ["act alpha", "act beta", "roll_back alpha", "roll_back beta", "roll_back beta"]


@pytest.mark.parametrize(("inside", "longest"), [((), 70), (("beta",), 160)])
def test_a_line_that_is_cut_is_not_waited_for_longer_than_its_rollback_takes(clock, inside, longest):
    """But for a server that is reached through the tunnel: that may have to shake hands again."""
    began = transaction.time.monotonic()
    report = run(Fleet(cut_off={"beta": 10_000}, inside=frozenset(inside)))
    assert states(report) == {**ALL_BACK, "beta": "unknown"}
    assert longest - 40 < transaction.time.monotonic() - began < longest


def test_one_that_never_comes_back_is_unknown(clock):
    report = run(Fleet(cut_off={"beta": 10_000}))
    assert states(report) == {**ALL_BACK, "beta": "unknown"}
    assert "it has rolled back by itself, unless it was switched off" in report.sites[1].detail


def test_an_unchanged_server_that_was_cut_off_counts_as_much(clock):
    report = run(Fleet(cut_off={"gamma": 10_000}))
    assert states(report) == ALL_BACK and "gamma cannot be reached any more" in report.failure


def test_a_fresh_connection_that_takes_a_few_tries_is_good_enough(clock):
    assert run(Fleet(cut_off={"beta": 3})).exit_code == 0


@pytest.mark.parametrize("error", [ContextDied("the connection broke"), CallTimeout("no answer")])
def test_a_lost_answer_is_judged_by_the_facts(clock, error):
    assert states(run(Fleet(acts={"beta": error})))["beta"] == "changed"
    report = run(Fleet(acts={"beta": error}), left={"beta": ("wg0 is down",)})
    assert states(report) == ALL_BACK
    assert report.failure == "beta was cut off in the middle of its change: wg0 is down"


def test_what_is_left_to_do_is_reported_and_kept(clock):
    report = run(Fleet(), left={"alpha": ("forwarding of IPv4 is off",)})
    assert states(report)["alpha"] == "changed" and report.exit_code == 1
    assert "    still to do: forwarding of IPv4 is off" in report.lines()


def test_one_that_has_rolled_back_already_takes_all_back(clock):
    report = run(Fleet(armed={"alpha": False}))
    assert states(report) == ALL_BACK and "alpha has rolled back before it could be confirmed" in report.failure


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (host_rollback.ROLLED_BACK, "rolled back", "beta has rolled back by itself"),
        (host_rollback.UNKNOWN, "unknown", "was it restarted"),
        (ContextDied("the connection broke"), "unknown", "beta may have rolled back: the connection broke"),
    ],
)
def test_a_confirmation_that_fails_for_one_is_told(clock, answer, state, said):
    report = run(Fleet(disarms={"beta": answer}))
    assert states(report) == {"alpha": "changed", "beta": state, "gamma": "unchanged"}
    assert said in report.failure and report.exit_code == 1


def test_interrupted_it_tells_all_to_roll_back(clock):
    fleet = Fleet(interrupt=True)
    with pytest.raises(KeyboardInterrupt):
        run(fleet)
    assert fleet.heard[2:] == ["roll_back alpha", "roll_back beta"]


def test_too_short_a_time_is_refused():
    with pytest.raises(ValueError, match="must be 5 seconds or more, not 2"):
        run(Fleet(), rollback_after=2)
