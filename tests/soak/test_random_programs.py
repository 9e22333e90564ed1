"""Half a million points of random programs on each CPython that is here and whose frames are known: tests/snapshot/_fuzz.py says
what a point is.

Ten minutes and more for each Python on 2 cores, in as many lanes as there are cores. ROAMLET_SOAK_POINTS says how many points
instead, ROAMLET_SOAK_SEED with which seed: another one tries other programs. The other Pythons get roamlet in build/bench-X.Y.
"""

import contextlib
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from roamlet.snapshot import _native
from tests.soak._pythons import ROOT, pythons, with_roamlet

POINTS = int(os.environ.get("ROAMLET_SOAK_POINTS", "500000"))
LANES = len(os.sched_getaffinity(0))
TELL = 30  # seconds between two lines of progress
MOST_FAILURES = 20


class Lane:
    """One process that tries its share. What it says last, when it crashes, is the seed of the program that did it."""

    def __init__(self, python, first, wanted):
        self.first, self.wanted = first, wanted
        self.points, self.failures, self.last = 0, [], None
        self.process = subprocess.Popen(
            [python, "-X", "faulthandler", "-m", "tests.snapshot._fuzz", str(first), str(wanted)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def read(self):
        with self.process as process, ThreadPoolExecutor(1) as pool:
            problems = pool.submit(process.stderr.read)
            for line in process.stdout:
                self.last, _, what = line.strip().partition(" ")
                if what.isdecimal():
                    self.points += int(what)
                else:
                    self.failures.append(f"seed {self.last}: {what}")
                    if len(self.failures) >= MOST_FAILURES:
                        process.kill()
        if process.returncode != 0:
            self.failures.append(f"ended with {process.returncode} at seed {self.last}: {problems.result()[-3000:]}")


@pytest.mark.soak
@pytest.mark.timeout(14_400)
@pytest.mark.skipif(not _native.known, reason="the frames of this CPython are not known")
@pytest.mark.parametrize(("version", "path"), pythons(), ids=lambda each: "{}.{}".format(*each) if each else "")
def test_half_a_million_points_of_random_programs(version, path, told):
    python = with_roamlet(version, path)
    seed = int(os.environ.get("ROAMLET_SOAK_SEED") or time.time())
    name, began = "python{}.{}".format(*version), time.monotonic()
    told(f"{name}: {POINTS:,} points from seed {seed}, in {LANES} lanes")
    lanes = [Lane(python, (seed * 1000 + number) * 1_000_000, -(-POINTS // LANES)) for number in range(LANES)]
    with ThreadPoolExecutor(LANES) as pool, contextlib.ExitStack() as at_the_end:
        for lane in lanes:
            at_the_end.callback(lane.process.kill)
        reading = [pool.submit(lane.read) for lane in lanes]
        while not all(each.done() for each in reading):
            with contextlib.suppress(TimeoutError):
                [each.result(TELL) for each in reading if not each.done()]
            points, seconds = sum(lane.points for lane in lanes), time.monotonic() - began
            left = (POINTS - points) * seconds / max(points, 1)
            told(f"{name}: {points:,} points, {points / seconds:.0f} a second, {max(left, 0) / 60:.0f} minutes left")
    failures = [failure for lane in lanes for failure in lane.failures]
    assert failures == [], f"{name}, seed {seed}: {len(failures)} failed, first {failures[0]}"
    assert sum(lane.points for lane in lanes) >= POINTS
