"""A value on its way is never lost, doubled or replaced: each arrives, or goes with the tasklet that it was given to."""

import random
import sys
import threading
import weakref

import pytest

import roamlet
from roamlet import core
from tests.core._objects import Dropping


class Ledger:
    """Values that were sent, and what became of them. `interrupted` counts sends and receives that were killed."""

    def __init__(self):
        self.received = []
        self.sent = 0
        self.interrupted_sends = 0
        self.interrupted_receives = 0

    def send(self, channel, value):
        try:
            channel.send(value)
            self.sent += 1
        except roamlet.TaskletExit:
            self.interrupted_sends += 1
            raise

    def receive(self, channel):
        try:
            value = channel.receive()
        except roamlet.TaskletExit:
            self.interrupted_receives += 1
            raise
        self.received.append(value)

    def check(self):
        """Nothing but what was sent arrived, nothing twice, and only as much is missing as kills explain."""
        assert all(isinstance(value, int) for value in self.received)
        assert len(set(self.received)) == len(self.received)
        # A killed receiver may have had a value already; a killed sender's value may have been taken already.
        assert self.sent - self.interrupted_receives <= len(self.received) <= self.sent + self.interrupted_sends


@pytest.mark.parametrize("preference", [-1, 0, 1])
@pytest.mark.parametrize("pending", [False, True])
def test_a_hundred_thousand_messages_with_kills_in_one_thread(preference, pending):
    generator, channel, ledger, numbers = random.Random(preference), roamlet.channel(), Ledger(), iter(range(10**9))
    channel.preference = preference

    def sender():
        while ledger.sent < 100_000:
            ledger.send(channel, next(numbers))

    def receiver():
        while True:
            ledger.receive(channel)
            if generator.random() < 0.1:
                roamlet.schedule()

    def replaced(tasklets, function):
        index = generator.randrange(len(tasklets))
        tasklets[index].kill(pending=pending)
        tasklets[index] = roamlet.tasklet(function)()

    senders = [roamlet.tasklet(sender)() for _ in range(7)]
    receivers = [roamlet.tasklet(receiver)() for _ in range(5)]
    while ledger.sent < 100_000:
        for _ in range(generator.randrange(20)):
            roamlet.schedule()
        replaced(*generator.choice([(senders, sender), (receivers, receiver)]))
    for tasklet in senders + receivers:
        tasklet.kill()
    roamlet.run()
    while channel.queue is not None:
        channel.queue.kill()
    ledger.check()
    assert ledger.interrupted_receives > 10
    assert (roamlet.getruncount(), core.started()) == (1, [])


def test_values_survive_destructors_of_dying_tasklets_that_switch():
    """What the next tasklet was woken with must be safe before what the one before left is dropped."""
    channel, received = roamlet.channel(), []

    def noisy(depth):
        def dying():
            roamlet.schedule()
            if depth:
                roamlet.tasklet(dies)(Dropping(noisy(depth - 1)))

        return dying

    def dies(value):
        roamlet.schedule()

    def receiver():
        for _ in range(2000):
            received.append(channel.receive())

    def sender():
        for number in range(2000):
            channel.send(number)
            if number % 10 == 0:
                roamlet.tasklet(dies)(Dropping(noisy(2)))

    roamlet.tasklet(receiver)()
    roamlet.tasklet(sender)()
    roamlet.run()
    del noisy, dies
    assert received == list(range(2000))


@pytest.mark.parametrize("preference", [-1, 0, 1])
def test_values_survive_the_death_of_paused_tasklets_by_their_last_reference(preference):
    channel, received = roamlet.channel(), []
    channel.preference = preference

    def paused():
        try:
            roamlet.schedule_remove()
        finally:
            roamlet.schedule()

    def receiver():
        for _ in range(1000):
            roamlet.tasklet(paused)()
            received.append(channel.receive())

    def sender():
        for number in range(1000):
            roamlet.tasklet(paused)()
            channel.send(number)

    roamlet.tasklet(receiver)()
    roamlet.tasklet(sender)()
    roamlet.run()
    assert received == list(range(1000))
    assert core.started() == []


def test_sent_values_are_never_replaced_by_none_when_senders_die_by_weak_references():
    channel, received = roamlet.channel(), []

    def sender(number):
        channel.send(number)

    def receiver():
        for _ in range(500):
            received.append(channel.receive())

    roamlet.tasklet(receiver)()
    refs = [weakref.ref(roamlet.tasklet(sender)(number), lambda _: roamlet.schedule()) for number in range(500)]
    roamlet.run()
    assert received == list(range(500))
    assert [ref() for ref in refs] == [None] * 500


def test_a_hundred_thousand_messages_across_threads_with_kills():
    total, channel = across_threads(messages=100_000)
    total.check()
    assert total.sent + total.interrupted_sends >= 100_000
    assert (channel.balance, channel.queue) == (0, None)


@pytest.mark.soak
def test_a_million_messages_across_threads_with_kills():
    total, channel = across_threads(messages=1_000_000)
    total.check()
    assert total.sent + total.interrupted_sends >= 1_000_000
    assert (channel.balance, channel.queue) == (0, None)


