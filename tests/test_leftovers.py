"""The check that runs after every test, checked itself: each kind of leftover is found, and a clean test passes."""

import gc
import os
import subprocess
import sys
import threading
import types

import pytest

import roamlet
from tests import leftovers
from tests.leftovers import Inventory


@pytest.fixture(autouse=True)
def _no_long_grace(monkeypatch):
    monkeypatch.setattr(leftovers, "GRACE_SECONDS", 0.02)


def kinds_left(before: Inventory) -> list[str]:
    return [kind for kind, _ in before.what_is_left()]


def test_nothing_is_reported_when_nothing_was_left():
    assert kinds_left(Inventory.taken()) == []


def test_an_open_descriptor_is_reported_with_its_target():
    before = Inventory.taken()
    fd = os.open("/dev/null", os.O_RDONLY)
    found = list(before.what_is_left())
    os.close(fd)
    assert found == [("fds", f"file descriptor {fd} -> /dev/null is still open")]


def test_a_descriptor_number_that_leads_elsewhere_now_is_reported():
    fd = os.open("/dev/null", os.O_RDONLY)
    before = Inventory.taken()
    other = os.open("/dev/zero", os.O_RDONLY)
    os.dup2(other, fd)
    os.close(other)
    found = kinds_left(before)
    os.close(fd)
    assert found == ["fds"]


def test_a_running_thread_is_reported_by_name():
    before = Inventory.taken()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="a thread that stays")
    thread.start()
    found = list(before.what_is_left())
    stop.set()
    thread.join()
    assert found == [("threads", "thread 'a thread that stays' is still running")]


def test_a_descriptor_that_a_thread_closes_a_moment_later_is_no_leftover(monkeypatch):
    monkeypatch.setattr(leftovers, "GRACE_SECONDS", 5.0)
    before = Inventory.taken()
    fd = os.open("/dev/null", os.O_RDONLY)
    later = threading.Timer(0.05, os.close, (fd,))
    later.start()
    assert list(before._fds_left()) != []
    assert kinds_left(before) == []


def test_a_child_that_nobody_waited_for_is_reported():
    before = Inventory.taken()
    child = subprocess.Popen([sys.executable, "-c", ""])
    found = kinds_left(before)
    child.wait()
    assert found == ["children"]


@pytest.fixture
def freed():
    """Free what a test has left in cycles to be found, before anybody else looks."""
    yield
    gc.collect()


@pytest.mark.usefixtures("freed")
def test_an_object_of_roamlet_in_a_cycle_is_reported():
    before = Inventory.taken()
    kind = type("Knot", (), {"__module__": "roamlet.made_up"})
    knot = kind()
    knot.myself = knot
    del knot
    found = [text for _, text in before.what_is_left()]
    assert any("a roamlet.made_up.Knot, is kept by a reference cycle" in text for text in found)


@pytest.mark.usefixtures("freed")
def test_a_traceback_through_roamlet_in_a_cycle_is_reported():
    before = Inventory.taken()
    code = compile(
        "def fail(keep):\n    error = ValueError()\n    keep.append(error)\n    raise error\n",
        leftovers.ROAMLET + "x.py",
        "exec",
    )
    module = types.ModuleType("x")
    exec(code, module.__dict__)
    keep: list[BaseException] = []
    try:
        module.fail(keep)
    except ValueError:
        pass
    keep.clear()
    assert set(kinds_left(before)) == {"objects"}


def test_somebody_elses_cycle_is_no_business_of_ours():
    before = Inventory.taken()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert kinds_left(before) == []


def test_a_tasklet_that_is_runnable_or_blocked_is_reported():
    before = Inventory.taken()
    channel = roamlet.channel()
    blocked = roamlet.tasklet(channel.receive)()
    runnable = [text for _, text in before.what_is_left()]
    roamlet.schedule()
    waiting = [text for _, text in before.what_is_left()]
    blocked.kill()
    assert runnable == ["2 tasklets are runnable, main included"]
    assert len(waiting) == 1
    assert waiting[0].startswith("1 tasklets have not ended; all there are: [<roamlet.tasklet")
