"""Callbacks: before each switch, before each channel operation, and for errors that are not caught."""

import sys
from collections.abc import Iterator

import pytest

import roamlet
from tests.core._scripts import output_of
from tests.core._threads import in_thread


@pytest.fixture(autouse=True)
def no_callbacks_left() -> Iterator[None]:
    yield
    roamlet.set_schedule_callback(None)
    roamlet.set_channel_callback(None)
    roamlet.set_error_handler(None)


@pytest.fixture
def reported(monkeypatch) -> list[str]:
    """The reports of errors in callbacks, which cannot be raised in any tasklet."""
    texts: list[str] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda report: texts.append(f"{type(report.exc_value).__name__} {report.exc_value}")
    )
    return texts


SETTERS = {
    "schedule": (roamlet.set_schedule_callback, roamlet.get_schedule_callback),
    "channel": (roamlet.set_channel_callback, roamlet.get_channel_callback),
}


@pytest.mark.parametrize("kind", SETTERS)
def test_setters_return_the_one_before_and_getters_the_one_set(kind):
    setter, getter = SETTERS[kind]
    first, second = (lambda *_: None), (lambda *_: None)
    assert getter() is None
    assert setter(first) is None
    assert getter() is first
    assert setter(second) is first
    assert setter(None) is second
    assert getter() is None


def test_set_error_handler_returns_the_one_before():
    handler = print
    assert roamlet.set_error_handler(handler) is None
    assert roamlet.set_error_handler(None) is handler


@pytest.mark.parametrize(
    "setter", [roamlet.set_schedule_callback, roamlet.set_channel_callback, roamlet.set_error_handler]
)
def test_a_callback_that_cannot_be_called_is_refused(setter):
    with pytest.raises(TypeError, match="takes a callable or None, not 'text'"):
        setter("text")


# ---- before each switch ----


def test_every_switch_is_announced_in_the_tasklet_that_is_left():
    log, names = [], {}
    channel = roamlet.channel()

    def receives():
        channel.receive()

    def schedules():
        roamlet.schedule()

    def sends():
        channel.send(None)

    def callback(previous, following):
        assert roamlet.getcurrent() is previous
        log.append((names[previous], names[following]))

    names[roamlet.getmain()] = "main"
    for function in (receives, schedules, sends):
        names[roamlet.tasklet(function)()] = function.__name__
    roamlet.set_schedule_callback(callback)
    roamlet.run()
    roamlet.set_schedule_callback(None)
    assert log == [
        ("main", "receives"),
        ("receives", "schedules"),
        ("schedules", "sends"),
        ("sends", "receives"),  # preference: the receiver runs at once
        ("receives", "schedules"),  # receives has ended
        ("schedules", "sends"),  # schedules too
        ("sends", "main"),
    ]
    names.clear()


def test_a_switch_to_nobody_is_not_announced():
    log = []
    roamlet.set_schedule_callback(lambda *pair: log.append(pair))
    roamlet.schedule()
    roamlet.sleep(0.001)
    roamlet.set_schedule_callback(None)
    assert log == []


def test_the_schedule_callback_is_for_all_threads():
    log = []

    def work():
        roamlet.tasklet(len)("")
        roamlet.run()

    roamlet.set_schedule_callback(lambda *_: log.append(1))
    in_thread(work)
    roamlet.set_schedule_callback(None)
    in_thread(work)
    assert len(log) == 2


def test_a_schedule_callback_must_not_switch(reported):
    channel = roamlet.channel()
    calls = iter([roamlet.schedule, channel.receive, roamlet.schedule_remove, roamlet.run, lambda: roamlet.sleep(0)])
    roamlet.set_schedule_callback(lambda *_: next(calls)())
    log = []
    for number in range(5):
        roamlet.tasklet(log.append)(number)
    roamlet.run()
    roamlet.set_schedule_callback(None)
    assert log == list(range(5))
    assert [text[:38] for text in reported[:5]] == ["RuntimeError Recursive scheduling call"] * 5
    assert channel.balance == 0


def test_what_a_schedule_callback_raises_is_reported_and_the_switch_happens(reported):
    def callback(*_):
        raise LookupError("in the callback")

    log = []
    roamlet.tasklet(log.append)(1)
    roamlet.set_schedule_callback(callback)
    roamlet.run()
    roamlet.set_schedule_callback(None)
    assert log == [1]
    assert reported == ["LookupError in the callback"] * 2


def test_an_error_on_its_way_passes_a_schedule_callback():
    def bad():
        raise LookupError("of the tasklet")

    roamlet.tasklet(bad)()
    roamlet.set_schedule_callback(lambda *_: None)
    with pytest.raises(LookupError, match="of the tasklet"):
        roamlet.run()


@pytest.mark.parametrize("what", ["remove the next", "insert one", "kill the next", "remove all"])
def test_a_schedule_callback_may_change_the_run_queue(what):
    log = []
    first, second = (roamlet.tasklet(log.append)(name) for name in ("first", "second"))
    paused = roamlet.tasklet(log.append)("inserted").remove()

    def callback(previous, following):
        roamlet.set_schedule_callback(None)
        if what == "remove the next":
            following.remove()
        elif what == "insert one":
            paused.insert()
        elif what == "kill the next":
            following.kill()
        else:
            first.remove()
            second.remove()

    roamlet.set_schedule_callback(callback)
    roamlet.run()
    assert (
        log
        == {
            "remove the next": ["second"],
            "insert one": ["first", "second", "inserted"],
            "kill the next": ["second"],
            "remove all": [],
        }[what]
    )
    assert roamlet.getruncount() == 1
    for tasklet in (first, second, paused):
        tasklet.kill()


# ---- before each channel operation ----


