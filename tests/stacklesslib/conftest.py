"""What the tests of stacklesslib share: a clock that jumps, and the mode of tasklets afterwards."""

import pytest

import roamlet
from roamlet import stackless
from roamlet.stackless._path.stacklesslib import app


@pytest.fixture(autouse=True)
def clock():
    """Timers follow a clock that jumps to the next one instead of waiting: no test waits for the time of day."""
    now = [1000.0]
    roamlet.core.set_clock(lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
    yield now
    roamlet.core.set_clock()


@pytest.fixture(autouse=True)
def the_mode_of_tasklets():
    yield
    app.install_stackless()
    stackless.run()  # who was left when a test had what it wanted
