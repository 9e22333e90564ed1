"""Running a program of programs.py in a tasklet: step by step, saved at each."""

import json
import subprocess
import sys
from pathlib import Path

import roamlet
from roamlet import snapshot

ROOT = Path(__file__).resolve().parents[2]


def keep(function, ch, out):
    """What the tasklet runs: its result, or its error, is all that it leaves."""
    try:
        out.append(function(ch))
    except Exception as error:
        out.append(repr(error))


def begun(function):
    """(tasklet, its channel, where its result will be), blocked for the first time."""
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(keep)(function, ch, out)
    tasklet.run()
    return tasklet, ch, out


def end(tasklet):
    """However often it takes: some programs catch what ends them."""
    for _ in range(100):
        if not tasklet.alive:
            return
        tasklet.kill()
    raise AssertionError("it does not end")


def value_at(step):
    return step + 1


class SavesItself:
    """In the place of the channel: where the program would wait, it writes a checkpoint. `errors` has what some steps raise."""

    every = None

    def __init__(self, errors):
        self.step, self.errors = 0, errors

    def receive(self):
        step, self.step = self.step, self.step + 1
        roamlet.checkpoint("job.roamlet", every=SavesItself.every)
        if step in self.errors:
            raise self.errors[step](step)
        return value_at(step)


def finished(tasklet, ch, out, step, limit=10_000):
    """Run to the end from this step on: the result and the number of steps in all."""
    while tasklet.alive and step < limit:
        ch.send(value_at(step))
        step += 1
    return out, step


def saved_at_each_step(function):
    """(snapshots, the result): a snapshot for each point at which it waits."""
    tasklet, ch, out = begun(function)
    snapshots, step = [], 0
    while tasklet.alive:
        snapshots.append(snapshot.dumps((tasklet, ch, out)))
        ch.send(value_at(step))
        step += 1
    return snapshots, out


def wrong_from(snapshots, expected):
    """What went wrong when each was resumed, and saved and restored again at each of its later steps."""
    wrong = []
    for first, data in enumerate(snapshots):
        tasklet, ch, out = snapshot.loads(data)
        step = first
        while tasklet.alive:
            before = tasklet
            tasklet, ch, out = snapshot.loads(snapshot.dumps((tasklet, ch, out)))
            end(before)
            ch.send(value_at(step))
            step += 1
        if repr(out) != expected:
            wrong.append(f"from step {first}: {out!r}, not {expected}")
    return wrong


def in_a_fresh_process(cases):
    """What wrong_from() returns for {name: (snapshots, expected)} in another process: {name: [...]}."""
    text = json.dumps(
        {name: ([each.hex() for each in snapshots], expected) for name, (snapshots, expected) in cases.items()}
    )
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.snapshot._driving"],
        input=text, capture_output=True, text=True, cwd=ROOT, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    answers = {}
    for name, (snapshots, expected) in given.items():
        try:
            answers[name] = wrong_from([bytes.fromhex(each) for each in snapshots], expected)
        except Exception as error:
            answers[name] = [f"{type(error).__name__}: {error}"]
    print(json.dumps(answers))
