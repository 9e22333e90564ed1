"""A job that computes for a minute is killed by -9 ten times at random, and ends with the right answer from its checkpoints."""

import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.snapshot.conftest import KNOWN

SECONDS, KILLS = 60, 10
# How far the job gets in that time is found out first, so that it is a minute on any machine.
JOB = """
    import sys, time, weft

    def numbers(limit):
        value = 1
        for step in range(limit):
            value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
            yield step, value

    def job(limit):
        seen, total = {}, 0
        for step, value in numbers(limit):
            total = (total * 31 + value) % 1_000_000_007
            seen[value % 97] = seen.get(value % 97, 0) + 1
            weft.checkpoint("job.weft", every=0.25)
        print(total, sorted(seen.items()))

    if __name__ == "__main__":
        if sys.argv[1] == "rate":
            began = time.perf_counter()
            weft.tasklet(job)(300_000)
            weft.run()
            print(300_000 / (time.perf_counter() - began))
        else:
            weft.tasklet(job)(int(sys.argv[1]))
            weft.run()
"""


def run(folder, *words):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=1200)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.soak
@pytest.mark.skipif(not KNOWN, reason="tasklets are not saved on this version or backend")
@pytest.mark.timeout(1500)
def test_a_job_of_a_minute_that_is_killed_ten_times_ends_with_the_right_answer(tmp_path):
    script, file = tmp_path / "job.py", tmp_path / "job.weft"
    script.write_text(textwrap.dedent(JOB))
    start = [sys.executable, str(script)]
    *_, rate = run(tmp_path, *start, "rate").splitlines()
    limit = str(int(float(rate) * SECONDS))
    expected = run(tmp_path, *start, limit)
    file.unlink()
    rng, words, killed = random.Random(), [*start, limit], 0
    while killed < KILLS:
        with subprocess.Popen(
            words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            # Somewhere in the minute, the saving included; that it is killed once it has saved makes that it goes on at all.
            time.sleep(rng.uniform(0.5, SECONDS / KILLS * 1.5))
            running.send_signal(signal.SIGKILL)
            said, problems = running.communicate()
        assert problems == ""
        if said:
            assert said == expected
            break
        killed += 1
        if file.exists():
            words = [sys.executable, "-m", "weft", "resume", str(file)]
    else:
        assert run(tmp_path, *words) == expected
    assert killed >= 5
