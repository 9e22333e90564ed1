"""A load that lasts: crews of tasklets in several threads, disturbed at random, and what there must be left of it: nothing.

What they do is in work.py; here is who is started, killed and replaced, and what is measured. The seed decides what is chosen; the
threads decide in which order, so a seed repeats a load in kind and not in each step.
"""

import os
import sys
import threading
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import NamedTuple

import roamlet
from roamlet import sync
from roamlet.io import workers

PAGE = os.sysconf("SC_PAGE_SIZE")

# How long what was killed may take to tidy up. Far more than it needs on a busy machine.
END_SECONDS = 60.0


class Over(Exception):
    """The load's time is up: workers end here."""


class Sample(NamedTuple):
    """The process at one moment. `blocks` are CPython's own of up to 512 bytes, exact where resident memory has pages."""

    resident: int
    blocks: int
    descriptors: int
    threads: int


@dataclass
class Load:
    """One run: its crews, their counts, its failures."""

    seed: int
    seconds: float
    threads: int = 3
    over: bool = False
    failures: list[str] = field(default_factory=list)
    # An array for each field of a Sample: objects that are kept for each second would themselves be what grows.
    samples: "dict[str, array[int]]" = field(default_factory=lambda: {one: array("q") for one in Sample._fields})
    crews: "list[Crew]" = field(default_factory=list)
    nobody_asks: sync.Barrier | None = None
    total: Counter[str] = field(default_factory=Counter)

    def run(self, make_work: "Callable[[Crew], dict[str, Callable[[], None]]]", say: Callable[[str], None]) -> None:
        """Run the crews for so long in threads of their own, then end them all; `say` is told the progress."""
        self.nobody_asks = sync.Barrier(self.threads)
        self.crews = [Crew(self, number) for number in range(self.threads)]
        threads = [
            threading.Thread(target=crew.run, args=(make_work,), name=f"crew-{crew.number}") for crew in self.crews
        ]
        started = monotonic()
        for thread in threads:
            thread.start()
        told = 0.0
        while (passed := monotonic() - started) < self.seconds and not self.failures:
            for what, value in sample()._asdict().items():
                self.samples[what].append(value)
            if passed >= told:
                say(self.progress(passed))
                told += max(5.0, self.seconds / 60)
            roamlet.sleep(min(1.0, self.seconds / 40))
        self.over = True
        while any(thread.is_alive() for thread in threads):
            roamlet.sleep(0.01)
        for thread in threads:
            thread.join()
        say(self.progress(monotonic() - started))
        self.total = self.totals()
        self.crews.clear()  # which refer to this load, as it did to them

    def progress(self, passed: float) -> str:
        """One line: how far, what was done, what the process has."""
        now = sample()
        done = ", ".join(f"{count} {what}" for what, count in sorted(self.totals().items()))
        return (
            f"seed {self.seed}, {passed:.0f} of {self.seconds:.0f} s: {now.resident / 1e6:.1f} MB, {now.blocks} blocks, "
            f"{now.descriptors} descriptors, {now.threads} threads, workers {workers.status()}; {done}"
        )

    def totals(self) -> Counter[str]:
        """What all crews have done. Each counts for itself, as the GIL guards no `+= 1`."""
        total: Counter[str] = Counter()
        for crew in self.crews:
            total.update(dict(crew.counts))
        return total

    def growth(self, what: str) -> float:
        """How much more of it there was in the last quarter of the time than in the second: the difference of their medians.

        The first quarter is left out: pools, arenas and the crews themselves reach their size in it. Medians, as a sample is
        taken wherever the crews happen to be.
        """
        values = self.samples[what]
        quarter = len(values) // 4
        return median(values[3 * quarter :]) - median(values[quarter : 2 * quarter])


def sample() -> Sample:
    return Sample(
        int(Path("/proc/self/statm").read_text().split()[1]) * PAGE,
        sys.getallocatedblocks(),
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
    )


class Crew:
    """The workers of one thread: a tasklet each, which does its work again and again, until it is killed and replaced."""

    def __init__(self, load: Load, number: int) -> None:
        self.load = load
        self.number = number
        self.random = Random(f"{load.seed}/{number}")
        self.counts: Counter[str] = Counter()
        self.members: list[roamlet.tasklet] = []
        self.helpers: list[roamlet.tasklet] = []  # are not killed at random: they end with what they serve

    def run(self, make_work: "Callable[[Crew], dict[str, Callable[[], None]]]") -> None:
        """The whole life of the thread."""
        try:
            work = make_work(self)
            kinds = [name for name in work if name != "end"]
            for kind in kinds * 4:
                self.start(kind, work[kind])
            while not self.load.over:
                roamlet.sleep(self.random.uniform(0, 0.02))
                self.disturb(kinds, work)
            self.end(self.members)
            self.load.nobody_asks.wait(END_SECONDS)  # whoever serves others does so until they have ended, too
            if "end" in work:
                work["end"]()
            self.end(self.helpers)
        except BaseException as error:
            self.fail(f"crew {self.number}", error)

    def start(self, kind: str, step: Callable[[], None]) -> None:
        """Add a worker."""

        def live() -> None:
            try:
                while not self.load.over:
                    step()
                    self.counts[kind] += 1
            except Over:
                pass
            except Exception as error:
                self.fail(kind, error)

        self.members.append(roamlet.tasklet(live)())

    def help(self, serve: Callable[[], None]) -> None:
        """Start a tasklet that serves others and ends by itself."""

        def live() -> None:
            try:
                serve()
            except Exception as error:
                self.fail("helper", error)

        self.helpers = [one for one in self.helpers if one.alive]
        self.helpers.append(roamlet.tasklet(live)())

    def disturb(self, kinds: list[str], work: dict[str, Callable[[], None]]) -> None:
        """Kill somebody, of this thread at once or of another one when it runs next, and replace whoever is dead."""
        crew = self.random.choice(self.load.crews)
        victim = self.random.choice(crew.members) if crew.members else None
        if victim is not None and victim.alive:
            victim.kill(pending=crew is not self or self.random.random() < 0.5)
            self.counts["kills"] += 1
        dead = [member for member in self.members if not member.alive]
        for member in dead:
            self.members.remove(member)
            kind = self.random.choice(kinds)
            self.start(kind, work[kind])

    def end(self, tasklets: list[roamlet.tasklet]) -> None:
        """Kill these and wait until they have tidied up."""
        until = monotonic() + END_SECONDS
        while alive := [one for one in tasklets if one.alive]:
            for one in alive:
                if one.alive:
                    one.kill()
            if monotonic() > until:
                self.load.failures.append(f"crew {self.number}: {len(alive)} tasklets do not end, {alive[0]!r} is one")
                break
            roamlet.sleep(0.001)
        tasklets.clear()

    def fail(self, where: str, error: BaseException) -> None:
        """Remember a failure; the first ends the load. As text: the error would keep its frames."""
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        line = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else "nowhere"
        self.load.failures.append(f"{where} at {line}: {type(error).__name__}: {error}")
