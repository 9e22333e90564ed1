"""Hubs of a fan-out: which hosts become hubs, what goes through them, and what is told and run when one of them dies."""

import itertools
import os
import signal
from collections import Counter

import pytest
import roamlet_hubs_sent as sent
import roamlet_sent

from roamlet import remote
from roamlet.core import CancelScope
from roamlet.remote import hubs as hubs_module
from roamlet.sync import Event
from tests.remote.inside import calls_of, link_of
from tests.remote.raising import raises
from tests.remote.stopping import gone, stop

BY_LETTER = {"a": ["a1", "a2", "a3", "a4"], "b": ["b1", "b2", "b3"]}
HOSTS = ["a1", "b1", "a2", "alone", "b2", "a3", "b3", "a4"]


class Opener:
    """Opens local contexts in place of ssh, and notes how. `bad`: hosts that cannot be opened; `then(context)` comes afterwards."""

    def __init__(self, bad=(), then=lambda context: None, timeout=30):
        self.ways = []
        self.timeout = timeout
        self.bad = bad
        self.then = then

    def __call__(self, host, *, via=None, name=None):
        self.ways.append((host, via and via.name))
        if host in self.bad:
            raise remote.HostUnreachable(f"no way to {host}")
        context = remote.local(via=via, name=name or host, timeout=self.timeout)
        self.then(context)
        return context

    @property
    def direct(self):
        return [host for host, via in self.ways if via is None]


@pytest.fixture
def hubs():
    return remote.Hubs(BY_LETTER, beyond=5)


# ---- the plan


def test_few_hosts_are_opened_directly():
    assert remote.Hubs(BY_LETTER, beyond=8).plan(HOSTS) == []
    assert remote.Hubs(BY_LETTER, beyond=7).plan(HOSTS) == [[0, 2, 5, 7], [1, 4, 6]]
    assert remote.Hubs(BY_LETTER, beyond=0).plan([]) == []


def test_a_group_of_one_and_hosts_of_no_group_get_no_hub():
    assert remote.Hubs({"a": ["a1"], "b": ["b1", "b2"]}, beyond=0).plan(["a1", "b1", "c", "b2", None]) == [[1, 3]]


def test_a_large_group_gets_more_hubs_of_about_equal_size():
    plan = remote.Hubs(lambda host: "all", most=9, beyond=0).plan([str(number) for number in range(32)])
    assert [len(part) for part in plan] == [8, 8, 8, 8]
    assert list(itertools.chain.from_iterable(plan)) == list(range(32))


def test_subnets_are_found_by_address_and_by_name():
    assert [remote.subnet(host) for host in ("10.1.2.3", "root@10.1.2.200:2222", "10.1.3.3")] == [
        "10.1.2.0/24",
        "10.1.2.0/24",
        "10.1.3.0/24",
    ]
    assert remote.subnet("2001:db8:1:2::9") == remote.subnet("[2001:db8:1:2:3::1]:22") == "2001:db8:1:2::/64"
    assert remote.subnet("localhost") in ("127.0.0.0/24", "::/64")
    assert remote.subnet("no-such-host.invalid") is None
    plan = remote.Hubs(beyond=0).plan(["10.0.0.1", "10.0.1.1", "10.0.0.2", "10.0.1.2"])
    assert plan == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: remote.Hubs("berlin"), TypeError, "by must be a function from a host to its group, or a mapping"),
        (lambda: remote.Hubs({"berlin": "web1"}), TypeError, r"must be a list of hosts, not 'web1': \['web1'\]"),
        (lambda: remote.Hubs(most=0), ValueError, "most must be a number, 1 or more, not 0"),
        (lambda: remote.Hubs(beyond=-1), ValueError, "beyond must be a number, 0 or more"),
        (lambda: remote.gather(["a"], os.getpid, hubs=7), TypeError, r"hubs must be a remote.Hubs\(...\), not 7"),
    ],
)
def test_wrong_hubs_are_refused(make, error, says):
    with raises(error, match=says):
        make()


def test_a_function_that_cannot_open_through_a_hub_is_refused_before_anything_is_opened(hubs):
    opened = []
    with raises(TypeError, match=r"takes no via= and name=: .*\*\*more"):
        remote.gather(HOSTS, os.getpid, open=opened.append, hubs=hubs)
    assert not opened


# ---- what goes through them


def test_each_group_has_one_hub_and_each_host_one_result_under_its_own_name(hubs):
    opener = Opener()
    results = list(remote.gather(HOSTS, os.getppid, open=opener, hubs=hubs))
    assert sorted(result.host for result in results) == sorted(HOSTS)
    assert sorted(result.index for result in results) == list(range(len(HOSTS)))
    assert sorted(opener.direct) == ["a1", "alone", "b1"]
    assert Counter(via for _, via in opener.ways) == {None: 3, "a1": 3, "b1": 2}
    at_home = {result.host for result in results if result.value == os.getpid()}
    assert at_home == {"a1", "b1", "alone"}


