"""Many hosts, many items: results as they come, limits, time-outs, and tries that are safe."""

import itertools
import os
import re

import pytest
import roamlet_channels_sent as sent
import roamlet_sent

import roamlet
from roamlet import remote
from tests.remote.raising import raises


@pytest.fixture(scope="module")
def contexts():
    with remote.open_all([remote.local] * 3) as opened:
        yield opened.contexts


class Opener:
    """Counts how many contexts are being opened, or open, at once."""

    def __init__(self):
        self.now = self.most = 0
        self.names = []

    def __call__(self, host):
        self.names.append(host)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if "bad" in host:
                raise remote.HostUnknown(f"no host {host}")
            return remote.local(name=host)
        finally:
            self.now -= 1


def test_results_name_their_hosts_and_come_as_they_end(contexts):
    channel = roamlet.channel()
    slow = contexts[0].spawn(sent.keep, (channel,))
    slow.join()
    results = list(remote.gather(contexts, os.getpid))
    assert sorted(result.value for result in results) == sorted(context.facts.pid for context in contexts)
    assert sorted(result.index for result in results) == [0, 1, 2]
    assert {result.host for result in results} == {"local"}
    assert all(result.error is None and result.tries == 1 and result.seconds >= 0 for result in results)
    assert results[0].get() == results[0].value


def test_a_result_comes_before_those_that_take_longer(contexts):
    channel = roamlet.channel()
    contexts[0].call(sent.keep, (channel,))
    results = remote.gather(contexts, sent.receive_if_kept)
    assert [next(results).value, next(results).value] == ["nothing", "nothing"]
    channel.send("late")
    assert [result.value for result in results] == ["late"]
    contexts[0].call(sent.drop)


def test_an_error_is_a_result_and_others_go_on(contexts):
    results = list(remote.gather(contexts, roamlet_sent.raise_value_error))
    assert [type(result.error) for result in results] == [ValueError] * 3
    with raises(ValueError, match="not good"):
        results[0].get()


def test_hosts_are_opened_so_many_at_a_time_and_closed_again():
    opener = Opener()
    hosts = ["a", "bad", "c", "d"]
    results = {result.host: result for result in remote.gather(hosts, roamlet_sent.add, (1, 2), at_once=2, open=opener)}
    assert opener.most <= 2
    assert [results[host].value for host in ("a", "c", "d")] == [3, 3, 3]
    assert type(results["bad"].error) is remote.HostUnknown


def test_open_all_keeps_the_order_and_says_what_failed():
    opener = Opener()
    with remote.open_all(["a", "bad", "c"], open=opener, at_once=2, retries=2) as opened:
        assert [context.name for context in opened.contexts] == ["a", "c"]
        assert [(result.host, result.tries) for result in opened.failed] == [("bad", 3)]
    assert all(context.closed for context in opened.contexts)


def test_a_call_that_takes_too_long_is_an_error_of_that_host(contexts):
    channel = roamlet.channel()
    [result] = remote.gather(contexts[:1], sent.receive, (channel,), timeout=0.05)
    assert type(result.error) is remote.CallTimeout
    results = list(remote.gather(contexts, sent.receive, (channel,), at_once=1, total=0.05))
    assert [type(result.error) for result in results] == [remote.CallTimeout] * 3
    assert "before its turn came" in str(results[-1].error)
    channel.close()  # for calls that go on remotely


def test_map_takes_items_when_a_context_is_free(contexts):
    taken = []

    def items():
        for number in itertools.count():
            taken.append(number)
            yield number

    results = remote.map(roamlet_sent.echo, items(), over=contexts)
    some = [next(results) for _ in range(10)]
    results.close()
    assert all(result.item == result.value == result.index for result in some)
    assert len(taken) <= 10 + 2 * 3


def test_map_works_on_all_items_over_all_contexts(contexts):
    results = list(remote.map(sent.square_and_pid, range(60), over=contexts, each=2))
    assert sorted(result.value[0] for result in results) == [n * n for n in range(60)]
    assert {result.value[1] for result in results} == {context.facts.pid for context in contexts}


def test_an_item_whose_context_dies_is_tried_elsewhere_only_if_it_may_happen_twice():
    for idempotent in (True, False):
        with remote.open_all([remote.local] * 2) as opened:
            victim = opened.contexts[0].facts.pid
            results = sorted(
                remote.map(sent.die_if, [victim] * 4, over=opened.contexts, retries=1, idempotent=idempotent),
                key=lambda result: result.index,
            )
            failed = [result for result in results if result.error is not None]
            assert [type(result.error) for result in failed] == ([] if idempotent else [remote.ContextDied])
            assert sum(result.tries for result in results) == (5 if idempotent else 4)


def test_when_all_contexts_are_gone_the_rest_are_errors():
    with remote.open_all([remote.local]) as opened:
        pid = opened.contexts[0].facts.pid
        results = list(remote.map(sent.die_if, [pid] * 3, over=opened.contexts, retries=5, idempotent=True))
    assert [type(result.error) for result in results] == [remote.ContextDied] * 3
    assert [result.error.sent for result in results] == [True, False, False]


def test_an_iterable_that_fails_ends_the_loop_with_its_error(contexts):
    def items():
        yield 1
        raise LookupError("no more")

    with raises(LookupError, match="no more"):
        list(remote.map(roamlet_sent.echo, items(), over=contexts))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"at_once": 0}, "at_once must be a number, 1 or more"),
        ({"retries": -1}, "retries must be a number, 0 or more"),
        ({"timeout": -1}, "timeout must be a number of seconds"),
        ({"total": "5"}, "total must be a number of seconds"),
    ],
)
def test_wrong_limits_are_refused_before_anything_is_done(options, says):
    with raises(ValueError, match=says):
        remote.gather(["never"], os.getpid, **options)


def test_map_without_contexts_shows_the_right_call(contexts):
    for over in ([], contexts[0]):
        with raises(TypeError, match=r"over=\[alpha, beta\]"):
            remote.map(roamlet_sent.echo, [1], over=over)


def test_what_is_left_of_a_limit_is_said_in_few_digits(contexts):
    channel = roamlet.channel()
    (result,) = remote.gather(contexts[:1], sent.receive, (channel,), total=0.25)
    assert isinstance(result.error, remote.CallTimeout)
    assert re.search(r"within 0\.\d{1,3} seconds", str(result.error))


def test_a_single_host_is_not_taken_for_many(contexts):
    with raises(TypeError, match=r"gather\(\) takes a list of hosts, .*: \['alpha'\], not 'alpha'"):
        remote.gather("alpha", os.getpid)
    with raises(TypeError, match=r"\[local\], not local"):
        remote.gather(contexts[0], os.getpid)
    with raises(TypeError, match=r"open_all\(\) takes a list"):
        remote.open_all("alpha")


def test_what_is_no_function_is_refused_before_any_host_is_reached(contexts):
    for call in (lambda: remote.gather(["never"], os.getpid()), lambda: remote.map(os.getpid(), [1], over=contexts)):
        with raises(TypeError, match=r"\d+ cannot be called: give the function itself"):
            call()
