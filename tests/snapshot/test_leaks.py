"""Saving and restoring again and again leaves nothing behind: not an object, not a block, not a reference."""

import contextlib
import gc
import resource
import sys
from pathlib import Path

import pytest

import roamlet
from roamlet import snapshot
from roamlet.snapshot.image import file
from roamlet.snapshot.loading import load
from roamlet.snapshot.references.code import _fingerprints
from tests.snapshot import programs
from tests.snapshot._driving import begun, end, finished, value_at

TIMES = 10_000  # cycles in all

SCENARIOS = [
    programs.counter_three_calls_deep, programs.with_blocks, programs.try_finally_except, programs.exception_through_frames,
    programs.closures, programs.inside_init, programs.generator_in_a_variable, programs.generator_expression_in_a_variable,
    programs.loop_over_the_channel, programs.many_variables, programs.calls_a_decorated, programs.match_statement,
]  # fmt: skip

WARM_UP, ROUNDS = 100, 3


def resident():
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def amounts():
    """Objects that can be in cycles, CPython's blocks, code whose fingerprint is known, bytes of memory."""
    return len(gc.get_objects()), sys.getallocatedblocks(), len(_fingerprints), resident()


def check_nothing_grows(work, times):
    """Do this work so often, the cyclic collector off. What grows once is a pool or a table; what leaks grows in each round."""
    gc.collect()  # this empties pools
    for _ in range(WARM_UP):
        work()
    growths = []
    for _ in range(ROUNDS):
        before = amounts()
        for _ in range(times // ROUNDS):
            work()
        growths.append([now - then for now, then in zip(amounts(), before, strict=True)])
    objects, blocks, code, memory = map(min, zip(*growths, strict=True))
    assert objects < 10, growths
    assert blocks < times / ROUNDS / 2, growths
    assert code == 0, growths
    assert memory < 1_000_000, growths


def cycle(data):
    """A copy runs on, is saved there, and is killed; a copy of it runs to its end."""
    tasklet, ch, out = snapshot.loads(data)
    ch.send(value_at(0))
    again = snapshot.dumps((tasklet, ch, out))
    end(tasklet)
    tasklet, ch, out = snapshot.loads(again)
    finished(tasklet, ch, out, 1)


@pytest.mark.parametrize("program", SCENARIOS, ids=lambda program: program.__name__)
def test_ten_thousand_cycles_leave_nothing(program):
    tasklet, ch, out = begun(program)
    data = snapshot.dumps((tasklet, ch, out))
    check_nothing_grows(lambda: cycle(data), TIMES // len(SCENARIOS))
    end(tasklet)


def test_code_by_value_goes_with_those_who_had_it():
    tasklet, ch, out = begun(programs.closures)
    data = snapshot.dumps((tasklet, ch, out), by_value=[programs.__name__])
    check_nothing_grows(lambda: cycle(data), 500)
    end(tasklet)


def counts(n, out):
    while n:
        n -= 1
    out.append(n)


def test_those_that_were_interrupted_leave_nothing():
    def interrupted():
        out = []
        tasklet = roamlet.tasklet(counts)(20, out)
        roamlet.run(30)
        copy, its_out = snapshot.loads(snapshot.dumps((tasklet, out)))
        copy.insert()
        roamlet.run()
        assert its_out == [0]
        tasklet.kill()

    check_nothing_grows(interrupted, 1000)


def test_what_cannot_be_saved_or_restored_leaves_nothing():
    tasklet, ch, _ = begun(programs.closures)
    good = snapshot.dumps((tasklet, ch))
    bad = good[:-1], good[:12] + bytes(len(good) - 12), b""

    def refused():
        for data in bad:
            with contextlib.suppress(snapshot.BadSnapshot):
                snapshot.loads(data)
        with contextlib.suppress(snapshot.CannotSave):
            snapshot.dumps((tasklet, ch, roamlet.getmain()))

    check_nothing_grows(refused, 1000)
    end(tasklet)


def job(path, steps):
    seen = []
    for step in range(steps):
        try:
            raise KeyError(step)
        except KeyError as error:
            if roamlet.checkpoint(path):
                seen.append((step, repr(error)))
    return seen


def test_checkpoints_and_resumptions_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(file.os, "fsync", lambda descriptor: None)  # the disk is tried elsewhere
    check_nothing_grows(resumed_at_its_last_step(tmp_path), 1000)


def resumed_at_its_last_step(folder):
    path = str(folder / "job.roamlet")

    def work():
        roamlet.tasklet(job)(path, 2)
        roamlet.run()
        copy = snapshot.resume(path)
        roamlet.run()
        assert not copy.alive

    return work


def test_references_are_those_that_there_were():
    ch = roamlet.channel()
    shared = object()
    kept = [ch, shared]
    tasklet = roamlet.tasklet(holds)(kept)
    roamlet.schedule()
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
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(finishes)(ch, out)
    roamlet.schedule()
    copy = snapshot.loads(snapshot.dumps(tasklet))
    its_out = copy.frame.f_locals["out"]
    del copy
    gc.collect()
    roamlet.run()
    assert its_out == ["finally"]
    assert out == []
    end(tasklet)


def finishes(ch, out):
    try:
        ch.receive()
    finally:
        out.append("finally")


def test_who_imports_it_first_is_not_kept() -> None:
    """With the frames of a tasklet that moves, it was the tasklet and what had come of it."""
    assert load.SAVED_FRAME.f_back is None