def test_every_channel_operation_is_announced():
    channel, log = roamlet.channel(), []
    receiver = roamlet.tasklet(lambda: [channel.receive(), channel.receive()])()
    main = roamlet.getmain()
    roamlet.set_channel_callback(lambda *seen: log.append(seen))
    roamlet.run()
    channel.send(1)
    roamlet.set_channel_callback(None)
    channel.send(2)
    assert log == [
        (channel, receiver, False, True),
        (channel, main, True, False),
        (channel, receiver, False, True),
    ]
    log.clear()


def test_an_operation_on_a_closed_channel_is_announced_too():
    channel, log = roamlet.channel(), []
    channel.close()
    roamlet.set_channel_callback(lambda *_: log.append(1))
    with pytest.raises(roamlet.ChannelClosed):
        channel.send(1)
    assert log == [1]


def test_a_channel_callback_must_not_use_channels_or_switch(reported):
    channel = roamlet.channel()
    calls = iter([channel.receive, roamlet.schedule])
    roamlet.tasklet(channel.receive)()
    roamlet.run()
    roamlet.set_channel_callback(lambda *_: next(calls)())
    channel.preference = 1
    channel.send(1)
    with pytest.raises(roamlet.Deadlock):
        channel.send(2)
    roamlet.set_channel_callback(None)
    roamlet.run()
    assert [text[:38] for text in reported] == [
        "RuntimeError Recursive channel call du",
        "RuntimeError Recursive scheduling call",
    ]


# ---- errors that are not caught ----


def test_what_a_channel_callback_drops_ends_when_it_may(reported):
    channel, log = roamlet.channel(), []

    def waits():
        try:
            roamlet.schedule_remove()
        finally:
            log.append("finally")

    dropped = [roamlet.tasklet(waits)()]
    receiver = roamlet.tasklet(channel.receive)()
    roamlet.run()
    roamlet.set_channel_callback(lambda *_: dropped.clear())
    channel.send(1)
    assert log == [] or not receiver.alive
    roamlet.run()
    assert log == ["finally"] and reported == []


def test_the_error_handler_gets_what_a_tasklet_does_not_catch():
    log = []

    def bad():
        raise LookupError("not caught")

    def handler(kind, value, traceback):
        log.append((kind, str(value), traceback.tb_frame.f_code.co_name, roamlet.getcurrent()))

    roamlet.set_error_handler(handler)
    tasklet = roamlet.tasklet(bad)()
    roamlet.run()
    assert log == [(LookupError, "not caught", "bad", tasklet)]
    assert not tasklet.alive
    log.clear()


def test_what_the_error_handler_raises_goes_to_main():
    def handler(kind, value, traceback):
        raise OSError("in the handler")

    roamlet.set_error_handler(handler)
    roamlet.tasklet(lambda: 1 / 0)()
    with pytest.raises(OSError, match="in the handler"):
        roamlet.run()


def test_a_killed_tasklet_is_no_error():
    log = []
    roamlet.set_error_handler(lambda *_: log.append(1))
    tasklet = roamlet.tasklet(roamlet.schedule_remove)()
    roamlet.run()
    tasklet.kill()
    assert log == []


def test_an_error_handler_may_switch():
    log = []

    def handler(kind, value, traceback):
        roamlet.schedule()
        log.append("handled")

    roamlet.set_error_handler(handler)
    roamlet.tasklet(lambda: 1 / 0)()
    roamlet.tasklet(log.append)("other")
    roamlet.run()
    assert log == ["other", "handled"]


def test_a_channel_callback_sees_what_is_sent_as_tempval_and_keeps_nothing():
    channel, seen = roamlet.channel(), []
    receiver = roamlet.tasklet(lambda: [channel.receive() for _ in range(2)])()
    roamlet.run()

    def callback(channel, tasklet, sending, willblock):
        seen.append((sending, tasklet is roamlet.getmain(), tasklet.tempval))
        tasklet.tempval = "set in the callback"

    roamlet.set_channel_callback(callback)
    main = roamlet.getmain()
    channel.send("sent")
    assert main.tempval is None
    with pytest.raises(LookupError):
        channel.send_exception(LookupError)  # raised in the receiver, which does not catch it
    roamlet.set_channel_callback(None)
    assert seen == [(True, True, "sent"), (False, False, None), (True, True, None)]
    assert main.tempval is None and not receiver.alive


def test_a_channel_callback_leaves_an_error_that_is_thrown_at_its_tasklet_meanwhile():
    channel = roamlet.channel()

    def callback(channel, tasklet, sending, willblock):
        in_thread(lambda: tasklet.throw(LookupError, pending=True))

    roamlet.set_channel_callback(callback)
    sender = roamlet.tasklet(channel.send)("sent")
    with pytest.raises(LookupError):
        roamlet.run()
    assert not sender.alive and channel.balance == 0


def test_a_channel_callback_leaves_what_a_sleeping_tasklet_sends_as_it_is():
    """A signal handler uses a channel while main sleeps, with an exception in transit that it sends."""
    printed = output_of("""
        import signal, roamlet
        channel, wakes, seen = roamlet.channel(), roamlet.channel(), []
        def receives():
            wakes.receive()
            try:
                print("got", channel.receive())
            except ValueError as error:
                print("raised", error)
        roamlet.tasklet(receives)()
        roamlet.schedule()
        signal.signal(signal.SIGALRM, lambda *_: wakes.send(None))
        roamlet.set_channel_callback(lambda channel, tasklet, *what: seen.append((channel is wakes, *what)))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        channel.send_exception(ValueError, "sent")
        print(seen)
        """)  # fmt: skip
    assert printed.splitlines() == ["raised sent", "[(False, True, True), (True, True, False), (False, False, False)]"]
