"""Random programs against themselves: a copy taken at any point must end with the result that the undisturbed program had.

`python -m tests.snapshot._fuzz FIRST POINTS` is a lane of the soak test: a line for each program, from seed FIRST on.
"""

import contextlib
import gc
import os
import random
import sys
import traceback

import roamlet
from roamlet import snapshot
from roamlet.snapshot.saving import checkpoint
from tests.snapshot._driving import SavesItself, begun, keep, value_at
from tests.snapshot._random_programs import module

MOST_STEPS = 400
MOST_INSTRUCTIONS = (5, 20, 60, 200, 1000)  # at most between two interruptions, in a program
ERRORS = (KeyError, ValueError, LookupError)
REFUSED = (  # where a tasklet cannot be saved that was interrupted between two instructions
    "before CPython 3.12, running a generator",
    "has neither a variable nor an operand",
    "what C code was about to do next cannot be saved",
)


class Program:
    """The program of a seed, as often as it is wanted. `expected` is what it leaves undisturbed, after so many steps."""

    def __init__(self, seed, made):
        self.seed = seed
        self.main = made.main
        self.random = random.Random(seed)
        steps = (self.random.randrange(MOST_STEPS) for _ in range(12))
        self.errors = {step: ERRORS[step % 3] for step in steps}  # what it gets at these steps, and no value
        tasklet, ch, out = begun(made.main)
        self.steps = self.run(tasklet, ch, 0)
        self.ends = not tasklet.alive
        end(tasklet)
        self.expected = repr(out)

    def give(self, ch, step):
        if step in self.errors:
            ch.send_exception(self.errors[step], step)
        else:
            ch.send(value_at(step))

    def run(self, tasklet, ch, step, until=MOST_STEPS):
        """Let it run on from this step; the number of the step where it has ended, or waits."""
        while tasklet.alive and step < until:
            self.give(ch, step)
            step += 1
        return step

    def check(self, tasklet, out, where):
        alive = tasklet is not None and tasklet.alive
        if alive or repr(out) != self.expected:
            state = "which has not ended" if alive else "at its end"
            raise AssertionError(f"program {self.seed}, {where}: {out!r} {state}, not {self.expected}")


def end(tasklet):
    """However often it takes; what is killed inside of an `except*` leaves with a group."""
    while tasklet.alive:
        with contextlib.suppress(BaseExceptionGroup):
            tasklet.kill()


def points_of(seed, most=60):
    """How many points of this program were tried; an AssertionError names the first that is wrong."""
    return _tried(seed, lambda program: _at_its_steps(program, max(1, program.steps // most)))


def interrupted_points_of(seed):
    """The same, between any two instructions instead of where it waits."""
    return _tried(seed, _between_instructions)


def checkpoint_points_of(seed, most=40):
    """The same, where it saves itself with roamlet.checkpoint()."""
    return _tried(seed, lambda program: _at_its_checkpoints(program, most))


def _tried(seed, how):
    made = module(seed)
    if made is None:
        return 0
    try:
        program = Program(seed, made)
        return how(program) if program.ends else 0  # one that is too long is not tried
    finally:
        sys.modules.pop(made.__name__)
        made.__dict__.clear()
        gc.collect()  # its recursive functions and exceptions with tracebacks


def _at_its_steps(program, stride):
    tasklet, ch, out = begun(program.main)
    points = 0
    for step in range(program.steps):
        if step % stride == 0 or step < 3:
            points += 1
            copy, its_channel, its_out = snapshot.loads(snapshot.dumps((tasklet, ch, out)))
            later = program.run(copy, its_channel, step, step + program.random.randrange(1, 30))
            if copy.alive:  # a copy of the copy goes on
                before = copy
                copy, its_channel, its_out = snapshot.loads(snapshot.dumps((copy, its_channel, its_out)))
                end(before)
                program.run(copy, its_channel, later)
            program.check(copy, its_out, f"step {step} of {program.steps}, then {later}")
        program.give(ch, step)
    program.check(tasklet, out, "which was disturbed")
    return points


def _between_instructions(program):
    rng, ch, out = program.random, roamlet.channel(), []
    ch.preference = 1  # who receives is made runnable, so that run() can interrupt it
    tasklet = roamlet.tasklet(keep)(program.main, ch, out)
    step = points = 0
    most, often = rng.choice(MOST_INSTRUCTIONS), rng.uniform(0.05, 0.4)
    while tasklet.alive:
        interrupted = roamlet.run(rng.randrange(1, most))
        if interrupted is None:
            if tasklet.alive:
                program.give(ch, step)
                step += 1
            continue
        if rng.random() < often:
            points += _interrupted(program, tasklet, ch, out, step)
        tasklet.insert()
    program.check(tasklet, out, "which was disturbed")
    return points


def _interrupted(program, tasklet, ch, out, step):
    where = f"step {step}, interrupted at {_places(tasklet)}"
    copied = _copied(program, where, tasklet, ch, out)
    if copied is None:
        return 0
    copy, its_channel, its_out = copied
    copy.insert()
    if roamlet.run(program.random.randrange(1, 100)) is copy:
        where = f"{where}, then at {_places(copy)}"
        copied = _copied(program, where, copy, its_channel, its_out)
        if copied is not None:  # a copy of the copy goes on
            end(copy)
            copy, its_channel, its_out = copied
        copy.insert()
    its_channel.preference = -1
    roamlet.run()
    program.run(copy, its_channel, step)
    program.check(copy, its_out, where)
    return 1


def _copied(program, where, *things):
    """The copies; None where nothing can be saved that was interrupted."""
    try:
        return snapshot.loads(snapshot.dumps(things))
    except snapshot.CannotSave as error:
        if any(each in str(error) for each in REFUSED):
            return None
        raise AssertionError(f"program {program.seed}, {where}: {error}") from error


def _at_its_checkpoints(program, most):
    saved, real = [], checkpoint.replace
    checkpoint.replace = lambda written, data: saved.append(data)  # no file, so that a thousand are quick
    try:
        out = []
        roamlet.tasklet(keep)(program.main, SavesItself(program.errors), out)
        roamlet.run()
        program.check(None, out, "which saved itself")
        points = saved[:: max(1, len(saved) // most)]
        SavesItself.every = 3600
        for number, data in enumerate(points):
            copy = snapshot.loads(data)
            its_out = _variable_of(copy, keep, "out")
            copy.insert()
            roamlet.run()
            program.check(copy, its_out, f"checkpoint {number} of {len(points)}")
        return len(points)
    finally:
        checkpoint.replace, SavesItself.every = real, None


def _variable_of(tasklet, function, name):
    frame = tasklet.frame
    while frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame.f_locals[name]


def _places(tasklet):
    frame, found = tasklet.frame, []
    while frame is not None:
        found.append(f"{frame.f_code.co_name}:{frame.f_lineno} ({frame.f_lasti})")
        frame = frame.f_back
    return ", ".join(found)


KINDS = points_of, interrupted_points_of, checkpoint_points_of


def lane(first, wanted):
    """Try so many points. A line for each program: its seed, before it is tried, and how many there were, or what is wrong."""
    points, seed = 0, first
    while points < wanted:
        print(seed, end=" ", flush=True)
        try:
            tried = KINDS[seed % len(KINDS)](seed)
        except Exception:
            tried = 0
            print("failed", repr(traceback.format_exc()), flush=True)
        else:
            print(tried, flush=True)
        points += tried
        seed += 1


if __name__ == "__main__":
    gc.disable()
    lane(int(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)  # what failed may have left tasklets that do not end
