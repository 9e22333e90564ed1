"""A job whose process is killed goes on in another one, however often, to the right end."""

import random
import signal
import subprocess
import sys
import time

import pytest

import roamlet
from roamlet import snapshot

JOB = """
    import random, sys, roamlet

    class Sums:
        def __init__(self):
            self.seen = {}

        def add(self, number):
            self.seen[number % 7] = self.seen.get(number % 7, 0) + number

    def steps(rng, count):
        for step in range(count):
            yield step, rng.randrange(1000)

    def job(count, every, rng):
        sums = Sums()
        total = 0
        for step, number in steps(rng, count):
            total = (total * 31 + number) % 1_000_003
            sums.add(number)
            if step % 50 == 0:
                try:
                    resumed = roamlet.checkpoint("job.roamlet", every=every)
                finally:
                    total += 1
                if resumed:
                    print("resumed", flush=True)
        print("total", total, sorted(sums.seen.items()), flush=True)

    if __name__ == "__main__":
        roamlet.tasklet(job)(int(sys.argv[1]), None, random.Random(5))
        roamlet.run()
"""


def the_end(text):
    (last,) = [line for line in text.splitlines() if line.startswith("total ")]
    return last


def test_a_job_that_is_killed_ten_times_comes_to_the_right_end(program, python, tmp_path):
    script = program(JOB, "job.py")
    expected = the_end(python(script, "10000").stdout)
    file = tmp_path / "job.roamlet"
    file.unlink()
    rng, words = random.Random(11), [sys.executable, script, "10000"]
    kills = 0
    for _ in range(10):
        written = file.stat().st_mtime_ns if file.exists() else 0
        left = rng.randrange(1, 8)  # checkpoints, until it is killed
        with subprocess.Popen(
            words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            deadline = time.monotonic() + 60
            while left and running.poll() is None and time.monotonic() < deadline:
                now = file.stat().st_mtime_ns if file.exists() else 0
                left -= now != written
                written = now
            running.send_signal(signal.SIGKILL)
            said, problems = running.communicate()
        assert problems == ""
        assert file.exists()
        if "total" in said:
            break
        kills += 1
        words = [sys.executable, "-m", "roamlet", "resume", str(file)]
    assert kills >= 3, "it was too quick to be killed"
    done = python("-m", "roamlet", "resume", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert the_end(done.stdout) == expected
    assert done.stdout.startswith("resumed\n")
    assert sorted(each.name for each in tmp_path.iterdir()) in (
        ["job.py", "job.roamlet"],
        ["job.py", "job.roamlet", "job.roamlet.partial"],
    )


def test_resume_in_the_script_itself_finds_its_functions_and_classes(program, python):
    script = program("""
        import os, roamlet
        from roamlet import snapshot

        class Thing:
            pass

        def job(thing):
            for number in range(3):
                print(number, roamlet.checkpoint("job.roamlet"), type(thing) is Thing, flush=True)
                if number == 1 and not os.path.exists("crashed"):
                    open("crashed", "w").close()
                    os._exit(9)

        if __name__ == "__main__":
            if os.path.exists("job.roamlet"):
                print(snapshot.resume("job.roamlet").alive)
            else:
                roamlet.tasklet(job)(Thing())
            roamlet.run()
    """)
    assert python(script).stdout == "0 False True\n1 False True\n"
    done = python(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n1 True True\n2 False True\n", "")


def kept(value, ch):
    return [ch.receive(), value]


def test_a_file_that_dumps_has_written_is_resumed_as_it_was(tmp_path):
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(kept)(5, ch)
    path = tmp_path / "it"
    path.write_bytes(snapshot.dumps(tasklet))  # it has not begun, and is in the run queue
    copy = snapshot.resume(path)
    assert copy.scheduled and not copy.blocked
    roamlet.run()
    assert copy.blocked and tasklet.blocked
    path.write_bytes(snapshot.dumps(tasklet))
    again = snapshot.resume(path)
    assert again.blocked
    for each in (tasklet, copy, again):
        each.kill()


def test_what_is_no_tasklet_is_refused_and_nothing_of_it_is_left(tmp_path):
    path = tmp_path / "it"
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(kept)(5, ch)
    path.write_bytes(snapshot.dumps([tasklet]))
    tasklet.remove()
    with pytest.raises(
        snapshot.BadSnapshot, match=r"/it: it holds a list and no tasklet: roamlet\.snapshot\.loads\(\) reads such"
    ):
        snapshot.resume(path)
    assert roamlet.getruncount() == 1
    with pytest.raises(FileNotFoundError):
        snapshot.resume(tmp_path / "none")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(snapshot.BadSnapshot, match="/it: the snapshot is damaged"):
        snapshot.resume(path)
