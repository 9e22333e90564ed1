"""Callbacks: before each switch, before each channel operation, and for errors that nobody catches."""

import sys
from collections.abc import Iterator

import pytest

import weft
from tests.core._threads import in_thread


@pytest.fixture(autouse=True)
def no_callbacks_left() -> Iterator[None]:
    yield
    weft.set_schedule_callback(None)
    weft.set_channel_callback(None)
    weft.set_error_handler(None)


@pytest.fixture
def reported(monkeypatch) -> list[str]:
    """What errors in callbacks say, which have nobody to be raised in."""
    texts: list[str] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda report: texts.append(f"{type(report.exc_value).__name__} {report.exc_value}")
    )
    return texts


SETTERS = {
    "schedule": (weft.set_schedule_callback, weft.get_schedule_callback),
    "channel": (weft.set_channel_callback, weft.get_channel_callback),
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
    assert weft.set_error_handler(handler) is None
    assert weft.set_error_handler(None) is handler


@pytest.mark.parametrize("setter", [weft.set_schedule_callback, weft.set_channel_callback, weft.set_error_handler])
def test_a_callback_that_cannot_be_called_is_refused(setter):
    with pytest.raises(TypeError, match="takes a callable or None, not 'text'"):
        setter("text")


# ---- before each switch ----


def test_every_switch_is_announced_in_the_tasklet_that_is_left():
    log, names = [], {}
    channel = weft.channel()

    def receives():
        channel.receive()

    def schedules():
        weft.schedule()

    def sends():
        channel.send(None)

    def callback(previous, following):
        assert weft.getcurrent() is previous
        log.append((names[previous], names[following]))

    names[weft.getmain()] = "main"
    for function in (receives, schedules, sends):
        names[weft.tasklet(function)()] = function.__name__
    weft.set_schedule_callback(callback)
    weft.run()
    weft.set_schedule_callback(None)
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
    weft.set_schedule_callback(lambda *pair: log.append(pair))
    weft.schedule()
    weft.sleep(0.001)
    weft.set_schedule_callback(None)
    assert log == []


def test_the_schedule_callback_is_for_all_threads():
    log = []

    def work():
        weft.tasklet(len)("")
        weft.run()

    weft.set_schedule_callback(lambda *_: log.append(1))
    in_thread(work)
    weft.set_schedule_callback(None)
    in_thread(work)
    assert len(log) == 2


def test_a_schedule_callback_must_not_switch(reported):
    channel = weft.channel()
    calls = iter([weft.schedule, channel.receive, weft.schedule_remove, weft.run, lambda: weft.sleep(0)])
    weft.set_schedule_callback(lambda *_: next(calls)())
    log = []
    for number in range(5):
        weft.tasklet(log.append)(number)
    weft.run()
    weft.set_schedule_callback(None)
    assert log == list(range(5))
    assert [text[:38] for text in reported[:5]] == ["RuntimeError Recursive scheduling call"] * 5
    assert channel.balance == 0


def test_what_a_schedule_callback_raises_is_reported_and_the_switch_happens(reported):
    def callback(*_):
        raise LookupError("in the callback")

    log = []
    weft.tasklet(log.append)(1)
    weft.set_schedule_callback(callback)
    weft.run()
    weft.set_schedule_callback(None)
    assert log == [1]
    assert reported == ["LookupError in the callback"] * 2


def test_an_error_on_its_way_passes_a_schedule_callback():
    def bad():
        raise LookupError("of the tasklet")

    weft.tasklet(bad)()
    weft.set_schedule_callback(lambda *_: None)
    with pytest.raises(LookupError, match="of the tasklet"):
        weft.run()


@pytest.mark.parametrize("what", ["remove the next", "insert one", "kill the next", "remove all"])
def test_a_schedule_callback_may_change_the_run_queue(what):
    log = []
    first, second = (weft.tasklet(log.append)(name) for name in ("first", "second"))
    paused = weft.tasklet(log.append)("inserted").remove()

    def callback(previous, following):
        weft.set_schedule_callback(None)
        if what == "remove the next":
            following.remove()
        elif what == "insert one":
            paused.insert()
        elif what == "kill the next":
            following.kill()
        else:
            first.remove()
            second.remove()

    weft.set_schedule_callback(callback)
    weft.run()
    assert (
        log
        == {
            "remove the next": ["second"],
            "insert one": ["first", "second", "inserted"],
            "kill the next": ["second"],
            "remove all": [],
        }[what]
    )
    assert weft.getruncount() == 1
    for tasklet in (first, second, paused):
        tasklet.kill()


# ---- before each channel operation ----


def test_every_channel_operation_is_announced():
    channel, log = weft.channel(), []
    receiver = weft.tasklet(lambda: [channel.receive(), channel.receive()])()
    main = weft.getmain()
    weft.set_channel_callback(lambda *seen: log.append(seen))
    weft.run()
    channel.send(1)
    weft.set_channel_callback(None)
    channel.send(2)
    assert log == [
        (channel, receiver, False, True),
        (channel, main, True, False),
        (channel, receiver, False, True),
    ]
    log.clear()


def test_an_operation_on_a_closed_channel_is_announced_too():
    channel, log = weft.channel(), []
    channel.close()
    weft.set_channel_callback(lambda *_: log.append(1))
    with pytest.raises(weft.ChannelClosed):
        channel.send(1)
    assert log == [1]


def test_a_channel_callback_must_not_use_channels_or_switch(reported):
    channel = weft.channel()
    calls = iter([channel.receive, weft.schedule])
    weft.tasklet(channel.receive)()
    weft.run()
    weft.set_channel_callback(lambda *_: next(calls)())
    channel.preference = 1
    channel.send(1)
    with pytest.raises(weft.Deadlock):
        channel.send(2)
    weft.set_channel_callback(None)
    weft.run()
    assert [text[:38] for text in reported] == [
        "RuntimeError Recursive channel call du",
        "RuntimeError Recursive scheduling call",
    ]


# ---- errors that nobody catches ----


def test_what_a_channel_callback_drops_ends_when_it_may(reported):
    channel, log = weft.channel(), []

    def waits():
        try:
            weft.schedule_remove()
        finally:
            log.append("finally")

    dropped = [weft.tasklet(waits)()]
    receiver = weft.tasklet(channel.receive)()
    weft.run()
    weft.set_channel_callback(lambda *_: dropped.clear())
    channel.send(1)
    assert log == [] or not receiver.alive
    weft.run()
    assert log == ["finally"] and reported == []


def test_the_error_handler_gets_what_a_tasklet_does_not_catch():
    log = []

    def bad():
        raise LookupError("nobody catches this")

    def handler(kind, value, traceback):
        log.append((kind, str(value), traceback.tb_frame.f_code.co_name, weft.getcurrent()))

    weft.set_error_handler(handler)
    tasklet = weft.tasklet(bad)()
    weft.run()
    assert log == [(LookupError, "nobody catches this", "bad", tasklet)]
    assert not tasklet.alive
    log.clear()


def test_what_the_error_handler_raises_goes_to_main():
    def handler(kind, value, traceback):
        raise OSError("in the handler")

    weft.set_error_handler(handler)
    weft.tasklet(lambda: 1 / 0)()
    with pytest.raises(OSError, match="in the handler"):
        weft.run()


def test_a_killed_tasklet_is_no_error():
    log = []
    weft.set_error_handler(lambda *_: log.append(1))
    tasklet = weft.tasklet(weft.schedule_remove)()
    weft.run()
    tasklet.kill()
    assert log == []


def test_an_error_handler_may_switch():
    log = []

    def handler(kind, value, traceback):
        weft.schedule()
        log.append("handled")

    weft.set_error_handler(handler)
    weft.tasklet(lambda: 1 / 0)()
    weft.tasklet(log.append)("other")
    weft.run()
    assert log == ["other", "handled"]
