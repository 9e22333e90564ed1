"""The seam between the core and a hub: when poll is called, what it may do, and what it may change meanwhile.

Each test runs in a thread of its own, where no hub is installed yet.
"""

import os
import random
import threading

import pytest

import roamlet
from roamlet import core
from tests.core._threads import in_thread


class Hub:
    """A hub whose poll does what the test says, and notes the time-outs that it was given."""

    def __init__(self, poll=lambda hub, timeout: None):
        self.calls = []
        self.behaviour = poll
        self.fd = os.eventfd(0, os.EFD_NONBLOCK)

    def __enter__(self):
        core.install_hub(self.poll, self.fd)
        return self

    def __exit__(self, *_):
        core.install_hub(None, -1)
        os.close(self.fd)

    def poll(self, timeout):
        self.calls.append(timeout)
        self.behaviour(self, timeout)


def test_poll_is_called_without_a_limit_when_nobody_can_run():
    def body():
        waiter = core.Waiter()
        with Hub(lambda hub, timeout: waiter.succeed("woken")) as hub:
            value = waiter.wait()
        return value, hub.calls

    assert in_thread(body) == ("woken", [None])


def test_poll_gets_the_time_that_is_left_to_the_next_timer():
    def body():
        waiter = core.Waiter()
        with Hub(lambda hub, timeout: waiter.succeed()) as hub:
            waiter.wait(timeout=50)
        return hub.calls

    calls = in_thread(body)
    assert len(calls) == 1 and 49 < calls[0] <= 50


def test_the_hub_is_not_asked_while_it_has_nothing_to_keep_and_run_returns():
    def body():
        with Hub() as hub:
            roamlet.tasklet(int)()
            roamlet.run()
        return hub.calls

    assert in_thread(body) == []


def test_another_thread_that_wakes_somebody_while_poll_sleeps_writes_to_the_descriptor_once():
    def body():
        waiters, log = [core.Waiter() for _ in range(3)], []

        def settle():
            for number, waiter in enumerate(waiters):
                waiter.succeed(number)

        def poll(hub, timeout):
            thread = threading.Thread(target=settle)
            thread.start()
            thread.join()
            log.append(int.from_bytes(os.read(hub.fd, 8), "little"))

        with Hub(poll):
            for waiter in waiters:
                roamlet.tasklet(lambda waiter=waiter: log.append(waiter.wait()))()
            roamlet.run()
        return log

    assert in_thread(body) == [1, 0, 1, 2]


def test_poll_may_not_block_and_its_errors_reach_main():
    def body():
        log = []

        def poll(hub, timeout):
            if len(hub.calls) == 1:
                roamlet.schedule()
            elif len(hub.calls) == 2:
                raise LookupError("broken")
            waiter.succeed("at last")

        waiter = core.Waiter()
        with Hub(poll):
            for _ in range(2):
                try:
                    core.Waiter().wait()
                except (RuntimeError, LookupError) as error:
                    log.append(type(error).__name__)
            log.append(waiter.wait())
        return log

    assert in_thread(body) == ["RuntimeError", "LookupError", "at last"]


def test_the_hub_is_asked_while_tasklets_run():
    def body():
        with Hub() as hub:
            for _ in range(1_000_000):
                roamlet.schedule()
                if len(hub.calls) > 3:
                    break
        return hub.calls

    assert in_thread(body) == [0.0] * 4


@pytest.fixture
def hurried():
    """A clock that runs so fast that the hub is asked at almost every switch."""
    now = [0.0]

    def read():
        now[0] += 1.0
        return now[0]

    core.set_clock(read, lambda seconds: None)
    yield
    core.set_clock()


def hurry():
    for _ in range(3000):
        roamlet.schedule()


def test_an_error_of_poll_while_tasklets_run_is_raised_by_the_call_that_looked(hurried):
    def body():
        def poll(hub, timeout):
            if hub.armed:
                hub.armed = False
                raise LookupError("from poll")

        log = []

        def function():
            try:
                while True:
                    roamlet.schedule()
            except LookupError as error:
                log.append(str(error))

        hub = Hub(poll)
        hub.armed = False
        with hub:
            hurry()
            roamlet.tasklet(function)()
            roamlet.schedule()
            hub.armed = True
            try:
                while not log:
                    roamlet.schedule()
            except LookupError:
                log.append("in main")
            for tasklet in core.started():
                tasklet.kill()
        return log

    assert in_thread(body) in (["from poll"], ["in main"])


