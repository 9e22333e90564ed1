"""Tasklets and channels under pickle, as far as no frame is involved; tests/snapshot has the others."""

import copy
import pickle

import pytest

import roamlet

calls = []


def function(*args, **kwargs):
    calls.append((args, kwargs))
    roamlet.schedule()


class Named(roamlet.tasklet):
    """Has an attribute of its own, and an __init__ that wants arguments."""

    def __init__(self, function, name):
        super().__init__(function)
        self.name = name


class Labelled(roamlet.channel):
    """Has an attribute of its own."""


class Slotted(roamlet.channel):
    """Has slots, and no __dict__."""

    __slots__ = ("label", "other")


class SlottedToo(Slotted):
    """Has slots of its own and of its base, one of which has no value, and a __dict__."""

    __slots__ = ("__dict__", "third")


class SlottedTasklet(roamlet.tasklet):
    __slots__ = ("name",)


@pytest.fixture(params=range(pickle.HIGHEST_PROTOCOL + 1))
def again(request):
    """Save and load something, with each protocol."""
    return lambda what: pickle.loads(pickle.dumps(what, request.param))


@pytest.fixture(autouse=True)
def no_calls():
    calls.clear()


def test_a_tasklet_that_has_not_started_is_loaded_paused_with_its_arguments(again):
    scheduled = roamlet.tasklet(function)(1, key=2)
    loaded = again(scheduled)
    assert (type(loaded), loaded.alive, loaded.paused) == (roamlet.tasklet, True, True)
    roamlet.run()
    assert calls == [((1,), {"key": 2})]
    loaded.insert()
    roamlet.run()
    assert calls == [((1,), {"key": 2})] * 2


def test_a_bound_and_an_ended_tasklet_can_be_saved(again):
    bound = again(roamlet.tasklet(function))
    assert not bound.alive
    bound(3)
    roamlet.run()
    assert calls == [((3,), {})]
    ended = again(bound)
    assert not ended.alive
    with pytest.raises(RuntimeError, match="not bound to a function"):
        ended()


def test_attributes_of_a_subclass_come_along_without_its_init(again):
    made = Named(function, "its name")
    assert (again(made).name, type(again(made))) == ("its name", Named)
    channel = Labelled()
    channel.label = "its label"
    assert (again(channel).label, type(again(channel))) == ("its label", Labelled)


def test_attributes_in_slots_come_along(again):
    for save in (again, copy.copy, copy.deepcopy):
        channel = Slotted(2)
        channel.label, channel.other = "its label", channel.balance
        loaded = save(channel)
        assert (type(loaded), loaded.label, loaded.other, loaded.buffer) == (Slotted, "its label", 0, 2)
        more = SlottedToo()
        more.label, more.third, more.fourth = "its label", 3, [4]
        loaded = save(more)
        assert (loaded.label, loaded.third, loaded.fourth, hasattr(loaded, "other")) == ("its label", 3, [4], False)
        waiting = SlottedTasklet(function)
        waiting.name = "its name"
        assert save(waiting).name == "its name"


def test_main_is_refused():
    for save in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match=r"it is the main tasklet of its thread|3\.11, 3\.12 and 3\.13"):
            save(roamlet.getmain())


def test_a_channel_is_loaded_with_its_settings(again):
    channel = roamlet.channel()
    channel.preference, channel.schedule_all = 1, True
    channel.close()
    loaded = again(channel)
    assert loaded is not channel
    assert (loaded.preference, loaded.schedule_all, loaded.closed, loaded.balance) == (1, True, True, 0)
    assert not again(roamlet.channel()).closing


@pytest.mark.parametrize(
    "state",
    [
        5,
        (),
        (1, 2),
        (-1, False, False, (None, 5)),
        (int, (), {}, (None, 5)),
        (-1, False, False, (None, {5: 5})),
        (None, 5, None, None),
        (int, (), 5, None),
        ("5", None, None, None),
    ],
)
def test_another_state_is_refused(state):
    with pytest.raises(TypeError):
        roamlet.tasklet().__setstate__(state)
    with pytest.raises(TypeError):
        roamlet.channel().__setstate__(state)


def test_the_state_of_a_running_tasklet_cannot_be_set():
    with pytest.raises(RuntimeError, match="can't \\(re\\)bind the current tasklet"):
        roamlet.getcurrent().__setstate__((int, None, None, None))
