"""One tasklet per target: all at once, in the order they end, and nothing left when the caller stops early."""

import pytest

import roamlet
from roamlet.cli.output.fan_out import fan_out


def test_outcomes_come_in_the_order_in_which_the_work_ends():
    gates = {name: roamlet.channel() for name in "abc"}

    def open_gates():
        for name in "cab":
            gates[name].send(name.upper())

    roamlet.tasklet(open_gates)()
    outcomes = list(fan_out("abc", lambda name: gates[name].receive()))
    assert [(one.target, one.value) for one in outcomes] == [("c", "C"), ("a", "A"), ("b", "B")]


def test_all_work_has_begun_before_the_first_result_is_asked_for_again():
    begun = []

    def work(name):
        begun.append(name)
        roamlet.schedule()
        return name

    first = next(fan_out("abc", work))
    assert first.error is None
    assert sorted(begun) == ["a", "b", "c"]


def test_an_error_is_an_outcome_and_the_others_go_on():
    def work(number):
        return 12 // number

    outcomes = {one.target: one for one in fan_out([3, 0, 4], work)}
    assert (outcomes[3].value, outcomes[4].value) == (4, 3)
    assert isinstance(outcomes[0].error, ZeroDivisionError)


def test_a_caller_that_stops_early_leaves_no_tasklet_and_the_work_is_undone():
    closed = []

    def work(name):
        try:
            roamlet.channel().receive() if name != "a" else None
        finally:
            closed.append(name)

    outcomes = fan_out("abc", work)
    next(outcomes)
    outcomes.close()
    assert sorted(closed) == ["a", "b", "c"]


def test_the_time_of_each_is_measured_with_the_given_clock():
    ticks = iter([1.0, 4.5])
    (outcome,) = fan_out(["a"], lambda name: None, clock=lambda: next(ticks))
    assert outcome.seconds == pytest.approx(3.5)