@pytest.mark.parametrize("direction", ["send", "receive"])
def test_the_partner_may_be_replaced_by_one_of_another_thread_while_the_hub_is_asked(hurried, direction):
    """This once put a tasklet of one thread into the run queue of another."""

    def body():
        channel, log, state = roamlet.channel(), [], {"armed": False}
        channel.preference = -1 if direction == "send" else 1
        go, blocked, done = threading.Event(), threading.Event(), threading.Event()

        def partner():
            log.append(channel.receive() if direction == "send" else channel.send("value"))

        def other():
            go.wait()
            roamlet.tasklet(partner)()
            roamlet.schedule()
            blocked.set()
            done.wait()
            roamlet.run()
            log.append("other ends")

        def poll(hub, timeout):
            if state["armed"]:
                state["armed"] = False
                mine[0].kill(pending=True)
                go.set()
                blocked.wait()

        thread = threading.Thread(target=other)
        thread.start()
        with Hub(poll):
            mine = [roamlet.tasklet(partner)()]
            roamlet.schedule()
            hurry()
            state["armed"] = True
            while state["armed"]:
                if direction == "send":
                    channel.send("value")
                else:
                    channel.receive()
                if state["armed"]:
                    mine[0] = roamlet.tasklet(partner)()
                    roamlet.schedule()
            done.set()
            thread.join()
            roamlet.run(hub=False)
            alive = mine[0].alive
        return log[-2:], alive, roamlet.getruncount()

    log, alive, count = in_thread(body)
    assert log[-1] == "other ends"
    assert log[-2] == ("value" if direction == "send" else None)
    assert (alive, count) == (False, 1)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_poll_changes_while_tasklets_run(hurried, seed):
    """poll wakes, kills, closes, sends and starts at random, at almost every switch."""

    def body():
        generator, channels = random.Random(seed), [roamlet.channel() for _ in range(3)]
        tasklets, log = [], []

        def worker():
            while len(log) < 20_000:
                channel = generator.choice(channels)
                log.append(1)
                try:
                    call = generator.randrange(6)
                    if call == 0:
                        channel.send(1)
                    elif call == 1:
                        channel.receive()
                    elif call == 2:
                        next(channel, None)
                    elif call == 3:
                        roamlet.sleep(generator.randrange(3))
                    elif call == 4:
                        core.Waiter().wait(generator.randrange(3))
                    else:
                        roamlet.schedule()
                except (roamlet.ChannelClosed, TimeoutError):
                    continue

        def poll(hub, timeout):
            call, channel = generator.randrange(8), generator.choice(channels)
            if call == 0 and tasklets:
                generator.choice(tasklets).kill()
            elif call == 1:
                channel.close()
            elif call == 2:
                channel.open()
            elif call == 3 and channel.balance < 0:
                channel.send(2)
            elif call == 4 and channel.balance > 0:
                channel.receive()
            elif call == 5 and tasklets:
                tasklets[generator.randrange(len(tasklets))] = roamlet.tasklet(worker)()
            elif call == 6:
                channel.preference = generator.choice([-1, 0, 1])
                channel.schedule_all = generator.random() < 0.3
            elif call == 7 and tasklets:
                tasklet = generator.choice(tasklets)
                if tasklet.paused:
                    tasklet.insert()

        with Hub(poll):
            hurry()
            tasklets.extend(roamlet.tasklet(worker)() for _ in range(20))
            for _ in range(20_000):
                roamlet.schedule()
                if len(log) >= 20_000:
                    break
            for _ in range(20):
                for tasklet in core.started():
                    tasklet.kill()
            roamlet.run(hub=False)
        return len(core.started()), roamlet.getruncount()

    assert in_thread(body) == (0, 1)


def test_a_hub_is_installed_and_taken_away_only_while_it_does_not_poll():
    def body():
        def poll(hub, timeout):
            try:
                core.install_hub(None, -1)
            except RuntimeError as error:
                log.append(str(error))
            waiter.succeed()

        log, waiter = [], core.Waiter()
        with Hub(poll):
            waiter.wait()
        roamlet.sleep(0)
        return log

    assert in_thread(body) == ["install_hub() was called while the hub polls"]
