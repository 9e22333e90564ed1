"""Random networks of processes whose results do not depend on who runs when, and ways to run them.

Each channel has one process that sends on it and one that receives. So whatever the order, the threads, the interrupts: each
process ends with the state that `expected` computes without roamlet. Between messages a process computes, and counts in a
dictionary that all share, inside `with roamlet.atomic()`.
"""

import random
import threading
from dataclasses import dataclass
from typing import Any

import roamlet

Step = tuple[str, int]
MODULUS = 2**61 - 1


@dataclass
class Network:
    seed: int
    scripts: list[list[Step]]
    preferences: list[int]
    buffers: list[int]
    counts: int
    """How many steps there are that count."""


def random_network(seed: int, processes: int = 6, channels: int = 8, messages: int = 60) -> Network:
    """Every message has its place in one order of all, so that no process waits for ever."""
    generator = random.Random(seed)
    scripts: list[list[Step]] = [[] for _ in range(processes)]
    ends = [generator.sample(range(processes), 2) for _ in range(channels)]
    counts = 0
    for _ in range(messages):
        channel = generator.randrange(channels)
        sender, receiver = ends[channel]
        for process in (sender, receiver):
            for _ in range(generator.randrange(3)):
                kind = generator.choice(["compute", "compute", "schedule", "count", "sort", "generate"])
                counts += kind == "count"
                scripts[process].append((kind, generator.randrange(1, 30)))
        scripts[sender].append(("send", channel))
        scripts[receiver].append(("receive", channel))
    preferences = [generator.choice([-1, 0, 1]) for _ in range(channels)]
    return Network(seed, scripts, preferences, [generator.choice([0, 0, 1, 4]) for _ in range(channels)], counts)


def mixed(state: int, value: int) -> int:
    return (state * 1_000_003 + value) % MODULUS


def computed(kind: str, state: int, amount: int) -> int:
    """What a process does between messages."""
    if kind == "sort":
        return mixed(state, sorted(range(amount), key=lambda number: mixed(state, number))[amount // 2])
    if kind == "generate":
        return mixed(state, sum(mixed(state, number) for number in range(amount)))
    for number in range(amount):
        state = mixed(state, number)
    return state


def expected(network: Network) -> list[int]:
    """The states that the processes end with: run in any order, each as far as it gets."""
    states, places = list(range(len(network.scripts))), [0] * len(network.scripts)
    queues: list[list[int]] = [[] for _ in network.preferences]
    going = True
    while going:
        going = False
        for process, script in enumerate(network.scripts):
            while places[process] < len(script):
                kind, number = script[places[process]]
                if kind == "receive":
                    if not queues[number]:
                        break
                    states[process] = mixed(states[process], queues[number].pop(0))
                elif kind == "send":
                    queues[number].append(states[process])
                elif kind in ("compute", "sort", "generate"):
                    states[process] = computed(kind, states[process], number)
                places[process] += 1
                going = True
    assert places == [len(script) for script in network.scripts]
    return states


class Running:
    """One run of a network with roamlet."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.states: list[Any] = [None] * len(network.scripts)
        self.shared = {"count": 0}
        self.channels = [roamlet.channel(size) for size in network.buffers]
        for channel, preference in zip(self.channels, network.preferences, strict=True):
            channel.preference = preference

    def process(self, index: int) -> None:
        state = index
        for kind, number in self.network.scripts[index]:
            if kind == "send":
                self.channels[number].send(state)
            elif kind == "receive":
                state = mixed(state, self.channels[number].receive())
            elif kind == "schedule":
                roamlet.schedule()
            elif kind == "count":
                with roamlet.atomic():
                    before = self.shared["count"]
                    computed("compute", state, number)
                    self.shared["count"] = before + 1
            else:
                state = computed(kind, state, number)
        self.states[index] = state

    def check(self) -> None:
        assert self.states == expected(self.network), f"seed {self.network.seed}"
        assert self.shared["count"] == self.network.counts, f"seed {self.network.seed}"
        assert all(channel.balance == channel.buffered == 0 for channel in self.channels)


def run_to_the_end(**options: Any) -> int:
    """run() with these options until all is done, each interrupted tasklet inserted again; how many were."""
    interrupts = 0
    while True:
        interrupted = roamlet.run(**options)
        if interrupted is None and roamlet.getruncount() == 1:
            return interrupts
        if interrupted is not None:
            interrupts += 1
            interrupted.insert()


def run_alone(network: Network, **options: Any) -> int:
    """In this thread. Returns how often somebody was interrupted and came back to run()."""
    running = Running(network)
    for index in range(len(network.scripts)):
        roamlet.tasklet(running.process)(index)
    interrupts = run_to_the_end(**options)
    running.check()
    return interrupts


def run_in_threads(network: Network, threads: int, **options: Any) -> None:
    """The processes dealt out to threads, each of which runs its own."""
    running = Running(network)

    def body(share: range) -> None:
        left, main = set(share), roamlet.getmain()

        def process(index: int) -> None:
            running.process(index)
            left.remove(index)
            if not left:
                main.insert()  # it waits in run(), and would for as long as other threads live

        for index in share:
            roamlet.tasklet(process)(index)
        while left:
            interrupted = roamlet.run(threadblock=True, **options)
            if interrupted is not None:
                interrupted.insert()
        roamlet.run()

    made = [
        threading.Thread(target=body, args=(range(number, len(network.scripts), threads),)) for number in range(threads)
    ]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    running.check()