def test_open_all_keeps_the_order_and_closes_everything(hubs):
    with remote.open_all(HOSTS, open=Opener(), hubs=hubs) as opened:
        assert [context.name for context in opened.contexts] == HOSTS
        assert [context.via and context.via.name for context in opened.contexts] == [
            *(None, None, "a1", None, "b1", "a1", "b1", "a1")
        ]
        pids = [context.facts.pid for context in opened.contexts]
        results = list(remote.map(roamlet_sent.echo, range(40), over=opened.contexts))
        assert sorted(result.value for result in results) == list(range(40))
    assert all(context.closed for context in opened.contexts)
    assert all(gone(pid) for pid in pids)


def test_a_hub_ends_when_all_of_its_group_are_done(hubs):
    contexts = []
    results = remote.gather(HOSTS, os.getpid, open=Opener(then=contexts.append), hubs=hubs, at_once=1)
    assert len(list(results)) == len(HOSTS)
    assert all(context.closed for context in contexts)
    results = remote.gather(HOSTS, os.getpid, open=Opener(then=contexts.append), hubs=hubs, at_once=2)
    next(results)
    results.close()
    assert all(context.closed for context in contexts)


def test_contexts_and_functions_among_the_targets_are_taken_as_they_are(hubs):
    opener = Opener()
    with remote.local(name="open") as own:
        results = list(remote.gather([own, remote.local, *HOSTS], os.getpid, open=opener, hubs=hubs))
        assert not own.closed
        assert [result.error for result in results] == [None] * 10
        assert len(opener.ways) == 8


# ---- when it is left early


def test_a_fan_out_that_is_left_early_gives_back_hubs_that_died(hubs):
    contexts = []
    results = remote.gather(HOSTS, os.getpid, open=Opener(then=contexts.append), hubs=hubs, at_once=1)
    next(results)
    [hub] = contexts
    os.kill(hub.facts.pid, signal.SIGKILL)
    assert link_of(hub).ended.wait(5)
    results.close()
    assert calls_of(hub).threads is None


def test_a_fan_out_that_is_cancelled_closes_its_hubs(hubs):
    contexts = []
    with CancelScope() as scope:
        for _ in remote.gather(HOSTS, os.getpid, open=Opener(then=contexts.append), hubs=hubs, at_once=2):
            scope.cancel()
    assert scope.cancelled
    assert contexts and all(calls_of(context).threads is None for context in contexts)


def test_open_all_closes_everything_when_it_is_cancelled(hubs):
    contexts = []

    def cancel_after_three(context):
        contexts.append(context)
        if len(contexts) == 3:
            scope.cancel()

    with CancelScope() as scope:
        remote.open_all(HOSTS, open=Opener(then=cancel_after_three), hubs=hubs, at_once=1)
    assert len(contexts) == 3
    assert all(calls_of(context).threads is None for context in contexts)


# ---- when the time for all of it is over


def test_a_group_does_not_wait_longer_for_its_hub_than_the_time_for_all_of_it():
    go_on = Event()
    opener = Opener(then=lambda context: go_on.wait())
    hosts = BY_LETTER["a"]
    results = remote.gather(hosts, os.getpid, open=opener, hubs=remote.Hubs(BY_LETTER, beyond=0), total=0.5)
    for _ in hosts[1:]:
        result = next(results)
        assert result.host != "a1" and type(result.error) is remote.CallTimeout
        assert "before its hub was open" in str(result.error)
    go_on.set()
    [hub] = results
    assert hub.host == "a1" and type(hub.error) is remote.CallTimeout
    assert opener.ways == [("a1", None)]


def test_names_are_not_looked_up_longer_than_the_time_for_all_of_it():
    opener = Opener()
    never = Event()
    results = list(
        remote.gather(HOSTS, os.getpid, open=opener, hubs=remote.Hubs(lambda host: never.wait(), beyond=0), total=0.2)
    )
    assert [type(result.error) for result in results] == [remote.CallTimeout] * len(HOSTS)
    assert not opener.ways


def test_no_name_is_looked_up_when_the_time_for_all_of_it_is_over():
    asked = []
    results = list(remote.gather(HOSTS, os.getpid, open=Opener(), hubs=remote.Hubs(asked.append, beyond=0), total=0))
    assert [type(result.error) for result in results] == [remote.CallTimeout] * len(HOSTS)
    assert not asked


# ---- when one dies


def test_a_host_that_cannot_be_opened_is_an_error_and_another_one_becomes_the_hub(hubs):
    opener = Opener(bad=["a1", "b1", "b2", "b3"])
    results = {result.host: result for result in remote.gather(HOSTS, os.getpid, open=opener, hubs=hubs)}
    failed = {host for host, result in results.items() if result.error is not None}
    assert failed == {"a1", "b1", "b2", "b3"}
    assert all("no way to" in str(results[host].error) for host in failed)
    assert Counter(via for host, via in opener.ways if host in BY_LETTER["a"]) == {None: 2, "a2": 2}


def test_after_three_hubs_that_failed_the_rest_is_opened_directly():
    hosts = [f"h{number}" for number in range(6)]
    opener = Opener(bad=hosts[: hubs_module.TRIES])
    hubs = remote.Hubs(lambda host: "all", beyond=0)
    results = list(remote.gather(hosts, os.getpid, open=opener, hubs=hubs, at_once=2))
    assert sum(result.error is None for result in results) == 3
    assert sorted(opener.direct) == hosts


