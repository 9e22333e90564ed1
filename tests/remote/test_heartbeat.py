"""Links that stall without breaking, and what an idle context costs."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from tests.remote import interpreters
from tests.remote.inside import calls_of, link_of
from tests.remote.raising import raises
from tests.remote.stopping import stop

OLDEST = next(iter(interpreters.found().values()))
PATIENT = 2.0  # seconds, for contexts that are to live: on a busy machine they do not always get their turn much sooner


@pytest.mark.parametrize("python", [None, OLDEST], ids=["own", "oldest"])
def test_a_context_that_is_stopped_is_given_up(python):
    with remote.local(python) as context:
        context.heartbeat(0.4)
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        stop(context.facts.pid)
        with raises(remote.ContextDied, match=r"nothing came from it for 0.4 seconds, though it was asked") as caught:
            context.call(roamlet_sent.add, (1, 2))
        assert type(caught.value) is remote.ContextDied


def test_a_context_that_is_stuck_before_its_heartbeat_begins_is_given_up():
    with remote.local() as context:
        stop(context.facts.pid)
        with raises(remote.ContextDied, match=r"nothing came from it for 0.4 seconds, though it was asked"):
            context.heartbeat(0.4)


def test_a_context_that_is_stuck_when_its_heartbeat_is_to_end_is_given_up_by_that():
    with remote.local() as context:
        context.heartbeat(0.4)
        stop(context.facts.pid)
        with raises(remote.ContextDied, match=r"nothing came from it for 0.4 seconds, though it was asked"):
            context.heartbeat(None)


def test_a_context_behind_another_that_is_stopped_is_given_up_and_the_other_lives_on():
    with remote.local() as hop, remote.local(via=hop) as behind:
        behind.heartbeat(0.4)
        stop(behind.facts.pid)
        with raises(remote.ContextDied, match=r"nothing came from it for 0.4 seconds, though it was asked"):
            behind.call(roamlet_sent.add, (1, 2))
        assert hop.call(roamlet_sent.add, (1, 2)) == 3


def test_a_context_that_answers_lives_on_and_can_be_told_to_be_left_alone():
    with remote.local() as context:
        context.heartbeat(PATIENT)
        roamlet.sleep(1.6 * PATIENT)
        context.heartbeat(5)
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        context.heartbeat(None)
        assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_the_last_time_that_was_given_counts_alone():
    with remote.local() as context:
        context.heartbeat(PATIENT)
        first = calls_of(context)._heartbeat
        context.heartbeat(60)
        second = calls_of(context)._heartbeat
        assert first._stop.is_set() and not second._stop.is_set()
        context.heartbeat(None)
        assert second._stop.is_set() and calls_of(context)._heartbeat is None


@pytest.mark.parametrize("python", [None, OLDEST], ids=["own", "oldest"])
def test_a_clock_that_is_set_on_the_target_is_no_silence(python):
    with remote.local(python) as context:
        context.call(roamlet_sent.set_clock, (0,))
        context.heartbeat(PATIENT)
        context.call(roamlet_sent.set_clock, (3600,))
        roamlet.sleep(1.2 * PATIENT)
        assert context.call(roamlet_sent.add, (1, 2)) == 3


@pytest.mark.parametrize("python", [None, OLDEST], ids=["own", "oldest"])
@pytest.mark.parametrize("is_behind", [False, True], ids=["itself", "in front"])
def test_output_that_is_not_taken_is_no_silence(python, is_behind):
    taken = threading.Event()

    def take_late(context, stream, line):
        taken.wait(60)

    with remote.local(python, output=take_late) as talker:
        context = remote.local(python, via=talker) if is_behind else talker
        context.heartbeat(PATIENT)
        printed = talker.spawn(roamlet_sent.print_many, (50_000,))
        while not link_of(talker).output.is_full:
            roamlet.sleep(0.01)
        roamlet.sleep(1.6 * PATIENT)
        taken.set()
        printed.join(60)
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        context.close()


PARENT = """
import sys, time
from roamlet import remote
context = remote.local(sys.argv[1])
context.heartbeat(2)
print(context.facts.pid, flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("python", [None, OLDEST], ids=["own", "oldest"])
def test_a_context_whose_parent_says_nothing_ends_by_itself(python):
    words = [sys.executable, "-c", PARENT, python or sys.executable]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGSTOP)
        deadline = time.monotonic() + 20
        while " Z " not in Path(f"/proc/{pid}/stat").read_text():  # its parent is stopped and does not wait for it
            assert time.monotonic() < deadline, "it lives on"
            roamlet.sleep(0.02)
        parent.kill()


@pytest.mark.parametrize("seconds", [0, -1, True, "5"])
def test_an_invalid_time_is_refused(seconds):
    with remote.local() as context, raises(ValueError, match="heartbeat\\(\\) takes a number of seconds above 0"):
        context.heartbeat(seconds)


def test_an_idle_context_is_not_scheduled_at_all():
    def switches():
        """How often the threads of the target were given the processor, more or less."""
        status = [task.joinpath("status").read_text() for task in Path(f"/proc/{context.facts.pid}/task").iterdir()]
        return sum(int(line.split()[1]) for text in status for line in text.splitlines() if "ctxt_switches" in line)

    with remote.local() as context:
        channel = roamlet.channel()
        context.call(roamlet_sent.echo, (channel,))
        call = context.spawn(roamlet_sent.echo, (1,))
        call.join()
        roamlet.sleep(0.1)  # what it does behind its answer
        before = switches()
        roamlet.sleep(1)
        assert switches() == before
