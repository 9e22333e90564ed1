"""Random programs move to a context at any step, or between two instructions, and leave there what they would have left here."""

import gc
import importlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import roamlet
from roamlet import remote
from tests.remote.test_move import BARE
from tests.snapshot._driving import keep, value_at
from tests.snapshot._fuzz import REFUSED, end
from tests.snapshot._random_programs import Writer
from tests.snapshot.conftest import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")

MOST_STEPS = 120


@pytest.fixture
def context() -> Iterator[remote.Context]:
    with remote.local(python=BARE, tasklets=True) as context:
        yield context


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], ModuleType]]:
    """Makes the module of a seed, which travels as any module of a program does."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[ModuleType] = []

    def program(seed: int) -> ModuleType:
        name = f"moved_program_{seed}"
        (tmp_path / f"{name}.py").write_text(Writer(seed).program())
        made.append(importlib.import_module(name))
        return made[-1]

    yield program
    for module in made:
        del sys.modules[module.__name__]
        module.__dict__.clear()
    gc.collect()  # their recursive functions


def undisturbed(main: Callable[[Any], Any]) -> tuple[str, int] | None:
    """What the program returns, and after how many steps; None when those are too many, or it raises an error."""
    out: list[Any] = []
    ch: roamlet.channel[int] = roamlet.channel()
    tasklet = roamlet.tasklet(keep)(main, ch, out)
    tasklet.run()
    step = 0
    while tasklet.alive and step < MOST_STEPS:
        ch.send(value_at(step))
        step += 1
    if tasklet.alive:
        end(tasklet)
        return None
    return (repr(out[0]), step) if isinstance(out[0], list) else None


def moved_at(context: remote.Context, main: Callable[[Any], Any], at: int, steps: int, interrupted: int) -> str | None:
    """What a tasklet returns that moves at this step, and, if it is to be interrupted, after so many instructions."""
    ch: roamlet.channel[int] = roamlet.channel()
    tasklet = roamlet.tasklet(main)(ch)
    tasklet.run()
    for step in range(at):
        ch.send(value_at(step))
    if interrupted:
        ch.preference = 1
        ch.send(value_at(at))
        at += 1
        roamlet.run(interrupted)
        ch.preference = -1
    try:
        call = context.move(tasklet)
    except (roamlet.snapshot.CannotSave, remote.NotMoved) as error:
        end(tasklet)
        if any(each in str(error) for each in REFUSED):
            return None
        raise
    for step in range(at, steps):
        ch.send(value_at(step))
    return repr(call.join())


def tried(context: remote.Context, programs: Callable[[int], ModuleType], first: int, wanted: int) -> int:
    """Try so many moves of programs from this seed on."""
    seed, points = first, 0
    while points < wanted:
        rng = random.Random(seed)
        main = programs(seed).main
        found = undisturbed(main)
        for _ in range(8 if found is not None and found[1] else 0):
            assert found is not None
            expected, steps = found
            at = rng.randrange(steps)
            interrupted = rng.choice((0, rng.randrange(1, 200))) if at + 1 < steps else 0
            result = moved_at(context, main, at, steps, interrupted)
            assert result in (expected, None), (
                f"program {seed} moved at step {at} of {steps}, interrupted {interrupted}"
            )
            points += result is not None
        seed += 1
    return points


def test_random_programs_go_on_there(context: remote.Context, programs: Callable[[int], ModuleType]) -> None:
    assert tried(context, programs, 5_000_000, 120) >= 120


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_tens_of_thousands_of_moves_of_random_programs(
    context: remote.Context, programs: Callable[[int], ModuleType]
) -> None:
    first = int(os.environ.get("ROAMLET_SOAK_SEED") or time.time())
    for seed in range(first, first + 200):
        tried(context, programs, seed * 1_000_000, 100)
        gc.collect()
