"""That no test of roamlet clock can change the clock of the machine that it runs on."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apps.clock.tests import harmless

HELD = "CapEff:\t0000000002000000\nCapBnd:\t000001fffdffffff\n"


def test_no_thread_of_this_process_has_the_capability_or_can_get_it():
    for status in Path("/proc/self/task").glob("*/status"):
        held = harmless.held(status.read_text())
        assert len(held) >= 4, held
        wrong = [name for name, there in held.items() if there and not (name == "CapBnd" and os.geteuid())]
        assert not wrong, f"{status}: CAP_SYS_TIME is in {wrong}: tests could set the clock"


def test_the_kernel_refuses_to_set_the_time_that_it_is():
    assert not harmless.held(Path("/proc/thread-self/status").read_text())["CapEff"]
    with pytest.raises(PermissionError) as caught:
        time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME))
    assert caught.value.errno == errno.EPERM
    assert not harmless.can_set_the_clock()


def test_what_a_test_starts_cannot_set_it_either():
    words = [sys.executable, "-I", harmless.__file__]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a bounding set to look at from a shell of root")
def test_a_shell_of_root_with_date_cannot():
    status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    assert not any(harmless.held(status).values()), status
    done = subprocess.run(
        ["sh", "-c", 'date -u -s "@$(date +%s)"'],
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode and "Operation not permitted" in done.stderr


def test_the_bit_is_read_where_it_stands():
    assert harmless.held(HELD) == {"CapEff": True, "CapBnd": False}