def across_threads(messages):
    """Send so many through one channel while its tasklets are killed in four threads; return what was counted, and the channel."""
    channel, ledgers, lock, stop = roamlet.channel(), [], threading.Lock(), threading.Event()
    numbers = iter(range(10**9))

    def work(is_sender, seed):
        generator, ledger = random.Random(seed), Ledger()
        with lock:
            ledgers.append(ledger)

        def body():
            while not stop.is_set():
                if is_sender:
                    with lock:
                        number = next(numbers)
                    ledger.send(channel, number)
                    if number > messages:
                        stop.set()
                else:
                    ledger.receive(channel)

        tasklets = [roamlet.tasklet(body)() for _ in range(4)]
        while not stop.is_set():
            roamlet.sleep(0.0005)
            index = generator.randrange(4)
            tasklets[index].kill(pending=generator.random() < 0.5)
            tasklets[index] = roamlet.tasklet(body)()
        for tasklet in tasklets:
            tasklet.kill()
        roamlet.run(hub=False)

    threads = [threading.Thread(target=work, args=(number % 2 == 0, number)) for number in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    total = Ledger()
    for ledger in ledgers:
        total.received += ledger.received
        total.sent += ledger.sent
        total.interrupted_sends += ledger.interrupted_sends
        total.interrupted_receives += ledger.interrupted_receives
    return total, channel


def test_waiters_settled_while_their_tasklets_are_killed_keep_their_word():
    """succeed() says True exactly when the wait took the value or died with it."""
    generator = random.Random(3)
    for _ in range(300):
        waiters, got, killed = [core.Waiter() for _ in range(10)], [], []

        def waits(waiter, got=got, killed=killed):
            try:
                got.append(waiter.wait())
            except roamlet.TaskletExit:
                killed.append(1)
                raise

        tasklets = [roamlet.tasklet(waits)(waiter) for waiter in waiters]
        roamlet.schedule()
        true = 0
        for number in generator.sample(range(10), 10):
            if generator.random() < 0.4:
                tasklets[number].kill(pending=generator.random() < 0.5)
            true += waiters[number].succeed(number)
        roamlet.run()
        assert len(got) + len(killed) == 10
        assert len(got) == true
        assert None not in got


# ---- whatever the last reference of a dying tasklet does ----


class Mischief:
    """Dropped by a dying tasklet: switches, starts others that die the same way, sends on a channel of its own, recurses."""

    def __init__(self, depth: int, side: roamlet.channel[int]) -> None:
        self.depth = depth
        self.side = side

    def __call__(self, *_: object) -> None:
        pass

    def __del__(self) -> None:
        roamlet.schedule()
        if self.side.balance < 0:
            self.side.send(1)
        if self.depth:
            roamlet.tasklet(Mischief(self.depth - 1, self.side))(Mischief(self.depth - 1, self.side))
            roamlet.schedule()


def messages_among_dying_tasklets(count: int, preference: int) -> None:
    """Every message is sent and received while tasklets die around it; none is lost, none is None, all in order."""
    channel, side, received, refs = roamlet.channel(), roamlet.channel(), [], []
    channel.preference = preference

    def dies(value: object) -> None:
        roamlet.schedule()

    def sender() -> None:
        for number in range(count):
            if number % 8 == 0:
                roamlet.tasklet(dies)(Mischief(number // 8 % 3, side))
                refs[:] = refs[-20:]
                refs.append(weakref.ref(roamlet.tasklet(dies)(number), lambda _: roamlet.schedule()))
            channel.send(number)

    def receiver() -> None:
        for number in range(count):
            value = channel.receive()
            if value != number:
                received.append((number, value))

    def listener() -> None:
        while True:
            side.receive()

    listening = roamlet.tasklet(listener)()
    tasklets = [roamlet.tasklet(receiver)(), roamlet.tasklet(sender)()]
    roamlet.run()
    listening.kill()
    assert received == []
    assert not any(tasklet.alive for tasklet in tasklets)


@pytest.mark.parametrize("preference", [-1, 0, 1])
def test_messages_arrive_among_dying_tasklets(preference):
    messages_among_dying_tasklets(5000, preference)
    assert (roamlet.getruncount(), core.started()) == (1, [])


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("preference", [-1, 0, 1])
def test_a_million_messages_arrive_among_dying_tasklets(preference):
    messages_among_dying_tasklets(1_000_000, preference)
    assert (roamlet.getruncount(), core.started()) == (1, [])


def across_threads_among_dying_tasklets(count: int) -> None:
    """Two threads pass the numbers to and fro while tasklets die in both."""
    there, back, wrong = roamlet.channel(), roamlet.channel(), []
    before = sys.getswitchinterval()

    def dies(value: object) -> None:
        roamlet.schedule()

    def other() -> None:
        side = roamlet.channel()
        for number in range(count):
            if number % 8 == 0:
                roamlet.tasklet(dies)(Mischief(number // 8 % 2, side))
            value = there.receive()
            if value != number:
                wrong.append((number, value))
            back.send(value)
        roamlet.run()

    thread = threading.Thread(target=other)
    side = roamlet.channel()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for number in range(count):
            if number % 8 == 4:
                roamlet.tasklet(dies)(Mischief(number // 8 % 2, side))
            there.send(number)
            value = back.receive()
            if value != number:
                wrong.append((number, value))
        roamlet.run()
    finally:
        sys.setswitchinterval(before)
    thread.join()
    assert wrong == []


def test_messages_cross_threads_among_dying_tasklets():
    across_threads_among_dying_tasklets(2000)
    assert (roamlet.getruncount(), core.started()) == (1, [])


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_million_messages_cross_threads_among_dying_tasklets():
    across_threads_among_dying_tasklets(500_000)  # each to and fro
    assert (roamlet.getruncount(), core.started()) == (1, [])
