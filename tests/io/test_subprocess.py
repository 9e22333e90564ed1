"""Child processes: started, talked to, waited for and ended without blocking the thread, leaving no zombie and no descriptor."""

import contextlib
import os
import resource
import signal
import subprocess as standard
import sys
from functools import partial
from pathlib import Path

import pytest

import roamlet
from roamlet import core
from roamlet.io import subprocess
from roamlet.io._subprocess import DEVNULL, PIPE, STDOUT, Popen
from tests.io._errors import error_of
from tests.io._workers import started

ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
SLEEPS = "import sys, time; print('ready', flush=True); time.sleep(100)"


def python(source: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", source]


# ---- run and its relatives ----


def test_run_returns_what_the_child_said_and_how_it_ended():
    done = subprocess.run(
        python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert isinstance(done, standard.CompletedProcess)
    assert subprocess.run(["true"], check=True).stdout is None


def test_input_is_sent_and_text_is_text():
    assert subprocess.run(python(ECHO), input=b"bytes\r\n", stdout=PIPE, check=True).stdout == b"bytes\r\n"
    done = subprocess.run(python(ECHO), input="zwölf\r\nelf\r", stdout=PIPE, check=True, encoding="utf-8")
    assert done.stdout == "zwölf\nelf\n"
    assert subprocess.check_output(python(ECHO), input="", text=True) == ""


def test_check_output_call_and_check_call():
    assert subprocess.check_output(["echo", "said"]) == b"said\n"
    assert subprocess.check_output("echo $ROAMLET", shell=True, env={"ROAMLET": "x"}, text=True) == "x\n"
    assert subprocess.call(python("raise SystemExit(4)")) == 4
    assert subprocess.check_call(["true"]) == 0
    failed = error_of(lambda: subprocess.check_output(python("print('before'); raise SystemExit(5)")))
    assert isinstance(failed, standard.CalledProcessError)
    assert "returned non-zero exit status 5" in str(failed)
    assert (failed.returncode, failed.output) == (5, b"before\n")
    with pytest.raises(standard.CalledProcessError, match="died with <Signals.SIGTERM: 15>"):
        subprocess.check_call(python("import os; os.kill(os.getpid(), 15)"))


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_000_000])
def test_full_pipes_both_ways_do_not_stop_each_other(size):
    """The child writes as much to both its outputs as it reads, while it reads."""
    data = os.urandom(size)
    source = """
import os
while data := os.read(0, 4096):
    os.write(1, data)
    os.write(2, data)
"""
    done = subprocess.run(python(source), input=data, capture_output=True, check=True)
    assert (done.stdout == data, done.stderr == data) == (True, True)


def test_a_child_that_reads_nothing_is_no_error():
    done = subprocess.run(["true"], input=b"x" * 1_000_000, check=True)
    assert done.returncode == 0


def test_both_outputs_may_be_one_and_none_may_be_read():
    source = "import os; os.write(1, b'1'); os.write(2, b'2'); os.write(1, b'3')"
    assert subprocess.check_output(python(source), stderr=STDOUT) == b"123"
    assert subprocess.run(python(source), stdout=DEVNULL, stderr=DEVNULL, stdin=DEVNULL, check=True).stdout is None


def test_many_children_run_at_once_each_in_its_tasklet():
    said = []
    for number in range(10):
        roamlet.tasklet(lambda number=number: said.append(subprocess.check_output(["echo", str(number)])))()
    roamlet.run()
    assert sorted(said) == [b"%d\n" % number for number in range(10)]


def test_only_the_tasklet_waits():
    order = []
    with Popen(["cat"], stdin=PIPE, stdout=PIPE) as cat:
        reading = started(lambda: order.append(cat.stdout.read()))
        waiting = started(lambda: order.append(cat.wait()))
        order.append("another tasklet")
        cat.stdin.write(b"said")
        cat.stdin.close()
        roamlet.run()
    assert (order[0], set(order[1:])) == ("another tasklet", {b"said", 0})
    assert not reading.alive
    assert not waiting.alive


# ---- talking to a child ----


def test_one_childs_output_may_be_anothers_input():
    """The second must not see that the pipe does not block for us."""
    with Popen(python("import time; time.sleep(0.05); print('through')"), stdout=PIPE) as first:
        with Popen(["cat"], stdin=first.stdout, stdout=PIPE, text=True) as second:
            assert second.communicate() == ("through\n", None)
        assert second.returncode == 0
        assert first.stdout.read() == b""


