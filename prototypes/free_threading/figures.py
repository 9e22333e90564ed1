"""Messages within a thread and across threads: python figures.py [--roamlet], of the prototype or of roamlet itself.

8 threads with 1,000 tasklets each, in 500 pairs of a sender and a receiver. "within": both are in the same thread. "across": the
receiver is in the next thread. The median of the runs; a message is one send() and its receive().
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


def small(_: int) -> object:
    return 7


def fresh(number: int) -> object:
    return (number,)


class Prototype:
    name = "prototype"

    def __init__(self) -> None:
        import pinned

        self.tasklet = pinned.Tasklet
        self.channel: Callable[[], Any] = pinned.Channel
        self.disowning: Callable[[], Any] | None = lambda: pinned.Channel(disown=True)


class Roamlet:
    name = "roamlet"

    def __init__(self) -> None:
        import roamlet

        def channel() -> Any:
            made = roamlet.channel()
            made.preference = 0
            return made

        self.tasklet = lambda function, *arguments: roamlet.tasklet(function)(*arguments)
        self.channel, self.disowning = channel, None


def send(channel: Any, count: int, value: Callable[[int], object], ended: Callable[[], None]) -> None:
    for number in range(count):
        channel.send(value(number))
    ended()


def receive(channel: Any, count: int, ended: Callable[[], None]) -> None:
    for _ in range(count):
        channel.receive()
    ended()


def measure(
    kind: Any,
    make: Callable[[], Any],
    threads: int,
    pairs: int,
    count: int,
    value: Callable[[int], object],
    across: int,
) -> tuple[float, float]:
    """Seconds of the clock and of the processors, for threads * pairs * count messages."""
    channels = [[make() for _ in range(pairs)] for _ in range(threads)]
    ready, go = threading.Barrier(threads + 1), threading.Barrier(threads + 1)

    def work(index: int) -> None:
        left, all_ended = 2 * pairs, make()

        def ended() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                all_ended.send(None)

        for channel in channels[index]:
            kind.tasklet(send, channel, count, value, ended)
        for channel in channels[(index + across) % threads]:
            kind.tasklet(receive, channel, count, ended)
        ready.wait()
        go.wait()
        all_ended.receive()

    started = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for thread in started:
        thread.start()
    ready.wait()
    clock, processor = time.perf_counter(), time.process_time()
    go.wait()
    for thread in started:
        thread.join()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--roamlet", action="store_true")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    kind = Roamlet() if options.roamlet else Prototype()
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"{kind.name}, CPython {sys.version.split()[0]}{sys.abiflags}, GIL {'on' if gil else 'off'}")
    print(
        f"{options.threads} threads, {options.pairs} pairs in each, {options.count} messages for each pair, {options.runs} runs"
    )
    makers = {"plain": kind.channel} | ({"disown": kind.disowning} if kind.disowning else {})
    for across in (0, 1):
        for value in (small, fresh):
            for name, make in makers.items():
                if name == "disown" and (value is small or not across):
                    continue
                found = [
                    measure(kind, make, options.threads, options.pairs, options.count, value, across)
                    for _ in range(options.runs)
                ]
                messages = options.threads * options.pairs * options.count
                clock = statistics.median(clock for clock, _ in found)
                processor = statistics.median(processor for _, processor in found)
                print(
                    f"{'across' if across else 'within':7} {value.__name__:6} {name:7} {messages / clock / 1e6:6.2f} M messages/s, "
                    f"{processor / messages * 1e9:6.0f} ns of CPU each",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
