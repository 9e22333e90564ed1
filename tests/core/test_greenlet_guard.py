"""Somebody else's greenlets: a switch of tasklets inside one is refused, and what is no switch works there."""

import pytest

import weft
from tests.core._scripts import output_of
from weft import core

greenlet = pytest.importorskip("greenlet")

REFUSED = "this call would switch tasklets inside a greenlet that weft did not make"


@pytest.fixture
def blocked():
    channel = weft.channel()
    tasklet = weft.tasklet(channel.receive)()
    weft.run()
    yield channel
    tasklet.kill()


SWITCHES = {
    "schedule": lambda channel: weft.schedule(),
    "schedule_remove": lambda channel: weft.schedule_remove(),
    "run": lambda channel: weft.run(),
    "sleep": lambda channel: weft.sleep(0),
    "wait": lambda channel: core.Waiter().wait(1),
    "receive": lambda channel: channel.receive(),
    "send": lambda channel: channel.send(1),
    "send to nobody": lambda channel: weft.channel().send(1),
    "kill": lambda channel: channel.queue.kill(),
    "throw": lambda channel: channel.queue.throw(LookupError),
    "tasklet.run": lambda channel: weft.tasklet(int, ()).run(),
    "tasklet.switch": lambda channel: weft.tasklet(int, ()).switch(),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_inside_a_greenlet_of_main_is_refused_and_changes_nothing(blocked, name):
    def guest():
        with pytest.raises(RuntimeError, match=REFUSED):
            SWITCHES[name](blocked)
        return "refused"

    runner = weft.tasklet(weft.schedule)()
    assert greenlet.greenlet(guest).switch() == "refused"
    assert (blocked.balance, weft.getruncount(), weft.getcurrent()) == (-1, 2, weft.getmain())
    weft.run()
    assert not runner.alive


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_inside_a_greenlet_of_a_tasklet_is_refused(blocked, name):
    log = []

    def guest():
        try:
            SWITCHES[name](blocked)
        except RuntimeError as error:
            log.append(str(error))

    def function():
        greenlet.greenlet(guest).switch()
        weft.schedule()
        log.append("goes on")

    weft.tasklet(function)()
    weft.tasklet(weft.schedule)()
    weft.run()
    assert len(log) == 2 and log[1] == "goes on"
    assert (REFUSED in log[0]) or (name == "run" and "must be called from the main tasklet" in log[0])


def test_the_message_says_what_to_do():
    def guest():
        with pytest.raises(RuntimeError, match="let the greenlet return to its parent first, or call it from a thread"):
            weft.schedule()

    greenlet.greenlet(guest).switch()
    assert weft.getruncount() == 1


def test_what_does_not_switch_works_inside_a_greenlet(blocked):
    log = []

    def guest():
        blocked.preference = 1
        blocked.send("from the greenlet")
        log.append(weft.getcurrent() is weft.getmain())
        weft.tasklet(log.append)("made in the greenlet")
        assert core.Waiter().succeed(1) is True

    greenlet.greenlet(guest).switch()
    weft.run()
    assert log == [True, "made in the greenlet"]


def test_greenlets_and_tasklets_side_by_side():
    log = []

    def guest(name):
        parent = greenlet.getcurrent().parent
        for number in range(5):
            log.append((name, number))
            parent.switch()

    def function(name):
        mine = greenlet.greenlet(guest)
        mine.switch(name)
        for _ in range(4):
            weft.schedule()
            mine.switch()
        mine.switch()
        assert mine.dead

    for name in "abc":
        weft.tasklet(function)(name)
    weft.run()
    assert log == [(name, number) for number in range(5) for name in "abc"]


def test_deep_greenlets_beside_tasklets_of_changing_depth():
    total = []

    def deep(depth, function):
        return function() if depth == 0 else next(map(lambda _: deep(depth - 1, function), (1,)))

    def guest():
        parent = greenlet.getcurrent().parent
        for number in range(5):
            deep(number * 3, lambda: parent.switch())

    def function(depth):
        mine = greenlet.greenlet(guest)
        for number in range(6):
            mine.switch()
            deep((depth * number) % 7, weft.schedule)
        total.append(mine.dead)

    for depth in range(8):
        weft.tasklet(function)(depth)
    weft.run()
    del deep
    assert total == [True] * 8


def test_a_greenlet_left_suspended_in_a_dead_tasklet_does_no_harm():
    log, kept = [], []

    def guest():
        try:
            greenlet.getcurrent().parent.switch()
        finally:
            log.append("finally")

    def function():
        mine = greenlet.greenlet(guest)
        mine.switch()
        kept.append(mine)

    weft.tasklet(function)()
    weft.run()
    for _ in range(5):
        weft.tasklet(weft.schedule)()
    weft.run()
    kept.clear()
    assert log == ["finally"]


def test_a_greenlet_that_ends_after_its_tasklet_disturbs_no_other():
    """Greenlets come back to the same place of the C stack, which may have been given to somebody else meanwhile."""
    log, kept = [], []

    def deep(depth, function):
        return function() if depth == 0 else next(map(lambda _: deep(depth - 1, function), (1,)))

    def guest():
        try:
            deep(5, greenlet.getcurrent().parent.switch)
        finally:
            log.append("finally")

    def leaves_it():
        mine = greenlet.greenlet(guest)
        mine.switch()
        kept.append(mine)

    def comes_after(number):
        for depth in (10, 0, 3, 10):
            deep(depth, weft.schedule)
        log.append(number)

    for _ in range(3):
        weft.tasklet(leaves_it)()
    weft.run()
    for number in range(6):
        weft.tasklet(comes_after)(number)
    weft.schedule()
    kept.clear()
    weft.run()
    del deep
    assert log == ["finally"] * 3 + list(range(6))


def test_weft_first_used_inside_a_greenlet_does_not_take_it_for_main():
    """The greenlet ends before the thread does: main is where the thread itself is."""
    printed = output_of("""
        import greenlet, weft
        def guest():
            channel = weft.channel()
            tasklet = weft.tasklet(channel.send)(3)
            try:
                channel.receive()
            except RuntimeError as error:
                print(str(error)[:60])
            return channel, tasklet
        channel, tasklet = greenlet.greenlet(guest).switch()
        print(channel.receive())
        weft.run()
        print(tasklet.alive)
    """)
    assert printed.splitlines() == ["this call would switch tasklets inside a greenlet that weft ", "3", "False"]