def test_one_childs_input_may_be_anothers_output():
    with Popen(["cat"], stdin=PIPE, stdout=PIPE) as last, Popen(["cat"], stdin=PIPE, stdout=last.stdin) as first:
        assert first.communicate(b"x" * 10_000) == (None, None)
        out, _ = last.communicate(b"y" * 300_000)
    assert (len(out), set(out)) == (310_000, set(b"xy"))


def test_lines_go_there_and_back():
    with Popen(["cat"], bufsize=1, stdin=PIPE, stdout=PIPE, text=True) as cat:
        for line in ("one\n", "two\n"):
            cat.stdin.write(line)
            assert cat.stdout.readline() == line
        cat.stdin.close()
        assert cat.stdout.read() == ""
    assert cat.returncode == 0


@pytest.mark.parametrize("bufsize", [-1, 0, 100])
def test_buffers_are_as_asked_for(bufsize):
    with Popen(["cat"], bufsize=bufsize, stdin=PIPE, stdout=PIPE) as cat:
        cat.stdin.write(b"line\nrest")
        cat.stdin.close()
        assert (cat.stdout.readline(), cat.stdout.read()) == (b"line\n", b"rest")


def test_what_is_still_buffered_is_sent_by_communicate_and_by_leaving():
    with Popen(["cat"], stdin=PIPE, stdout=PIPE) as cat:
        cat.stdin.write(b"before ")
        assert cat.communicate(b"and after") == (b"before and after", None)
    with Popen(["cat"], stdin=PIPE, stdout=DEVNULL) as cat:
        cat.stdin.write(b"x" * 100)
    assert cat.returncode == 0


def test_communicate_goes_on_after_a_time_out_and_loses_nothing():
    source = """
import sys
sys.stdout.write("first"); sys.stdout.flush()
sys.stdin.readline()
sys.stdout.write(" second")
"""
    with Popen(python(source), stdin=PIPE, stdout=PIPE, stderr=PIPE) as child:
        reader = child.stdout.raw
        roamlet.io.wait_readable(reader.fileno())
        child.stdin.write(b"half a line")
        child.stdin.flush()
        end = os.dup(child.stdin.fileno())
        expired = error_of(lambda: child.communicate(timeout=0.05))
        assert isinstance(expired, subprocess.TimeoutExpired)
        assert str(expired).endswith("timed out after 0.05 seconds")
        assert (expired.output, expired.stderr) == (b"first", b"")
        assert child.poll() is None
        with pytest.raises(ValueError, match=r"go on with communicate\(timeout=...\) alone"):
            child.communicate(b"other input")
        os.write(end, b"\n")
        os.close(end)
        assert child.communicate(timeout=30) == (b"first second", b"")


# ---- how it ends ----


