"""The end of a target: gone within seconds when its parent is, whatever its threads do; in order when asked to."""

import os
import select
import signal
import subprocess
import sys

import pytest

from roamlet.wire import build, codec, protocol
from tests.wire.interpreters import since
from tests.wire.target import CONTEXT, Ended, Target

WORK = """
import atexit
import os
import select
import signal
import sys
import threading
import time

def busy():
    while True:
        pass

def deaf():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

def many_busy(count):
    for _ in range(count):
        thread = threading.Thread(target=busy)
        thread.start()

def ignore_signals():
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        try:
            signal.signal(number, signal.SIG_IGN)
        except ValueError:
            return False
    return True

def stuck_at_exit():
    atexit.register(deaf)

def raise_at_exit():
    atexit.register(lambda: 1 // 0)

def print_for_ever():
    while True:
        sys.stdout.write("x" * 1000)

def read_for_ever():
    os.read(os.pipe()[0], 1)

def import_lock(name):
    __import__(name)

def daemon():
    import subprocess
    return subprocess.Popen(["sleep", "30"]).pid
"""

STUCK = [
    ("nothing", ()),
    ("busy", ()),
    ("deaf", ()),
    ("many_busy", (10,)),
    ("stuck_at_exit", ()),
    ("raise_at_exit", ()),
    ("print_for_ever", ()),
    ("read_for_ever", ()),
    ("import_lock", ("never_answered",)),
]


@pytest.mark.parametrize(("function", "args"), STUCK, ids=[name for name, _ in STUCK])
def test_a_target_is_gone_within_three_seconds_of_its_link(target, function, args):
    target.modules({"work": WORK})
    if function != "nothing":
        target.begin("work:" + function, *args)
        assert target.call("os:getpid") == target.hello["pid"]  # it has begun, and others go on
    assert target.process.stdin is not None
    assert target.process.stdout is not None
    target.process.stdin.close()
    target.process.stdout.close()
    assert target.seconds_to_die() < 3


PARENT = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
process.stdin.write(open(sys.argv[1], "rb").read())
process.stdin.flush()
print(process.pid, file=sys.stderr, flush=True)
process.wait()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system has no pidfd_open to wait for another's child")
@pytest.mark.parametrize("function", ["busy", "deaf", "ignore_signals"])
def test_a_target_is_gone_within_three_seconds_of_the_sigkill_of_its_parent(python, tmp_path, function):
    """The parent is a process in between that holds the only other end of the target's standard input."""
    token = build.new_token()
    frames = build.preamble({"id": CONTEXT, "name": "orphan"}) + call(1, "sys", "exit") + call(2, "os", "getpid")
    script = tmp_path / "frames"
    script.write_bytes(frames + modules({"work": WORK}) + call(3, "work", function) + call(4, "os", "getpid"))
    command = [sys.executable, "-c", PARENT, str(script), *build.command(python, token)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stderr is not None
    pid = int(parent.stderr.readline())
    read_until_answer(parent.stdout.fileno(), token, 4)
    target = os.pidfd_open(pid)  # becomes readable when the process is gone, whoever its parent is by then
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    gone, _, _ = select.select([target], [], [], 3)
    os.close(target)
    parent.stdout.close()
    parent.stderr.close()
    assert gone, f"the target {pid} is still there 3 seconds after its parent was killed"


def call(number, module, function):
    return protocol.frame(CONTEXT, 0, number, protocol.CALL, codec.dumps((module, function, (), None)))


def modules(sources):
    from tests.wire.target import packed

    return protocol.frame(CONTEXT, 0, 0, protocol.MODULES, packed(sources))


def read_until_answer(fd, token, number):
    scanner = build.StartScanner(token)
    while not scanner.feed(os.read(fd, 1 << 16)):
        pass
    reader = protocol.FrameReader()
    data = scanner.rest
    while True:
        for frame in reader.feed(data) if data else ():
            if frame[2] == number and frame[3] == protocol.RESULT:
                return
        data = os.read(fd, 1 << 16)
        assert data, "the target ended too early"


def test_goodbye_ends_a_target_with_status_0_though_calls_run(target):
    target.modules({"work": WORK})
    target.begin("work:deaf")
    target.send(protocol.GOODBYE, 0, b"")
    target.wait_for(protocol.GOODBYE)
    assert target.seconds_to_die() < 1
    assert target.end() == 0


def ended_beside(target, child):
    """End a target whose child process goes on, seeing the end of the link; return its status."""
    try:
        target.send(protocol.GOODBYE, 0, b"")
        target.wait_for(protocol.GOODBYE)
        with pytest.raises(Ended):
            target.read()
    finally:
        os.kill(child, signal.SIGKILL)
    return target.end()


def test_a_child_process_left_behind_holds_no_end_of_the_link(target):
    target.modules({"work": WORK})
    assert ended_beside(target, target.call("work:daemon")) == 0


# Before 3.7 nothing runs in a forked child ahead of the code that forked it.
@pytest.mark.parametrize("python", since(3, 7), indirect=True)
def test_a_process_that_a_call_forked_off_holds_no_end_of_the_link_either(target):
    target.modules(
        {
            "forks": "import os, time\n\ndef go():\n    pid = os.fork()\n    if not pid:\n        time.sleep(30)\n    return pid\n"
        }
    )
    assert ended_beside(target, target.call("forks:go")) == 0


def test_a_bundle_that_cannot_be_used_ends_the_target_and_says_why(target):
    target.send(protocol.MODULES, 0, b"no bundle")
    with pytest.raises(Ended, match="a MODULES frame cannot be used: error: Error -3 while decompressing"):
        target.wait_for(protocol.RESULT)


def test_a_frame_that_is_none_ends_the_target(target):
    target.write(b"\xff" * 100)
    with pytest.raises(Ended):
        target.wait_for(protocol.RESULT)


def test_an_interrupt_from_the_terminal_is_left_to_the_parent(target):
    target.process.send_signal(signal.SIGINT)
    assert target.call("os:getpid") == target.process.pid
    target.process.send_signal(signal.SIGINT)
    assert target.call("os:getpid") == target.process.pid
    assert target.streams == {1: b"", 2: b""}


# 2.7 has no faulthandler.
@pytest.mark.parametrize("python", since(3, 3), indirect=True)
def test_a_crash_of_the_interpreter_says_where_on_the_first_stderr(target):
    target.modules({"crash": "import os\nimport signal\n\ndef now():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"})
    target.begin("crash:now")
    line = "[45]" if target.hello["implementation"] == "pypy" else "5"  # there it is "approximate"
    with pytest.raises(Ended, match=rf"Segmentation fault(.|\n)*roamlet:/parent/crash.py.* line {line} in now"):
        target.wait_for(protocol.RESULT)


def test_a_target_that_was_started_without_a_reader_ends(python):
    target = Target(python)
    assert target.process.stdout is not None
    target.process.stdout.close()
    assert target.process.stdin is not None
    target.process.stdin.close()
    assert target.seconds_to_die() < 3
    assert target.process.stderr is not None
    target.process.stderr.close()
