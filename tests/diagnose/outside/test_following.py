"""A process that is followed: its counters, and how often it is stopped for its tasklets."""

import os
import sys

import pytest

from roamlet.diagnose.model import Process
from roamlet.diagnose.outside import CannotRead, read_process
from roamlet.diagnose.outside.following import SHARE, Followed

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read by way of /proc")


def counts(process):
    (scheduler,) = (thread.scheduler for thread in process.threads if thread.main)
    return scheduler.switches, scheduler.messages


def test_counters_grow_as_the_process_runs(started):
    running = started("busy", "10")
    followed = Followed(running.pid)
    first = followed.counters()
    switches, messages = counts(first)
    while counts(second := followed.counters())[1] < messages + 1000:
        pass
    # program.busy(): in each round of two switches one message is sent to a tasklet that waits
    assert 2 * 1000 <= counts(second)[0] - switches <= 8 * (counts(second)[1] - messages)
    assert second.moment > first.moment
    assert not list(second.tasklets())
    (thread,) = second.threads
    assert (thread.main, thread.name, thread.native_id) == (True, "MainThread", running.pid)
    assert second.processor > 0 and second.memory > 1 << 20
    assert (second.stopped, second.how) == (0.0, "counters alone")
    assert Process.from_json(second.to_json()) == second


def test_its_own_count_of_messages_is_that_of_the_process(started):
    running = started("exchanged", "123")
    running.sleeps()
    assert counts(Followed(running.pid).counters())[1] == counts(read_process(running.pid))[1] == 123


def test_a_busy_process_is_left_alone_after_it_was_stopped(started):
    running = started("busy", "100")
    followed = Followed(running.pid)
    _, first = followed.look()
    while not first.stopped:  # no thread of it got a processor just then
        followed._rested = 0.0
        _, first = followed.look()
    assert followed.pause >= first.stopped / SHARE > 0
    assert len(list(first.tasklets())) > 100
    counters, full = followed.look()
    assert full is None and counters.threads
    followed._rested = 0.0
    assert len(list(followed.look()[1].tasklets())) > 100


def test_an_idle_process_is_not_stopped_and_rests_by_what_the_reader_takes(started):
    running = started("blocked", "100")
    running.sleeps()
    followed = Followed(running.pid)
    counters, process = followed.look()
    assert (len(list(process.tasklets())), process.stopped, counters.stopped) == (101, 0.0, 0.0)
    assert followed.pause > 0
    assert process.folder.endswith("/roamlet/") and os.path.isfile(process.folder + "__init__.py")


def test_one_that_has_ended_says_so(started):
    running = started("blocked", "1")
    followed = Followed(running.pid)
    running.kill()
    running.wait()
    for look in (followed.look, followed.counters):
        with pytest.raises(CannotRead, match=f"there is no process {running.pid}, or it has ended meanwhile"):
            look()
