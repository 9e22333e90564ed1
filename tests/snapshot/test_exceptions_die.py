"""A save, a load or a checkpoint that fails keeps nothing: what its frames had dies with the handling of the exception."""

import gc
import threading

import pytest

import roamlet
from roamlet import snapshot
from tests.snapshot import refused
from tests.snapshot._driving import begun, finished
from tests.witnesses import Witnesses


def waits(ch, *held):
    local = held
    try:
        ch.receive()
    finally:
        assert local


# One of them: what runs a second time is specialised, and some of them can be saved then.
@pytest.mark.parametrize("program", [refused.in_sorted, refused.with_lock, refused.with_file])
def test_a_save_that_is_refused(program):
    witnesses = Witnesses()
    tasklet, ch, out = begun(program)
    witnesses.handles(lambda: snapshot.dumps((tasklet, ch)), snapshot.CannotSave)
    witnesses.judge()
    finished(tasklet, ch, out, 0)
    gc.collect()  # some of these programs are cycles of their own


def test_a_tasklet_that_was_not_saved_dies_with_its_end():
    witnesses, held = Witnesses(), threading.Lock()
    held.acquire()
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(waits)(ch, witnesses("the frame that was to be saved"), held)
    roamlet.run()
    witnesses.handles(lambda: snapshot.dumps(tasklet), snapshot.CannotSave)
    ch.send(None)
    roamlet.run()
    witnesses.judge()


@pytest.mark.parametrize("cut", [0, 10, -1])
def test_a_load_of_what_is_damaged(cut):
    witnesses = Witnesses()
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(waits)(ch, "text")
    roamlet.run()
    data = snapshot.dumps(tasklet)
    witnesses.handles(lambda: snapshot.loads(data[:cut]), snapshot.BadSnapshot)
    witnesses.judge()
    tasklet.kill()


def test_a_checkpoint_that_cannot_be_written(tmp_path):
    witnesses = Witnesses()
    path = tmp_path / "no folder" / "job"

    def job():
        roamlet.checkpoint(path, every=0)

    def run():
        roamlet.spawn(job).join()

    witnesses.handles(run, snapshot.SnapshotError)
    witnesses.judge()


def test_a_checkpoint_of_what_cannot_be_saved(tmp_path):
    witnesses = Witnesses()

    def job():
        local = witnesses("the frame that cannot be saved")
        roamlet.checkpoint(tmp_path / "job", every=0)
        assert local

    def run():
        roamlet.spawn(job).join()

    witnesses.handles(run, snapshot.CannotSave)
    witnesses.judge()
