"""Threads against the GIL: how much two CPU-bound threads get done beside one, and how often a pair of threads hands over.

An ordinary threaded program on the standard library alone, so that `python -m roamlet.threads` can run it unchanged. The
process that starts it asks for one figure at a time (answers.py); it imports nothing of roamlet.
"""

import gc
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from answers import serve

clock = time.perf_counter

# So many steps of a CPU-bound thread pass between two looks at the clock: half a millisecond or so.
STEPS = 10_000

# The producer's step and the consumer's.
Steps = tuple[Callable[[], object], Callable[[], object]]


def compute(steps: int) -> int:
    """Count up: what a CPU-bound thread does, in pure Python."""
    value = 0
    for _ in range(steps):
        value += 1
    return value


def taking_turns(full: Any, empty: Any) -> Steps:
    """Each thread releases what the other one waits for. Neither thread holds one at first."""

    def produce() -> None:
        full.release()
        empty.acquire()

    def consume() -> None:
        full.acquire()
        empty.release()

    return produce, consume


def lock_steps() -> Steps:
    """Two locks, each released by the other thread."""
    full, empty = threading.Lock(), threading.Lock()
    full.acquire()
    empty.acquire()
    return taking_turns(full, empty)


def condition_steps() -> Steps:
    """One condition around one slot, which each waits for the other to fill or to empty."""
    changed = threading.Condition()
    slot: list[object] = []

    def produce() -> None:
        with changed:
            while slot:
                changed.wait()
            slot.append(None)
            changed.notify()

    def consume() -> None:
        with changed:
            while not slot:
                changed.wait()
            slot.clear()
            changed.notify()

    return produce, consume


def semaphore_steps() -> Steps:
    return taking_turns(threading.Semaphore(0), threading.Semaphore(0))


def event_steps() -> Steps:
    full, empty = threading.Event(), threading.Event()

    def produce() -> None:
        empty.clear()
        full.set()
        empty.wait()

    def consume() -> None:
        full.wait()
        full.clear()
        empty.set()

    return produce, consume


def queue_steps(kind: Callable[[], Any]) -> Steps:
    """There through one queue and back through another."""
    there, back = kind(), kind()

    def produce() -> None:
        there.put(None)
        back.get()

    def consume() -> None:
        there.get()
        back.put(None)

    return produce, consume


PAIRS: dict[str, Callable[[], Steps]] = {
    "lock": lock_steps,
    "condition": condition_steps,
    "semaphore": semaphore_steps,
    "event": event_steps,
    "queue": lambda: queue_steps(queue.Queue),
    "simple_queue": lambda: queue_steps(queue.SimpleQueue),
}


class CPUThread:
    """A thread that computes while the `with` lasts; `steps` says how far it came."""

    def __enter__(self) -> "CPUThread":
        self.steps = 0
        self._go_on = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on = False
        self._thread.join()

    def _run(self) -> None:
        while self._go_on:
            self.steps += compute(STEPS)


def computed(threads: int, seconds: float) -> float:
    """Steps a second that so many CPU-bound threads make together."""
    counts = [0] * threads
    until = 0.0
    begin = threading.Barrier(threads)

    def run(which: int) -> None:
        nonlocal until
        if begin.wait() == 0:
            until = clock() + seconds
        begin.wait()
        started = clock()
        steps = 0
        while clock() < until:
            steps += compute(STEPS)
        counts[which] = int(steps / (clock() - started))

    together = [threading.Thread(target=run, args=(which,)) for which in range(threads)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    return float(sum(counts))


def handed_over(pair: str, seconds: float) -> float:
    """Times a second that the producer handed over to the consumer and got its answer."""
    produce, consume = PAIRS[pair]()
    last = -1  # the number of the producer's last step, once that is known
    rate = 0.0

    def producer() -> None:
        nonlocal last, rate
        produce()  # the consumer is there
        started = now = clock()
        until = started + seconds
        count = 0
        while now < until:
            produce()
            count += 1
            now = clock()
        rate = count / (now - started)
        last = count + 2
        produce()

    def consumer() -> None:
        count = 0
        while count != last:
            consume()
            count += 1

    threads = [threading.Thread(target=producer), threading.Thread(target=consumer)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rate


def efficiency(seconds: float) -> dict[str, float]:
    """One CPU-bound thread, then two: steps a second of each, and the second as a part of the first."""
    one = computed(1, seconds)
    two = computed(2, seconds)
    return {"value": two / one, "one": one, "two": two}


def rate(pair: str, seconds: float, beside: bool) -> dict[str, float]:
    """Hand-overs a second; `beside` a CPU-bound thread also the steps a second that were left to it."""
    if not beside:
        return {"value": handed_over(pair, seconds)}
    with CPUThread() as cpu:
        started = clock()
        value = handed_over(pair, seconds)
        return {"value": value, "steps": cpu.steps / (clock() - started)}


def begin(interval: float, cores: int) -> str:
    """Set the switch interval (seconds), run on so many cores (0: all there are), and say what runs here."""
    sys.setswitchinterval(interval)
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    gc.disable()
    return ".".join(map(str, sys.version_info[:3]))


if __name__ == "__main__":
    serve({"begin": begin, "efficiency": efficiency, "rate": rate})
