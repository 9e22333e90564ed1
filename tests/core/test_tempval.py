"""tempval: the value in transit of a suspended tasklet, and what run() and switch() of the current one return."""

import weakref

import pytest

import roamlet
from tests.core._objects import Dropping, Value, nothing
from tests.core._threads import in_thread


def test_what_is_set_on_a_suspended_tasklet_is_what_its_call_returns():
    got = []
    channel = roamlet.channel()
    calls = [roamlet.schedule, roamlet.schedule_remove, channel.receive]
    tasklets = [roamlet.tasklet(lambda call=call: got.append(call()))() for call in calls]
    roamlet.schedule()
    for number, tasklet in enumerate(tasklets):
        assert tasklet.tempval is None
        tasklet.tempval = number
        assert tasklet.tempval == number
    tasklets[1].insert()
    roamlet.run()
    assert got == [0, 1]
    channel.send("sent")
    assert got == [0, 1, "sent"]


def test_a_senders_tempval_is_what_it_sends():
    channel = roamlet.channel()
    sender = roamlet.tasklet(channel.send)("first")
    roamlet.run()
    assert sender.tempval == "first"
    sender.tempval = "second"
    assert channel.receive() == "second"
    roamlet.run()


def test_that_of_a_blocked_receiver_gives_way_to_what_is_sent():
    channel, log = roamlet.channel(), []
    tasklet = roamlet.tasklet(lambda: log.append(channel.receive()))()
    roamlet.run()
    tasklet.tempval = Value()
    channel.send("sent")
    assert log == ["sent"]


def test_that_of_a_loop_over_a_channel_is_nothing_that_was_sent():
    channel = roamlet.channel()
    got = []

    def loop(value):
        roamlet.getcurrent().tempval = value
        for item in channel:
            got.append(item)

    tasklets = [roamlet.tasklet(loop)(value) for value in ("own", None)]
    roamlet.run()
    tasklets[1].tempval = "from outside"
    channel.close()
    roamlet.run()
    assert got == [] and not any(tasklet.alive for tasklet in tasklets)


def test_taken_from_a_blocked_sender_none_is_sent():
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.send)("value")
    roamlet.run()
    del tasklet.tempval
    assert channel.receive() is None
    roamlet.run()


def test_that_of_a_tasklet_without_arguments_is_its_function():
    assert roamlet.tasklet(nothing).tempval is nothing
    assert roamlet.tasklet().tempval is None


def test_an_exception_on_its_way_cannot_be_replaced_by_a_value():
    tasklet = roamlet.tasklet(roamlet.schedule_remove)()
    roamlet.run()
    tasklet.throw(LookupError, pending=True)
    assert tasklet.tempval is None
    with pytest.raises(RuntimeError, match="an exception is on its way"):
        tasklet.tempval = 1
    with pytest.raises(LookupError):
        roamlet.run()


def test_an_error_that_a_blocked_sender_sends_can_be_replaced():
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.send_exception)(LookupError)
    roamlet.run()
    assert tasklet.tempval is None
    tasklet.tempval = "a value instead"
    assert channel.receive() == "a value instead"
    roamlet.run()


@pytest.mark.parametrize("call", ["run", "switch"])
def test_run_and_switch_return_what_the_current_tasklet_set_as_its_own(call):
    main = roamlet.getmain()
    main.tempval = 5
    assert main.tempval == 5
    assert getattr(roamlet.tasklet(int)(), call)() == 5
    assert main.tempval is None
    assert getattr(roamlet.tasklet(int)(), call)() is None


def test_what_else_suspends_has_a_value_of_its_own():
    main, channel = roamlet.getmain(), roamlet.channel()
    for call, expected, other in [
        (roamlet.schedule, main, int),
        (lambda: roamlet.schedule("retval"), "retval", int),
        (roamlet.schedule_remove, main, main.insert),
        (lambda: roamlet.schedule_remove("retval"), "retval", main.insert),
        (lambda: roamlet.sleep(0), None, int),
        (roamlet.run, None, int),
    ]:
        roamlet.tasklet(other)()
        main.tempval = "own"
        assert call() == expected
        roamlet.run()
    roamlet.tasklet(lambda: channel.send("sent"))()
    main.tempval = "own"
    assert channel.receive() == "sent"
    received = []
    roamlet.tasklet(lambda: received.append(channel.receive()))()
    main.tempval = "own"
    channel.send("value")
    assert received == ["value"]
    main.tempval = None


def test_what_a_tasklet_set_as_its_own_goes_at_its_end_though_it_is_the_tasklet():
    ended = []

    def function():
        roamlet.getcurrent().tempval = roamlet.getcurrent()

    tasklet = roamlet.tasklet(function)()
    weakref.finalize(tasklet, ended.append, "freed")
    roamlet.run()
    del tasklet
    assert ended == ["freed"]


@pytest.mark.parametrize("call", [roamlet.schedule, roamlet.schedule_remove, lambda: roamlet.channel().send(None)])
def test_a_value_that_switches_when_it_is_forgotten_harms_nobody(call):
    log = []

    def function():
        roamlet.getcurrent().tempval = Dropping(lambda: (log.append("dropped"), roamlet.schedule(), log.append("back")))
        call()
        log.append("went on")

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    roamlet.run()
    tasklet.kill()
    assert log[:2] == ["dropped", "back"]


def test_an_exception_on_its_way_is_not_lost():
    tasklet = roamlet.tasklet(roamlet.schedule_remove)()
    roamlet.schedule()
    tasklet.kill(pending=True)
    with pytest.raises(RuntimeError, match="an exception is on its way"):
        tasklet.tempval = 5
    assert tasklet.tempval is None
    roamlet.run()
    assert not tasklet.alive


@pytest.mark.parametrize("call", [roamlet.schedule, roamlet.schedule_remove])
def test_a_value_given_to_schedule_is_in_transit_and_can_be_replaced(call):
    got = []
    tasklets = [roamlet.tasklet(lambda: got.append(call("given")))() for _ in range(3)]
    roamlet.schedule()
    assert [tasklet.tempval for tasklet in tasklets] == ["given"] * 3
    tasklets[1].tempval = "set"
    tasklets[2].tempval = None
    for tasklet in tasklets:
        tasklet.insert()
    roamlet.run()
    assert got == ["given", "set", None]


def test_schedule_with_a_value_and_alone_has_nothing_in_transit():
    assert roamlet.schedule(retval="given") == "given"
    assert roamlet.getcurrent().tempval is None


@pytest.mark.parametrize("call", [roamlet.schedule, roamlet.schedule_remove])
def test_one_that_is_killed_with_a_value_in_transit_drops_it(call):
    class Given:
        pass

    value = Given()
    gone = weakref.ref(value)

    def function(values):
        call(values.pop())

    tasklet = roamlet.tasklet(function)([value])
    del value
    roamlet.schedule()
    assert tasklet.tempval is gone()
    tasklet.kill()
    assert gone() is None


def test_an_error_that_is_thrown_while_the_old_value_is_dropped_is_raised():
    """By another thread: it is not replaced by the value that schedule() is given."""
    log = []

    def waits():
        me = roamlet.getcurrent()
        me.tempval = Dropping(lambda: in_thread(lambda: me.throw(LookupError, pending=True)))
        with pytest.raises(LookupError):
            roamlet.schedule("value")
        log.append("raised")

    roamlet.tasklet(waits)()
    roamlet.tasklet(nothing)()
    roamlet.run()
    assert log == ["raised"]
