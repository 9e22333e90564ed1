"""Dumps at once, at a signal and after a time, in programs of their own where a signal is concerned."""

import io as standard_io
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import roamlet
from roamlet import diagnose

PREPARED = """
import os, re, signal, subprocess, sys, time
import roamlet
from roamlet import diagnose

def kill_self(times=1, after=0.3):
    kills = "; ".join([f"sleep {after}; kill -USR1 {os.getpid()}"] * times)
    return subprocess.Popen(["sh", "-c", kills])
"""


def run(program, code=0, **environment):
    """The standard error of a Python program."""
    done = subprocess.run(
        [sys.executable, "-c", PREPARED + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, done.stderr
    return done.stderr


def test_a_dump_has_cycles_stacks_and_what_could_wake_each():
    channel = roamlet.channel()

    def waits():
        channel.receive()

    tasklet = roamlet.tasklet(waits)()
    tasklet.run()
    file = standard_io.StringIO()
    diagnose.dump(file)
    text = file.getvalue()
    assert text.startswith("---- roamlet dump, 20") and text.endswith("---- end ----\n")
    assert f"waits ({id(tasklet):#x}): blocked for " in text
    assert f"    test_a_dump_has_cycles_stacks_and_what_could_wake_each.<locals>.waits  {__file__}:" in text
    assert "could be woken by:" in text
    channel.send(None)


def test_without_a_file_it_goes_to_the_descriptor_of_standard_error(capfd):
    diagnose.dump()
    assert capfd.readouterr().err.startswith("---- roamlet dump, ")


def test_a_signal_dumps_while_a_tasklet_computes_and_the_program_goes_on():
    err = run("""
        diagnose.enable(signal.SIGUSR1)
        channel = roamlet.channel()
        def computes():
            end = time.monotonic() + 1
            while time.monotonic() < end:
                pass
        def waits_for_it():
            channel.receive()
        roamlet.tasklet(waits_for_it)()
        roamlet.schedule()
        roamlet.tasklet(computes)()
        child = kill_self()
        roamlet.run()
        child.wait()
        diagnose.dump_later(0.5).cancel()
        channel.send(1)
        sys.stderr.write("went on\\n")
        assert diagnose.disable(signal.SIGUSR1) and not diagnose.disable(signal.SIGUSR1)
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    """)
    assert err.count("---- roamlet dump") == 1
    assert "computes (0x" in err and "running\n    computes  <string>:" in err
    assert "waits_for_it (0x" in err
    assert err.endswith("went on\n")


def test_a_signal_dumps_while_all_tasklets_wait_and_while_a_thread_hangs_in_c():
    err = run("""
        diagnose.enable(signal.SIGUSR1)
        child = kill_self()
        roamlet.sleep(1)
        child.wait()
        def hangs():
            os.read(reading, 1)  # without the GIL, and without the hub
        reading, writing = os.pipe()
        shell = f"sleep 0.3; kill -USR1 {os.getpid()}; sleep 0.5; echo"
        child = subprocess.Popen(["sh", "-c", shell], stdout=writing)
        roamlet.tasklet(hangs)()
        roamlet.run()
        child.wait()
    """)
    dumps = err.split("---- roamlet dump")[1:]
    assert len(dumps) == 2
    assert "main (0x" in dumps[0] and "timer in " in dumps[0] and "waits in its hub" in dumps[0]
    assert "hangs (0x" in dumps[1] and "running\n    hangs  <string>:" in dumps[1]


def test_a_second_signal_gives_the_stacks_of_threads_where_the_gil_is_kept():
    err = run("""
        diagnose.enable(signal.SIGUSR1)
        child = kill_self(times=2)
        began = time.monotonic()
        def keeps_the_gil(letters):
            re.match(r"(a+)+$", "a" * letters + "b")
        letters = 18
        while time.monotonic() - began < 2.0:
            keeps_the_gil(letters)
            letters = min(letters + 1, 27)
        child.wait()
        time.sleep(1)  # the thread that dumps may not have had the GIL yet
    """)
    # Python's own form, of faulthandler, before or instead of ours: which signal meets the long call is not certain.
    assert "most recent call first" in err or err.count("---- roamlet dump") == 2
    assert "in keeps_the_gil" in err or "keeps_the_gil  <string>" in err


def test_an_unprepared_program_dumps_where_the_environment_says_so():
    program = """
        child = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -QUIT {os.getpid()}"])
        roamlet.sleep(0.8)
        child.wait()
    """
    assert "---- roamlet dump" in run(program, ROAMLET_DUMP="1")
    assert "---- roamlet dump" in run(program.replace("-QUIT", "-USR2"), ROAMLET_DUMP="usr2")
    assert run("print(1)", ROAMLET_DUMP="0") == ""
    err = run("print(1)", code=1, ROAMLET_DUMP="please")
    assert "ImportError: ROAMLET_DUMP='please' is no signal that can ask for a dump" in err


def test_a_fork_has_dumps_of_its_own_and_no_warning():
    err = run(
        """
        diagnose.enable(signal.SIGUSR1)
        pid = os.fork()
        if pid == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.5)
            os._exit(0)
        os.waitpid(pid, 0)
        print(pid, file=sys.stderr)
        """,
        PYTHONWARNINGS="error",
    )
    pid = err.split()[-1]
    assert err.count("---- roamlet dump") == 1 and f"process {pid} (" in err


def test_enable_does_not_hide_a_deadlock():
    err = run(
        """
        diagnose.enable(signal.SIGUSR1)
        roamlet.channel().receive()
        """,
        code=1,
    )
    assert "Deadlock: the last runnable tasklet cannot be blocked" in err


@pytest.mark.parametrize("number", [0, -1, 65, 10_000, True, 1.5, "SIGQUIT", None, signal.SIGINT, signal.SIGCHLD])
def test_what_is_no_signal_for_dumps_is_refused(number):
    with pytest.raises(ValueError, match=r"enable\("):
        diagnose.enable(number)
    assert not diagnose.disable(number)


def test_signals_that_cannot_be_handled_are_refused():
    with pytest.raises((OSError, RuntimeError, ValueError)):
        diagnose.enable(signal.SIGKILL)
    assert not diagnose.disable(signal.SIGKILL)


def test_a_file_without_a_descriptor_is_refused():
    with pytest.raises((OSError, ValueError)):
        diagnose.enable(signal.SIGUSR1, standard_io.StringIO())
    assert not diagnose.disable(signal.SIGUSR1)


def test_a_dump_after_a_time_unless_it_is_cancelled():
    file = standard_io.StringIO()
    with diagnose.dump_later(30, file=file) as later:
        assert later.pending
    assert not later.pending and file.getvalue() == ""
    later.cancel()
    later = diagnose.dump_later(0.01, file=file)
    deadline = time.monotonic() + 30
    while later.pending and time.monotonic() < deadline:
        time.sleep(0.01)
    assert file.getvalue().count("---- roamlet dump") == 1 and not later.pending


def test_dumps_that_are_repeated_and_one_that_ends_the_process():
    err = run("""
        class Counted:
            times = 0
            def write(self, text):
                self.times += text.count("---- end ----")
            def flush(self):
                pass
        counted = Counted()
        later = diagnose.dump_later(0.05, repeat=True, file=counted)
        while counted.times < 2:
            time.sleep(0.05)
        later.cancel()
        assert not later.pending
    """)
    assert err == ""
    err = run(
        """
        diagnose.dump_later(0.05, exit=True)
        time.sleep(60)
    """,
        code=1,
    )
    assert err.count("---- end ----") == 1


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "1", None, 1e9])
def test_time_limits_that_make_no_sense_are_refused(seconds):
    with pytest.raises(ValueError, match=r"dump_later\(\) takes a number of seconds"):
        diagnose.dump_later(seconds)
