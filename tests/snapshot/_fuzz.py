"""Random programs against themselves: a copy taken at any point must end with the result that the undisturbed program had."""

import gc
import sys

from tests.snapshot._driving import begun, end, finished, value_at
from tests.snapshot._random_programs import module
from weft import snapshot

MOST_STEPS = 400


def points_of(seed, most=40):
    """How many points of this program were tried; an AssertionError names the first that is wrong."""
    made = module(seed)
    if made is None:
        return 0
    try:
        tasklet, ch, out = begun(made.main)
        expected, steps = finished(tasklet, ch, out, 0, MOST_STEPS)
        if tasklet.alive:  # too long to be tried everywhere
            end(tasklet)
            return 0
        return _compare(seed, made, repr(expected), steps, max(1, steps // most))
    finally:
        sys.modules.pop(made.__name__)
        made.__dict__.clear()
        gc.collect()  # its recursive functions and exceptions with tracebacks


def _compare(seed, made, expected, steps, stride):
    tasklet, ch, out = begun(made.main)
    points = 0
    for step in range(steps):
        if step % stride == 0 or step < 3:
            points += 1
            copy, its_channel, its_out = snapshot.loads(snapshot.dumps((tasklet, ch, out)))
            finished(copy, its_channel, its_out, step, MOST_STEPS)
            if copy.alive or repr(its_out) != expected:
                raise AssertionError(f"program {seed}, step {step} of {steps}: {its_out!r}, not {expected}")
        ch.send(value_at(step))
    assert repr(out) == expected, f"program {seed} was disturbed: {out!r}, not {expected}"
    return points
