"""Saving and restoring again and again leaves nothing behind: not an object, not a block, not a reference."""

import gc
import sys

import pytest

import weft
from tests.snapshot import programs
from tests.snapshot._driving import begun, end
from weft import snapshot

TIMES = 1600

SCENARIOS = [
    programs.counter_three_calls_deep, programs.with_blocks, programs.try_finally_except, programs.closures,
    programs.inside_init, programs.generator_in_a_variable, programs.loop_over_the_channel, programs.many_variables,
]  # fmt: skip


def cycle(data):
    """One copy is restored and run on, one is saved again and dropped, one killed."""
    tasklet, ch, out = snapshot.loads(data)
    again = snapshot.dumps((tasklet, ch, out))
    end(tasklet)
    tasklet, ch, out = snapshot.loads(again)
    ch.send(1)
    end(tasklet)


@pytest.mark.parametrize("program", SCENARIOS, ids=lambda program: program.__name__)
def test_thousands_of_cycles_leave_nothing(program):
    tasklet, ch, out = begun(program)
    data = snapshot.dumps((tasklet, ch, out))
    for _ in range(TIMES // len(SCENARIOS)):  # pools fill up
        cycle(data)
    gc.collect()
    objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    for _ in range(TIMES // len(SCENARIOS)):
        cycle(data)
    gc.collect()
    assert len(gc.get_objects()) - objects < 20
    assert sys.getallocatedblocks() - blocks < 100
    end(tasklet)


def test_references_are_those_that_there_were():
    ch = weft.channel()
    shared = object()
    kept = [ch, shared]
    tasklet = weft.tasklet(holds)(kept)
    weft.schedule()
    counts = sys.getrefcount(ch), sys.getrefcount(kept), sys.getrefcount(holds), sys.getrefcount(holds.__code__)
    for _ in range(100):
        try:
            snapshot.dumps(tasklet)
        except snapshot.CannotSave:
            pass
    assert (
        sys.getrefcount(ch),
        sys.getrefcount(kept),
        sys.getrefcount(holds),
        sys.getrefcount(holds.__code__),
    ) == counts
    data = snapshot.dumps(tasklet)
    for _ in range(100):
        end(snapshot.loads(data))
    gc.collect()
    assert (
        sys.getrefcount(ch),
        sys.getrefcount(kept),
        sys.getrefcount(holds),
        sys.getrefcount(holds.__code__),
    ) == counts
    end(tasklet)


def holds(kept):
    ch = kept[0]
    ch.receive()


def test_a_copy_that_nothing_can_wake_is_collected_with_its_channel():
    ch, out = weft.channel(), []
    tasklet = weft.tasklet(finishes)(ch, out)
    weft.schedule()
    copy = snapshot.loads(snapshot.dumps(tasklet))
    its_out = copy.frame.f_locals["out"]
    del copy
    gc.collect()
    weft.run()
    assert its_out == ["finally"]
    assert out == []
    end(tasklet)


def finishes(ch, out):
    try:
        ch.receive()
    finally:
        out.append("finally")


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_ten_thousand_cycles_of_each_program_leave_nothing():
    for program in programs.PROGRAMS:
        tasklet, ch, out = begun(program)
        data = snapshot.dumps((tasklet, ch, out))
        for _ in range(10):
            cycle(data)
        gc.collect()
        objects = len(gc.get_objects())
        for number in range(10_000 // len(programs.PROGRAMS)):
            cycle(data)
            if number % 100 == 0:
                gc.collect()
        gc.collect()
        assert len(gc.get_objects()) - objects < 20, program
        end(tasklet)
        gc.collect()