def zombies() -> list[str]:
    """Children of ours that have ended and were not reaped."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            fields = Path(f"/proc/{int(name)}/stat").read_text().rpartition(")")[2].split()
            if (fields[0], fields[1]) == ("Z", str(os.getpid())):
                found.append(name)
    return found


def test_wait_has_a_limit_and_poll_does_not_wait():
    with Popen(python(SLEEPS), stdout=PIPE) as child:
        assert child.poll() is None
        with pytest.raises(subprocess.TimeoutExpired, match="timed out after 0.001 seconds"):
            child.wait(0.001)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(-1)
        child.terminate()
        assert (child.wait(), child.wait(0), child.poll()) == (-signal.SIGTERM,) * 3


def test_run_kills_the_child_when_time_is_over():
    expired = error_of(lambda: subprocess.run(python(SLEEPS), stdout=PIPE, timeout=0.5))
    assert isinstance(expired, subprocess.TimeoutExpired)
    assert expired.output in (b"ready\n", b"")
    assert zombies() == []


class Oops(Exception):
    pass


@pytest.mark.parametrize("how", ["an exception", "killed", "cancelled", "out of time"])
def test_a_child_is_killed_and_reaped_when_its_with_is_left_in_the_middle(how):
    children = []

    def body() -> None:
        with Popen(python(SLEEPS), stdin=PIPE, stdout=PIPE, stderr=PIPE) as child:
            children.append(child)
            child.stdin.write(b"in the buffer")
            assert child.stdout.readline() == b"ready\n"
            if how == "an exception":
                raise Oops
            child.stdout.read()

    if how == "an exception":
        with pytest.raises(Oops):
            body()
    elif how == "killed":
        tasklet = started(body)
        while not children or children[0].stdout.raw.closed or not tasklet.blocked:
            roamlet.sleep(0.001)
        tasklet.kill()
        roamlet.run()  # it waits for the child's death
    else:
        with core.CancelScope(0.5 if how == "out of time" else None) as scope:
            if how == "cancelled":
                roamlet.tasklet(scope.cancel)()
            body()
        assert scope.cancelled or scope.expired
    (child,) = children
    assert child.returncode == -signal.SIGKILL
    assert (child.stdin.closed, child.stdout.closed, child.stderr.closed) == (True, True, True)
    assert zombies() == []


def test_a_tasklet_that_reads_from_a_child_that_is_ended_is_told():
    told = []

    def reads(child) -> None:
        try:
            child.stdout.read()
        except OSError as error:
            told.append(error.strerror)

    def body() -> None:
        with Popen(python(SLEEPS), stdout=PIPE) as child:
            tasklets.append(started(partial(reads, child)))
            raise Oops

    tasklets: list[roamlet.tasklet] = []
    with pytest.raises(Oops):
        body()
    roamlet.run()
    assert (len(told), tasklets[0].alive) == (1, False)
    assert "was closed while a tasklet waited for it" in told[0]


def test_a_tasklet_that_is_killed_twice_leaves_no_zombie():
    """The second time while it waits for the child to die."""
    children = []

    def body() -> None:
        with Popen(python(SLEEPS), stdout=PIPE) as child:
            children.append(child)
            child.stdout.read()

    tasklet = started(body)
    tasklet.throw(Oops, pending=True)
    second = roamlet.tasklet(lambda: tasklet.throw(core.TaskletExit, pending=True))()
    while tasklet.alive or second.alive:
        with contextlib.suppress(Oops):
            roamlet.run()
    assert children[0].returncode == -signal.SIGKILL
    assert zombies() == []


# ---- bad input and faults ----


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: subprocess.run(["no such program, surely"]), FileNotFoundError, "No such file or directory"),
        (lambda: subprocess.run(["/"], stdin=PIPE, stdout=PIPE, stderr=PIPE), PermissionError, "Permission denied"),
        (lambda: subprocess.run(["true"], cwd="/no such folder", stdout=PIPE), FileNotFoundError, "no such folder"),
        (lambda: subprocess.run(["true"], input=b"", stdin=PIPE), ValueError, "stdin and input may not both be used"),
        (lambda: subprocess.run(["true"], capture_output=True, stdout=PIPE), ValueError, "capture_output"),
        (
            lambda: subprocess.check_output(["true"], stdout=PIPE),
            ValueError,
            "stdout argument not allowed",
        ),
        (lambda: Popen(["true"], text=True, universal_newlines=False), subprocess.SubprocessError, "different things"),
        (lambda: Popen(["true"], nonsense=True), TypeError, "nonsense"),
        (lambda: subprocess.run(["cat"], input="text", stdout=PIPE), TypeError, "bytes-like"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(call, error, message):
    with pytest.raises(error, match=message):
        call()
    assert zombies() == []


@pytest.mark.parametrize("spare", range(8))
def test_without_descriptors_nothing_is_started_and_none_is_lost(spare):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 20, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(spare):  # three pipes take six, and one more tells of the child's failure to start
            os.close(taken.pop())
        with pytest.raises(OSError, match="Too many open files"):
            Popen(["true"], stdin=PIPE, stdout=PIPE, stderr=PIPE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)
    assert zombies() == []


def test_a_signal_does_not_end_the_wait_for_a_child():
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append("signal"))
    try:
        source = f"import os; os.kill({os.getpid()}, {int(signal.SIGUSR1)}); print('done')"
        assert subprocess.check_output(python(source)) == b"done\n"
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == ["signal"]


def test_communicate_lets_pass_that_stdin_is_closed():
    with subprocess.Popen([sys.executable, "-c", "print(1)"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdin.close()
        assert child.communicate() == (b"1\n", None)
