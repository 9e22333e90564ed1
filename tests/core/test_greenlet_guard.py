"""Somebody else's greenlets: a switch of tasklets inside one is refused, and what is no switch works there."""

import pytest

import roamlet
from roamlet import core
from tests.core._scripts import output_of

greenlet = pytest.importorskip("greenlet")


@pytest.fixture(autouse=True)
def one_stack(several_stacks):
    """As where greenlet was imported before tasklets begin."""
    core.set_single_stack(True)


REFUSED = "this call would switch tasklets inside a greenlet that roamlet did not make"


@pytest.fixture
def blocked():
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.receive)()
    roamlet.run()
    yield channel
    tasklet.kill()


SWITCHES = {
    "schedule": lambda channel: roamlet.schedule(),
    "schedule_remove": lambda channel: roamlet.schedule_remove(),
    "run": lambda channel: roamlet.run(),
    "sleep": lambda channel: roamlet.sleep(0),
    "wait": lambda channel: core.Waiter().wait(1),
    "receive": lambda channel: channel.receive(),
    "send": lambda channel: channel.send(1),
    "send without a receiver": lambda channel: roamlet.channel().send(1),
    "kill": lambda channel: channel.queue.kill(),
    "throw": lambda channel: channel.queue.throw(LookupError),
    "tasklet.run": lambda channel: roamlet.tasklet(int, ()).run(),
    "tasklet.switch": lambda channel: roamlet.tasklet(int, ()).switch(),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_inside_a_greenlet_of_main_is_refused_and_changes_nothing(blocked, name):
    def guest():
        with pytest.raises(RuntimeError, match=REFUSED):
            SWITCHES[name](blocked)
        return "refused"

    runner = roamlet.tasklet(roamlet.schedule)()
    assert greenlet.greenlet(guest).switch() == "refused"
    assert (blocked.balance, roamlet.getruncount(), roamlet.getcurrent()) == (-1, 2, roamlet.getmain())
    roamlet.run()
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
        roamlet.schedule()
        log.append("goes on")

    roamlet.tasklet(function)()
    roamlet.tasklet(roamlet.schedule)()
    roamlet.run()
    assert len(log) == 2 and log[1] == "goes on"
    assert (REFUSED in log[0]) or (name == "run" and "must be called from the main tasklet" in log[0])


def test_the_message_says_what_to_do():
    def guest():
        with pytest.raises(RuntimeError, match="let the greenlet return to its parent first, or call it from a thread"):
            roamlet.schedule()

    greenlet.greenlet(guest).switch()
    assert roamlet.getruncount() == 1


def test_what_does_not_switch_works_inside_a_greenlet(blocked):
    log = []

    def guest():
        blocked.preference = 1
        blocked.send("from the greenlet")
        log.append(roamlet.getcurrent() is roamlet.getmain())
        roamlet.tasklet(log.append)("made in the greenlet")
        assert core.Waiter().succeed(1) is True

    greenlet.greenlet(guest).switch()
    roamlet.run()
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
            roamlet.schedule()
            mine.switch()
        mine.switch()
        assert mine.dead

    for name in "abc":
        roamlet.tasklet(function)(name)
    roamlet.run()
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
            deep((depth * number) % 7, roamlet.schedule)
        total.append(mine.dead)

    for depth in range(8):
        roamlet.tasklet(function)(depth)
    roamlet.run()
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

    roamlet.tasklet(function)()
    roamlet.run()
    for _ in range(5):
        roamlet.tasklet(roamlet.schedule)()
    roamlet.run()
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
            deep(depth, roamlet.schedule)
        log.append(number)

    for _ in range(3):
        roamlet.tasklet(leaves_it)()
    roamlet.run()
    for number in range(6):
        roamlet.tasklet(comes_after)(number)
    roamlet.schedule()
    kept.clear()
    roamlet.run()
    del deep
    assert log == ["finally"] * 3 + list(range(6))


def test_roamlet_first_used_inside_a_greenlet_does_not_take_it_for_main():
    """The greenlet ends before the thread does: main is where the thread itself is."""
    printed = output_of("""
        import greenlet, roamlet
        def guest():
            channel = roamlet.channel()
            tasklet = roamlet.tasklet(channel.send)(3)
            try:
                channel.receive()
            except RuntimeError as error:
                print(str(error)[:63])
            return channel, tasklet
        channel, tasklet = greenlet.greenlet(guest).switch()
        print(channel.receive())
        roamlet.run()
        print(tasklet.alive)
    """)
    assert printed.splitlines() == ["this call would switch tasklets inside a greenlet that roamlet ", "3", "False"]
