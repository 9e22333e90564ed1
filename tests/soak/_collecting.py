"""Tasklets of two threads that switch in whatever a collection calls, while both threads collect.

`python -m tests.soak._collecting SECONDS SEED` prints how many rounds have passed about every second. It ends with a status other
than 0 when an object was finalized twice or never, or something else than the documented refusal was raised.
"""

import contextlib
import gc
import random
import sys
import threading
import time
import traceback
import weakref

import roamlet
from roamlet import core

REFUSED = "inside a collection"
TASKLETS = 6
ROUND_STEPS = 200

problems: list[str] = []
made = [0]
finalized = [0]


class Dying:
    """Garbage at once: a cycle, whose finalizer does what it was made with."""

    __slots__ = ("__dict__", "act", "died")

    def __init__(self, act):
        self.act, self.died = act, False
        self.me = self  # in the dictionary, which whoever takes it clears
        with roamlet.atomic():
            made[0] += 1

    def __del__(self):
        with roamlet.atomic():
            finalized[0] += 1
        if self.died:
            problems.append("an object was finalized twice")
        self.died = True
        try:
            self.act(self)
        except RuntimeError as error:
            if REFUSED not in str(error):
                problems.append(traceback.format_exc())
        except roamlet.TaskletExit:
            raise
        except BaseException:
            problems.append(traceback.format_exc())


class Watched:
    """A cycle without a finalizer: something to refer to weakly."""

    def __init__(self):
        self.me = self


class World:
    """What the tasklets of one thread do."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.taken, self.watchers = [], []
        self.values = roamlet.channel()
        self.steps = ROUND_STEPS

    # What is called inside a collection, in any thread.

    def switches(self, dying):
        roamlet.schedule()

    def is_taken(self, dying):
        roamlet.schedule()
        self.taken.append(dying)

    def waits(self, dying):
        channel = roamlet.channel()
        roamlet.tasklet(channel.send)(1)
        channel.receive()

    def sends(self, dying):
        if self.values.balance < 0:
            self.values.send(1)

    def starts(self, dying):
        roamlet.tasklet(self.light)(2)

    def acts(self):
        return self.random.choice([self.switches, self.is_taken, self.waits, self.sends, self.starts])

    # What tasklets do.

    def light(self, depth):
        frame = sys._getframe()
        if depth:
            self.light(depth - 1)
        roamlet.schedule()
        del frame

    def makes(self):
        for _ in range(self.random.randrange(1, 6)):
            Dying(self.acts())

    def frees(self):
        with contextlib.suppress(IndexError):  # a collection, and tasklets that it ends, may come at any time
            while True:
                self.taken.pop(0).__dict__.clear()
                roamlet.schedule()

    def is_forgotten(self):
        """A tasklet that only the collector can find, or the loss of its last reference."""

        def waits(depth):
            dying = Dying(self.acts())
            if depth:
                waits(depth - 1)
            try:
                roamlet.channel().receive()
            finally:
                self.taken.append(dying)

        roamlet.tasklet(waits)(self.random.randrange(3))

    def is_dropped(self):
        tasklet = roamlet.tasklet(roamlet.schedule_remove)()
        roamlet.schedule()
        del tasklet

    def watches(self):
        if len(self.watchers) > 50:
            self.watchers.clear()
        self.watchers.append(weakref.ref(Watched(), lambda gone: roamlet.schedule()))

    def collects(self):
        gc.collect(self.random.randrange(3))

    def works(self):
        roamlet.call_async(int)

    def receives(self):
        roamlet.tasklet(self.values.send)(1)
        self.values.receive()

    def step(self):
        doing = [self.makes] * 4 + [self.frees] * 4 + [self.collects] * 2
        doing += [self.is_forgotten, self.is_dropped, self.watches, self.works, self.receives, roamlet.schedule]
        self.random.choice(doing)()

    def lives(self):
        try:
            while self.steps > 0:
                self.steps -= 1
                self.step()
        except roamlet.TaskletExit:
            raise
        except BaseException:
            problems.append(traceback.format_exc())

    def runs(self):
        """Let it all happen, with interrupts in every second world."""
        slices = self.random.random() < 0.5
        for _ in range(TASKLETS):
            roamlet.tasklet(self.lives)()
        while self.steps > 0 or roamlet.getruncount() > 1:
            roamlet.run(slice=0.001 if slices else None, hub=False)
            roamlet.sleep(0)
        for _ in range(5):
            self.taken.clear()
            self.watchers.clear()
            for tasklet in core.started():
                tasklet.kill()
            gc.collect()
            roamlet.run()


def round_of(seed):
    """Both threads, each with a world of its own."""
    other = threading.Thread(target=lambda: World(seed + 1).runs())
    other.start()
    World(seed).runs()
    while other.is_alive():
        roamlet.sleep(0.001)
    other.join()
    for _ in range(5):
        gc.collect()
        roamlet.run()


def main(seconds, seed):
    sys.unraisablehook = lambda what: problems.append(f"unraisable: {what.exc_value!r} in {what.object!r}")
    gc.set_threshold(200, 5, 5)
    end, told, rounds = time.monotonic() + seconds, time.monotonic(), 0
    while time.monotonic() < end and not problems:
        round_of(seed)
        seed, rounds = seed + 2, rounds + 1
        if made[0] != finalized[0]:
            problems.append(f"{made[0]} objects were made and {finalized[0]} finalized")
        if time.monotonic() - told > 1:
            told = time.monotonic()
            print(f"{rounds} rounds, {made[0]} objects, seed {seed}", flush=True)
    print(f"{rounds} rounds, {made[0]} objects, seed {seed}", flush=True)
    for problem in problems[:5]:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
