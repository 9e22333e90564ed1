"""Waits for what weft's own threads bring: with no limit, or until a deadline, and never a deadlock."""

import time

from tests.core._scripts import output_of
from weft.remote._waiting import EVER, limit, remaining

# In a process of its own: other threads of the tests would forbid a deadlock.
WAITS = """
import time
import weft
from weft import io
from weft.remote._waiting import limit
from weft.sync import Event

def serve():
    while not main.blocked:
        time.sleep(0.001)
    event.set()

event, main = Event(), weft.getmain()
thread = io.start_thread(serve, "sets an event")
print(event.wait(limit(None)))
thread.join()
try:
    Event().wait()
except weft.Deadlock:
    print("Deadlock")
"""


def test_a_wait_without_limit_for_a_thread_of_wefts_own_is_no_deadlock():
    assert output_of(WAITS) == "True\nDeadlock"


def test_a_deadline_as_seconds_from_now():
    assert (remaining(None), limit(None)) == (None, EVER)
    past, future = time.monotonic() - 1, time.monotonic() + 100
    assert (remaining(past), limit(past)) == (0.0, 0.0)
    assert 0 < remaining(future) <= 100
    assert 0 < limit(future) <= 100
