"""tempval: the value in transit of a suspended tasklet, and what run() and switch() of the current one return."""

import weakref

import pytest

import weft
from tests.core._objects import Dropping, Value, nothing


def test_what_is_set_on_a_suspended_tasklet_is_what_its_call_returns():
    got = []
    channel = weft.channel()
    calls = [weft.schedule, weft.schedule_remove, channel.receive]
    tasklets = [weft.tasklet(lambda call=call: got.append(call()))() for call in calls]
    weft.schedule()
    for number, tasklet in enumerate(tasklets):
        assert tasklet.tempval is None
        tasklet.tempval = number
        assert tasklet.tempval == number
    tasklets[1].insert()
    weft.run()
    assert got == [0, 1]
    channel.send("sent")
    assert got == [0, 1, "sent"]


def test_a_senders_tempval_is_what_it_sends():
    channel = weft.channel()
    sender = weft.tasklet(channel.send)("first")
    weft.run()
    assert sender.tempval == "first"
    sender.tempval = "second"
    assert channel.receive() == "second"
    weft.run()


def test_that_of_a_blocked_receiver_gives_way_to_what_is_sent():
    channel, log = weft.channel(), []
    tasklet = weft.tasklet(lambda: log.append(channel.receive()))()
    weft.run()
    tasklet.tempval = Value()
    channel.send("sent")
    assert log == ["sent"]


def test_that_of_a_loop_over_a_channel_is_nothing_that_was_sent():
    channel = weft.channel()
    got = []

    def loop(value):
        weft.getcurrent().tempval = value
        for item in channel:
            got.append(item)

    tasklets = [weft.tasklet(loop)(value) for value in ("own", None)]
    weft.run()
    tasklets[1].tempval = "from outside"
    channel.close()
    weft.run()
    assert got == [] and not any(tasklet.alive for tasklet in tasklets)


def test_taken_from_a_blocked_sender_none_is_sent():
    channel = weft.channel()
    tasklet = weft.tasklet(channel.send)("value")
    weft.run()
    del tasklet.tempval
    assert channel.receive() is None
    weft.run()


def test_that_of_a_tasklet_without_arguments_is_its_function():
    assert weft.tasklet(nothing).tempval is nothing
    assert weft.tasklet().tempval is None


def test_an_exception_on_its_way_cannot_be_replaced_by_a_value():
    tasklet = weft.tasklet(weft.schedule_remove)()
    weft.run()
    tasklet.throw(LookupError, pending=True)
    assert tasklet.tempval is None
    with pytest.raises(RuntimeError, match="an exception is on its way"):
        tasklet.tempval = 1
    with pytest.raises(LookupError):
        weft.run()


def test_an_error_that_a_blocked_sender_sends_can_be_replaced():
    channel = weft.channel()
    tasklet = weft.tasklet(channel.send_exception)(LookupError)
    weft.run()
    assert tasklet.tempval is None
    tasklet.tempval = "a value instead"
    assert channel.receive() == "a value instead"
    weft.run()


@pytest.mark.parametrize("call", ["run", "switch"])
def test_run_and_switch_return_what_the_current_tasklet_set_as_its_own(call):
    main = weft.getmain()
    main.tempval = 5
    assert main.tempval == 5
    assert getattr(weft.tasklet(int)(), call)() == 5
    assert main.tempval is None
    assert getattr(weft.tasklet(int)(), call)() is None


def test_what_else_suspends_has_a_value_of_its_own():
    main, channel = weft.getmain(), weft.channel()
    for call, expected, other in [
        (weft.schedule, main, int),
        (lambda: weft.schedule("retval"), "retval", int),
        (weft.schedule_remove, main, main.insert),
        (lambda: weft.schedule_remove("retval"), "retval", main.insert),
        (lambda: weft.sleep(0), None, int),
        (weft.run, None, int),
    ]:
        weft.tasklet(other)()
        main.tempval = "own"
        assert call() == expected
        weft.run()
    weft.tasklet(lambda: channel.send("sent"))()
    main.tempval = "own"
    assert channel.receive() == "sent"
    received = []
    weft.tasklet(lambda: received.append(channel.receive()))()
    main.tempval = "own"
    channel.send("value")
    assert received == ["value"]
    main.tempval = None


def test_what_a_tasklet_set_as_its_own_goes_at_its_end_though_it_is_the_tasklet():
    ended = []

    def function():
        weft.getcurrent().tempval = weft.getcurrent()

    tasklet = weft.tasklet(function)()
    weakref.finalize(tasklet, ended.append, "freed")
    weft.run()
    del tasklet
    assert ended == ["freed"]


@pytest.mark.parametrize("call", [weft.schedule, weft.schedule_remove, lambda: weft.channel().send(None)])
def test_a_value_that_switches_when_it_is_forgotten_harms_nobody(call):
    log = []

    def function():
        weft.getcurrent().tempval = Dropping(lambda: (log.append("dropped"), weft.schedule(), log.append("back")))
        call()
        log.append("went on")

    tasklet = weft.tasklet(function)()
    weft.run()
    weft.run()
    tasklet.kill()
    assert log[:2] == ["dropped", "back"]


def test_an_exception_on_its_way_is_not_lost():
    tasklet = weft.tasklet(weft.schedule_remove)()
    weft.schedule()
    tasklet.kill(pending=True)
    with pytest.raises(RuntimeError, match="an exception is on its way"):
        tasklet.tempval = 5
    assert tasklet.tempval is None
    weft.run()
    assert not tasklet.alive
