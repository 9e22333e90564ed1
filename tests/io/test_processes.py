"""Waiting for child processes: exit codes, signals, time-outs, and children that are not there."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import roamlet
from roamlet import io
from roamlet.io import _processes

PYTHON = [sys.executable, "-I", "-S", "-c"]


@pytest.fixture(params=["pidfd", "polling"])
def way(request, monkeypatch):
    """With the kernel's descriptors for processes, and without."""
    if request.param == "polling":
        monkeypatch.delattr(os, "pidfd_open")
    return request.param


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_of_a_popen_is_returned_and_set(way, code):
    child = subprocess.Popen([*PYTHON, f"raise SystemExit({code})"])
    assert io.wait_process(child) == code
    assert child.returncode == code
    assert io.wait_process(child) == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_ended_it_is_a_negative_code(way, number):
    child = subprocess.Popen(["sleep", "60"])
    child.send_signal(number)
    assert io.wait_process(child) == -number


def test_a_child_by_its_number(way):
    def child(command):
        # Not fork(): pytest keeps a thread for hung tests, and a fork beside a thread is warned of.
        return os.posix_spawn("/bin/sh", ["sh", "-c", command], {})

    assert io.wait_process(child("exit 13")) == 13
    assert io.wait_process(child("kill -9 $$")) == -signal.SIGKILL


def test_other_tasklets_run_meanwhile(way):
    log = []
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    def waits():
        log.append(io.wait_process(child))

    def works():
        for number in range(3):
            log.append(number)
            roamlet.sleep(0.001)
        child.stdin.close()

    roamlet.tasklet(waits)()
    roamlet.tasklet(works)()
    roamlet.run()
    assert log == [0, 1, 2, 0]


def test_several_children_in_the_order_in_which_they_end(way):
    log = []
    children = [subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(3)]

    def waits(index):
        io.wait_process(children[index])
        log.append(index)

    for index in range(3):
        roamlet.tasklet(waits)(index)
    for index in (2, 0, 1):
        children[index].stdin.close()
        while index not in log:
            roamlet.sleep(0.001)
    assert log == [2, 0, 1]


def test_a_time_out_leaves_the_child_running(way):
    child = subprocess.Popen(["sleep", "60"])
    with pytest.raises(TimeoutError):
        io.wait_process(child, timeout=0.01)
    assert child.poll() is None
    child.kill()
    assert io.wait_process(child, timeout=30) == -signal.SIGKILL


def test_a_killed_wait_leaves_the_child_and_no_descriptor(way):
    child = subprocess.Popen(["sleep", "60"])
    tasklet = roamlet.tasklet(io.wait_process)(child)
    roamlet.schedule()
    tasklet.kill()
    assert child.poll() is None
    child.kill()
    assert child.wait() == -signal.SIGKILL


def test_several_tasklets_may_wait_for_one_popen(way):
    child, log = subprocess.Popen(["cat"], stdin=subprocess.PIPE), []
    for _ in range(3):
        roamlet.tasklet(lambda: log.append(io.wait_process(child)))()
    roamlet.schedule()
    child.stdin.close()
    roamlet.run()
    assert log == [0, 0, 0]


def test_a_child_that_was_waited_for_already(way):
    child = subprocess.Popen([*PYTHON, ""])
    child.wait()
    with pytest.raises(ChildProcessError):
        io.wait_process(child.pid)


def test_a_process_that_is_no_child_of_ours_is_refused_at_once(way):
    with pytest.raises(ChildProcessError):
        io.wait_process(os.getppid(), timeout=5)


def test_a_wrong_time_out_is_refused_in_its_own_name(way):
    with subprocess.Popen(["true"]) as child:
        for bad in (-1, float("nan")):
            with pytest.raises(
                ValueError, match=r"wait_process\(timeout\) takes a number of seconds from 0 on, or None, not "
            ):
                io.wait_process(child, timeout=bad)
        with pytest.raises(TypeError, match=r"wait_process\(timeout\) takes a number of seconds, not str"):
            io.wait_process(child, timeout="1")
        assert io.wait_process(child) == 0


@pytest.mark.parametrize("bad", [0, -1, -5])
def test_numbers_that_mean_groups_of_processes_are_refused(way, bad):
    """For waitpid they mean any child, and would reap somebody else's."""
    child = subprocess.Popen([*PYTHON, ""])
    with pytest.raises(ValueError, match="is no number of a process"):
        io.wait_process(bad, timeout=5)
    assert child.wait() == 0


@pytest.mark.parametrize("bad", ["1", None, 1.5, object()])
def test_what_is_no_process_is_refused(bad):
    with pytest.raises(TypeError, match="takes a subprocess.Popen or the number of a child process"):
        io.wait_process(bad)


def test_in_another_thread(way):
    codes = []

    def other():
        codes.append(io.wait_process(subprocess.Popen([*PYTHON, "raise SystemExit(3)"])))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert codes == [3]


def test_the_pauses_of_polling_are_bounded():
    assert 0 < _processes._FIRST_PAUSE <= _processes._LONGEST_PAUSE <= 0.1