def test_a_host_that_fails_at_each_of_its_tries_counts_once(hubs):
    opener = Opener(bad=["a1"])
    results = {r.host: r for r in remote.gather(HOSTS, os.getpid, open=opener, hubs=hubs, at_once=1, retries=2)}
    assert results["a1"].tries == 3
    assert Counter(way for way in opener.ways if way[0] in BY_LETTER["a"]) == {
        ("a1", None): 3,
        ("a2", None): 1,
        ("a3", "a2"): 1,
        ("a4", "a2"): 1,
    }


def test_hosts_behind_a_hub_that_dies_while_they_are_opened_go_another_way(hubs):
    killed = []

    def kill_the_first_hub(context):
        if context.name == "a2" and not killed:  # which is behind a1, and was not called yet
            killed.append(context.via)
            os.kill(context.via.facts.pid, signal.SIGKILL)
            assert gone(context.facts.pid)
            link_of(context.via).ended.wait(5)

    opener = Opener(then=kill_the_first_hub)
    results = {r.host: r for r in remote.gather(HOSTS, os.getppid, open=opener, hubs=hubs, at_once=1)}
    assert [result.error for result in results.values()] == [None] * len(HOSTS)
    assert results["a2"].tries == 1
    assert killed[0].closed
    assert opener.direct.count("a2") == 1  # it became the hub
    assert {via for host, via in opener.ways if host in ("a3", "a4")} == {"a2"}


def test_a_hub_that_stops_without_a_word_is_replaced(hubs, monkeypatch):
    monkeypatch.setattr(hubs_module, "PROBE", 0.5)
    contexts = []
    opener = Opener(then=contexts.append, timeout=3)
    results = {}
    for result in remote.gather(HOSTS, os.getppid, open=opener, hubs=hubs, at_once=1):
        results[result.host] = result
        if len(results) == 1:  # the others of its group were not opened yet
            stop(contexts[0].facts.pid)
    assert [result.error for result in results.values()] == [None] * len(HOSTS)
    assert [way for way in opener.ways if way[0] in ("a1", "a2")] == [("a1", None), ("a2", "a1"), ("a2", None)]
    assert {via for host, via in opener.ways if host in ("a3", "a4")} == {"a2"}
    assert gone(contexts[0].facts.pid)


def test_a_hub_that_answers_is_kept_when_a_host_behind_it_is_not_ready_in_time(hubs):
    def too_late(context):
        if context.name == "a2":
            context.close()
            raise remote.ConnectTimeout("a2 was not ready")

    opener = Opener(then=too_late)
    results = {r.host: r for r in remote.gather(HOSTS, os.getppid, open=opener, hubs=hubs, at_once=1)}
    assert [host for host, result in results.items() if result.error is not None] == ["a2"]
    assert Counter(via for _, via in opener.ways) == {None: 3, "a1": 3, "b1": 2}


def test_open_all_opens_again_what_a_hub_has_taken_with_it(hubs):
    def kill_the_first_hub(context):
        if context.name == "a4" and context.via is not None and context.via.name == "a1":
            os.kill(context.via.facts.pid, signal.SIGKILL)
            link_of(context.via).ended.wait(5)

    with remote.open_all(HOSTS, open=Opener(then=kill_the_first_hub), hubs=hubs, at_once=1) as opened:
        alive = {context.name for context in opened.contexts if not context.closed}
        assert alive == set(HOSTS) - {"a1"}  # which was a context of its own, and did not go with a hub
        ways = [context.via and context.via.name for context in opened.contexts if context.name in ("a2", "a3", "a4")]
        assert sorted(way or "" for way in ways) in (["", hub, hub] for hub in ("a2", "a3", "a4"))


def test_what_may_have_run_when_its_hub_died_is_reported_and_not_run_again(hubs, tmp_path):
    hosts = ["a1", "a2", "a3", "a4", "b1", "b2"]
    folder = str(tmp_path)
    opener = Opener()
    args = (folder, os.getpid())
    results = {
        r.host: r for r in remote.gather(hosts, sent.note_and_kill_parent, args, open=opener, hubs=hubs, at_once=1)
    }
    ran = [name.partition("-")[0] for name in os.listdir(folder) if name.endswith("-ran")]
    assert len(ran) == len(hosts)
    died = [host for host, result in results.items() if result.error is not None]
    assert died == ["a2"]
    assert type(results["a2"].error) is remote.ContextDied and results["a2"].error.sent
    assert max(Counter(ran).values()) == 1


def test_hubs_of_open_sshd_pass_keys_and_configuration_of_their_own(sshd):
    """Two names of one sshd: the second is reached from the first."""
    hosts = [sshd.host, sshd.host]

    def open(host, **more):
        return remote.ssh(host, ssh_args=sshd.ssh_args, **more)

    results = list(remote.gather(hosts, os.getppid, open=open, hubs=remote.Hubs(beyond=0)))
    assert [result.error for result in results] == [None, None]
    assert [result.host for result in results] == hosts
