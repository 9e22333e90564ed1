"""tempval: the value in transit of a suspended tasklet, and what run() and switch() of the current one return."""

import weakref

import pytest

import weft
from tests.core._objects import Dropping


def test_what_is_set_on_a_suspended_tasklet_is_what_its_call_returns():
    got = []
    channel = weft.channel()
    calls = [weft.schedule, weft.schedule_remove, channel.receive]
    tasklets = [weft.tasklet(lambda call=call: got.append(call()))() for call in calls]
    weft.schedule()
    for number, tasklet in enumerate(tasklets):
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
