"""Waits for what roamlet's own threads bring: with no limit, or until a deadline, and never a deadlock."""

import time

from roamlet.remote.base.deadlines import EVER, limit, remaining
from tests.core._scripts import output_of

# In a process of its own: other threads of the tests would forbid a deadlock.
WAITS = """
import time
import roamlet
from roamlet import io
from roamlet.remote.base.deadlines import limit
from roamlet.sync import Event

def serve():
    while not main.blocked:
        time.sleep(0.001)
    event.set()

event, main = Event(), roamlet.getmain()
thread = io.start_thread(serve, "sets an event")
print(event.wait(limit(None)))
thread.join()
try:
    Event().wait()
except roamlet.Deadlock:
    print("Deadlock")
"""


def test_a_wait_without_limit_for_a_thread_of_roamlets_own_is_no_deadlock():
    assert output_of(WAITS) == "True\nDeadlock"


def test_a_deadline_as_seconds_from_now():
    assert (remaining(None), limit(None)) == (None, EVER)
    past, future = time.monotonic() - 1, time.monotonic() + 100
    assert (remaining(past), limit(past)) == (0.0, 0.0)
    assert 0 < remaining(future) <= 100
    assert 0 < limit(future) <= 100
