"""A job that computes for a minute is killed by -9 ten times at random, once while it writes, and ends with the right answer from
its checkpoints. Each time it goes on where its last good checkpoint was, and no kill sets it back behind that.

A minute and a half on 2 cores. ROAMLET_SOAK_SEED repeats one.
"""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.snapshot.conftest import KNOWN

SECONDS, KILLS = 60, 10
BETWEEN = 1.0, 5.0  # seconds of CPU time from one kill to the next: ten of them are over before the minute is
TICKS = os.sysconf("SC_CLK_TCK")
STEPS_TO_CALIBRATE = 300_000

# What it has seen is large, so that writing takes a while in which it can be killed.
JOB = """
    import sys, time, roamlet

    def numbers(limit):
        value = 1
        for step in range(limit):
            value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
            yield step, value

    def note(step):
        with open("resumed", "a") as journal:
            print(step, file=journal)

    def job(limit, save):
        seen, total, ballast = {}, 0, bytearray(8_000_000)
        for step, value in numbers(limit):
            total = (total * 31 + value) % 1_000_000_007
            seen[value % 97] = seen.get(value % 97, 0) + 1
            ballast[value % len(ballast)] = step % 256
            if save and roamlet.checkpoint("job.roamlet", every=0.25):
                note(step)
        print(total, sorted(seen.items()), sum(ballast))

    if __name__ == "__main__":
        began = time.process_time()
        roamlet.tasklet(job)(int(sys.argv[2]), sys.argv[1] == "save")
        roamlet.run()
        if sys.argv[1] == "rate":
            print(int(sys.argv[2]) / (time.process_time() - began))
"""


class Job:
    """The job in its folder, and what was done to it."""

    def __init__(self, folder, rng):
        self.folder, self.rng = folder, rng
        self.file = folder / "job.roamlet"
        self.partial = folder / "job.roamlet.partial"
        self.script = folder / "job.py"
        self.script.write_text(textwrap.dedent(JOB))
        self.in_the_middle = 0  # kills while it wrote

    def started(self, *words):
        return subprocess.Popen(
            [sys.executable, *map(str, words)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )  # fmt: skip

    def result(self, *words):
        with self.started(*words) as process:
            return ended(process)

    def killed(self, words, *, while_it_writes):
        """Start it, and kill it after a random time of computing; what it said until then."""
        with self.started(*words) as process:
            wanted = self.rng.uniform(*BETWEEN)
            while process.poll() is None and cpu_seconds(process.pid) < wanted:
                time.sleep(0.01)
            deadline = time.monotonic() + 60
            while while_it_writes and not self.writes() and process.poll() is None and time.monotonic() < deadline:
                pass
            process.send_signal(signal.SIGKILL)
            said, problems = process.communicate()
        assert (process.returncode, said, problems) == (-signal.SIGKILL, "", "")
        self.in_the_middle += self.partial.exists()

    def writes(self):
        try:
            return self.partial.stat().st_size > 0
        except FileNotFoundError:
            return False

    def step_saved(self):
        """Where the job is in its last good checkpoint."""
        shown = json.loads(self.result("-m", "roamlet", "show", "--json", self.file))
        (frame,) = [frame for tasklet in shown["tasklets"] for frame in tasklet["frames"] if frame["function"] == "job"]
        return int(next(each["value"] for each in frame["variables"] if each["name"] == "step"))

    def steps_resumed(self):
        return [int(line) for line in (self.folder / "resumed").read_text().split()]


def ended(process):
    said, problems = process.communicate()
    assert (process.returncode, problems) == (0, "")
    return said


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@pytest.mark.soak
@pytest.mark.skipif(not KNOWN, reason="tasklets are not saved on this version or backend")
@pytest.mark.timeout(3000)
def test_a_job_of_a_minute_that_is_killed_ten_times_ends_with_the_right_answer(tmp_path, told):
    seed = int(os.environ.get("ROAMLET_SOAK_SEED") or time.time())
    job = Job(tmp_path, random.Random(seed))
    *_, rate = job.result(job.script, "rate", STEPS_TO_CALIBRATE).splitlines()
    limit = int(float(rate) * SECONDS)
    start, go_on = [job.script, "save", limit], ["-m", "roamlet", "resume", job.file]
    middle = job.rng.randrange(1, KILLS - 2)  # from this kill on, until one has met it while it wrote
    steps = []
    with job.started(job.script, "plain", limit) as undisturbed:
        for number in range(KILLS):
            job.killed(go_on if number else start, while_it_writes=number >= middle and not job.in_the_middle)
            steps.append(job.step_saved())
        said = job.result(*go_on)
        expected = ended(undisturbed)
    told(
        f"seed {seed}: {limit:,} steps, killed at {', '.join(f'{step / limit:.0%}' for step in steps)}, "
        f"{job.in_the_middle} of {KILLS} while it wrote\n"
    )
    assert said == expected
    assert len(steps) == KILLS
    assert steps == sorted(set(steps)), "a kill has set it back, or it has saved nothing since the one before"
    assert steps[0] > 0 and steps[-1] < limit
    assert job.steps_resumed() == steps, "it did not go on where its last checkpoint was"
    assert job.in_the_middle > 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["job.py", "job.roamlet", "resumed"]
