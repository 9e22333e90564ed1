"""Channels of stacklesslib that buffer or wake all, values of a tasklet's own, and traps."""

import pytest

import roamlet
from roamlet import stackless
from roamlet.stackless._path.stacklesslib import base, util
from tests.stacklesslib.running import running


def test_a_queue_channel_blocks_senders_only_when_it_is_full():
    full, log = util.QueueChannel(2), []
    full.send(1)
    full.send_exception(LookupError, "sent")
    assert full.balance == 2
    sender = running(lambda: full.send(3))
    assert sender.blocked
    assert full.balance == 3
    assert full.receive() == 1
    with pytest.raises(LookupError, match="sent"):
        full.receive()
    assert full.receive() == 3
    running(lambda: log.append(full.receive()))
    assert full.balance == -1
    full.send("at once")
    stackless.run()
    assert log == ["at once"]
    sender.run() if sender.alive else None
    full.close()
    assert list(full) == []


def test_iterating_a_queue_channel_empties_it_and_ends_where_it_is_closed():
    channel = util.qchannel()
    for number in range(3):
        channel.send(number)
    taken = [next(channel) for _ in range(3)]
    channel.close()
    assert (taken, list(channel)) == ([0, 1, 2], [])


def test_a_signal_channel_wakes_who_waits_and_never_blocks():
    channel, log = base.SignalChannel(), []
    channel.signal("nobody")
    for name in "abc":
        running(lambda name=name: log.append((name, channel.receive())))
    channel.signal("one")
    channel.signal_all("rest")
    stackless.run()
    assert log == [("a", "one"), ("b", "rest"), ("c", "rest")]


def test_local_values_are_the_tasklets_own_and_go_with_it():
    values, log = util.local(), []
    values.name = "main"

    def other():
        log.append(hasattr(values, "name"))
        values.name = "other"
        log.append((values.name, values.__dict__))
        del values.name
        with pytest.raises(AttributeError, match="name"):
            del values.name

    running(other)
    assert log == [False, ("other", {})]
    assert values.name == "main"


def test_traps_hold_as_long_as_the_with_does():
    with base.block_trap(), pytest.raises(RuntimeError, match="block"):
        roamlet.channel().receive()
    roamlet.tasklet(len)("another one")
    with base.switch_trap(), pytest.raises(RuntimeError, match="trap"):
        roamlet.schedule()
    with base.ignore_nesting(), base.atomic():
        roamlet.schedule()
    assert not roamlet.getcurrent().block_trap
    assert roamlet.switch_trap(0) == 0
