"""What cannot be saved is refused when it is saved, with the boundary or the variable, the frame and the line named."""

import gc

import pytest

import roamlet
from roamlet import snapshot
from tests.snapshot import refused
from tests.snapshot._driving import begun, finished


@pytest.mark.parametrize("program", refused.CASES, ids=lambda program: program.__name__)
def test_it_is_refused_with_a_message_that_names_the_place(program):
    tasklet, ch, out = begun(program)
    with pytest.raises(TypeError, match=refused.CASES[program]) as caught:
        snapshot.dumps((tasklet, ch))
    assert isinstance(caught.value, snapshot.CannotSave)
    assert tasklet.blocked
    del caught
    finished(tasklet, ch, out, 0)
    assert not tasklet.alive
    gc.collect()


def test_the_tasklet_that_runs_and_main_are_refused():
    with pytest.raises(snapshot.CannotSave, match="it is the main tasklet of its thread"):
        snapshot.dumps(roamlet.getmain())
    said = []

    def itself():
        try:
            snapshot.dumps(roamlet.getcurrent())
        except snapshot.CannotSave as error:
            said.append(str(error))

    roamlet.tasklet(itself)()
    roamlet.run()
    assert "it is running. Another tasklet must save it" in said[0]


def sleeper(seconds):
    roamlet.sleep(seconds)


def in_a_time_out(ch):
    with roamlet.timeout(100):
        ch.receive()


def test_other_waits_than_for_one_channel_are_refused():
    from roamlet.sync import Lock

    lock = Lock()
    lock.acquire()
    for function, args in ((sleeper, (100,)), (lock.acquire, ())):
        tasklet = roamlet.tasklet(function)(*args)
        tasklet.run()
        with pytest.raises(snapshot.CannotSave, match="it waits for something else than one channel: a lock, a timer"):
            snapshot.dumps(tasklet)
        tasklet.kill()
    lock.release()


def test_inside_a_time_out_it_is_refused():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(in_a_time_out)(ch)
    tasklet.run()
    with pytest.raises(snapshot.CannotSave, match="it is inside a scope or a time-out"):
        snapshot.dumps(tasklet)
    tasklet.kill()


def test_a_channel_where_main_waits_cannot_be_saved():
    ch, said = roamlet.channel(), []

    def saver():
        try:
            snapshot.dumps(ch)
        except snapshot.CannotSave as error:
            said.append(str(error))
        ch.send(1)

    roamlet.tasklet(saver)()
    assert ch.receive() == 1
    roamlet.run()
    assert "it is the main tasklet of its thread" in said[0]


def test_by_value_is_a_collection_of_names():
    with pytest.raises(TypeError, match=r"by_value=\['json'\]"):
        snapshot.dumps(1, by_value="json")
