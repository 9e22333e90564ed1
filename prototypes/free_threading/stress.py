"""Threads x tasklets x channels with everything at once, for rounds that can be repeated: python stress.py --seed 7 --rounds 20

Each round has, in every thread: pairs that pass numbered values within the thread (order is checked); senders and receivers of
channels that all threads share (sums are checked, and the order of each sender); tasklets that block where CPython holds locks
of objects or references without a count; and tasklets that wait for ever, until those of another thread kill them, or, where
tasklets are collected, the collector finds them. Other threads collect garbage all the time. The values have finalizers, and
some are cycles. At the end of a round nothing is left.
"""

import argparse
import faulthandler
import gc
import random
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

from pinned import Channel, Tasklet, TaskletExit, counts, run, schedule


class Value:
    """A number with its sender, which says when it is freed; every fourth is a cycle."""

    freed: list[int] = []

    def __init__(self, sender: int, number: int) -> None:
        self.sender = sender
        self.number = number
        self.me = self if number % 4 == 0 else None

    def __del__(self) -> None:
        Value.freed.append(1)


class Round:
    """What the threads of one round share, and what they have found."""

    def __init__(self, options: argparse.Namespace, seed: int) -> None:
        self.options = options
        self.seed = seed
        self.shared = [Channel(disown=bool(i % 2)) for i in range(options.channels)]
        self.never = [Channel() for _ in range(4)]
        self.start = threading.Barrier(options.threads)
        self.victims: list[list[Tasklet]] = [[] for _ in range(options.threads)]
        self.per_thread = options.tasklets // 5
        self.begun: list[int] = []  # victims: some are killed before that
        self.finished: list[str] = []
        self.failures: list[str] = []
        self.totals: list[tuple[int, int]] = []

    def check(self, truth: bool, what: str) -> None:
        if not truth:
            self.failures.append(what)

    # What tasklets do. Each thread runs these with its own random numbers.

    def local_sender(self, channel: Channel, sender: int, count: int) -> None:
        for number in range(count):
            channel.send(Value(sender, number))
        self.finished.append("local sender")

    def local_receiver(self, channel: Channel, sender: int, count: int) -> None:
        numbers = []
        for _ in range(count):
            value = channel.receive()
            self.check(value.sender == sender, "a value of another sender")
            numbers.append(value.number)
        self.check(numbers == list(range(count)), "order within a thread")
        self.finished.append("local receiver")

    def shared_sender(self, sender: int, chance: random.Random) -> None:
        total = 0
        channel = self.shared[sender % len(self.shared)]
        for number in range(self.options.messages):
            channel.send(Value(sender, number))
            total += number
            if chance.random() < 0.1:
                schedule()
        self.totals.append((total, 0))
        self.finished.append("shared sender")

    def shared_receiver(self, which: int, chance: random.Random) -> None:
        total = 0
        newest: dict[int, int] = {}
        channel = self.shared[which % len(self.shared)]
        for _ in range(self.options.messages):
            value = channel.receive()
            self.check(newest.get(value.sender, -1) < value.number, "order of one sender")
            newest[value.sender] = value.number
            total += value.number
            if chance.random() < 0.1:
                schedule()
        self.totals.append((0, total))
        self.finished.append("shared receiver")

    def crooked(self, kind: int, channel: Channel) -> None:
        """Block where CPython holds something for this thread."""

        class Odd:
            def __eq__(self, other: object) -> bool:
                channel.receive()
                return self is other

            def __hash__(self) -> int:
                return 1

            def __add__(self, other: object) -> object:
                return channel.receive()

            def __del__(self) -> None:
                schedule()

        def generator() -> Iterator[object]:
            yield channel.receive()
            yield channel.receive()

        if kind == 0:
            items = [3, 1, 2]
            items.sort(key=lambda item: (channel.receive(), item)[1])
            self.check(items == [1, 2, 3], "sort")
        elif kind == 1:
            table = {Odd(): 1}
            self.check(Odd() not in table, "lookup")
        elif kind == 2:
            self.check(Odd() + 1 == "fed", "add")
        elif kind == 3:
            self.check(list(generator()) == ["fed", "fed"], "generator")
        else:
            try:
                raise KeyError(kind)
            except KeyError as error:
                self.check(channel.receive() == "fed", "except")
                self.check(sys.exception() is error, "the exception being handled")
        self.finished.append("crooked")

    def feeder(self, channel: Channel, helped: list[Tasklet]) -> None:
        while any(each.alive for each in helped):
            if channel.balance < 0:
                channel.send("fed")
            else:
                schedule()
        self.finished.append("feeder")

    def lost(self, number: int) -> None:
        """Wait where nothing can wake it, until the collector finds that out."""
        channel = Channel()
        held = Value(-2, number)
        try:
            channel.receive()
        finally:
            self.check(held.number == number, "what a lost one holds")
            self.finished.append("lost")

    def victim(self, chance: random.Random) -> None:
        self.begun.append(1)
        held = Value(-1, 1)
        try:
            while True:
                chance.choice(self.never).receive()
        except TaskletExit:
            self.check(held.number == 1, "what a victim holds")
            self.finished.append("killed")
            raise

    def killer(self, whose: int, chance: random.Random) -> None:
        victims = list(self.victims[whose])
        chance.shuffle(victims)
        for victim in victims:
            victim.kill()
            if chance.random() < 0.5:
                schedule()
        self.finished.append("killer")

    def thread(self, index: int) -> None:
        chance = random.Random(self.seed * 1000 + index)
        n = self.per_thread
        self.victims[index] = [Tasklet(self.victim, chance) for _ in range(n)]
        for i in range(n if counts()["collects"] else 0):
            Tasklet(self.lost, i)
        self.start.wait()
        work = []
        for i in range(n // 2):
            channel, sender = Channel(), index * 100_000 + i
            work.append((self.local_sender, channel, sender, self.options.messages))
            work.append((self.local_receiver, channel, sender, self.options.messages))
        for i in range(n):
            work.append((self.shared_sender, index * n + i, chance))
            work.append((self.shared_receiver, index * n + i, chance))
        work.append((self.killer, (index + 1) % self.options.threads, chance))
        chance.shuffle(work)
        for function, *arguments in work:
            Tasklet(function, *arguments)
        feeding = Channel()
        helped = [Tasklet(self.crooked, i % 5, feeding) for i in range(n)]
        Tasklet(self.feeder, feeding, helped)
        run()
        self.check(not any(each.alive for each in (*self.victims[index], *helped)), "a tasklet was left")

    def play(self) -> None:
        threads = [threading.Thread(target=self.thread, args=(i,)) for i in range(self.options.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        n, count = self.per_thread, self.options.threads
        expected = {
            "local sender": n // 2 * count,
            "local receiver": n // 2 * count,
            "shared sender": n * count,
            "shared receiver": n * count,
            "crooked": n * count,
            "killed": len(self.begun),
            "lost": n * count if counts()["collects"] else 0,
            "killer": count,
            "feeder": count,
        }
        expected = {what: times for what, times in expected.items() if times}
        self.check(Counter(self.finished) == expected, f"{Counter(self.finished)} instead of {expected}")
        self.check(sum(sent for sent, _ in self.totals) == sum(got for _, got in self.totals), "the sums of all values")
        self.check(all(each.balance == 0 for each in (*self.shared, *self.never)), "tasklets left in a channel")


def collect_until(stop: threading.Event) -> None:
    while not stop.is_set():
        gc.collect()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--tasklets", type=int, default=100, help="in each thread, about")
    parser.add_argument("--channels", type=int, default=16, help="shared by all threads")
    parser.add_argument("--messages", type=int, default=50, help="of each sender")
    parser.add_argument("--collectors", type=int, default=2, help="threads that collect garbage all the time")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=300, help="seconds, for all rounds")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.timeout, exit=True)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"CPython {sys.version.split()[0]}{sys.abiflags}, GIL {'on' if gil else 'off'}", flush=True)
    failed = False
    blocks: list[int] = []
    for number in range(options.rounds):
        began = time.monotonic()
        Value.freed.clear()
        stop = threading.Event()
        collectors = [threading.Thread(target=collect_until, args=(stop,)) for _ in range(options.collectors)]
        for collector in collectors:
            collector.start()
        current = Round(options, options.seed + number)
        current.play()
        stop.set()
        for collector in collectors:
            collector.join()
        for _ in range(3):
            gc.collect()
        n, threads = current.per_thread, options.threads
        values = threads * (n // 2 + n) * options.messages + len(current.begun) + current.finished.count("lost")
        current.check(len(Value.freed) == values, f"{len(Value.freed)} of {values} values were freed")
        failures = Counter(current.failures)
        failed = failed or bool(failures)
        del current
        gc.collect()
        Value.freed.clear()
        blocks.append(sys.getallocatedblocks())
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        verdict = "FAILED" if failures else "ok"
        took = time.monotonic() - began
        print(
            f"round {number}: {verdict}, {values} values, {took:.1f} s, {blocks[-1]} blocks, {memory} MB at most",
            *failures.items(),
            flush=True,
        )
    print(counts())
    if counts()["abandoned"]:
        print("FAILED: tasklets outlived their threads")
        failed = True
    if len(blocks) > 4 and blocks[-1] > blocks[2] + 1000:
        print(f"FAILED: {blocks[-1] - blocks[2]} more blocks of memory than after the third round")
        failed = True
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
