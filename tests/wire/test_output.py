"""What a target prints and logs: from Python, from its child processes, before the result that it belongs to."""

import os

import pytest

from roamlet.wire import protocol
from tests.wire.target import ErrorAnswer

WORK = """
from __future__ import print_function
import os
import subprocess
import sys

def say(text, stream="stdout"):
    print(text, file=getattr(sys, stream))

def write(text, stream="stdout"):
    getattr(sys, stream).write(text)

def low(number, data):
    return os.write(number, data.encode("utf-8"))

def child(command):
    return subprocess.call(["sh", "-c", command])

def read_stdin():
    return [sys.stdin.read(), os.read(0, 10) == b"", subprocess.call(["sh", "-c", "read line"])]

def log(name, level, message, *args):
    import logging
    logging.getLogger(name).log(level, message, *args)

def log_error():
    import logging
    try:
        1 // 0
    except ZeroDivisionError:
        logging.getLogger("work").exception("it failed")

def log_broken():
    import logging
    logging.getLogger("work").error("%d", "no number")

def levels():
    import logging
    return [logging.getLogger().level, logging.getLogger("work").isEnabledFor(20), len(logging.root.handlers)]

def is_loaded(name):
    return name in sys.modules

def replace_stdout():
    class Broken(object):
        def write(self, text):
            raise RuntimeError("broken")
    sys.stdout = Broken()

def print_lines(count):
    for number in range(count):
        print("line %d" % number)

def loop_for_ever():
    while True:
        pass
"""


@pytest.fixture
def work(target):
    target.modules({"work": WORK})
    return target


@pytest.mark.parametrize(("stream", "number"), [("stdout", 1), ("stderr", 2)])
def test_what_a_call_prints_arrives_before_its_result(work, stream, number):
    for _ in range(20):
        work.streams[number] = b""
        work.call("work:say", "h\xe9llo", stream)
        assert work.streams[number] == b"h\xc3\xa9llo\n"


def test_an_unfinished_line_arrives_before_the_result_too(work):
    work.call("work:write", "no end of line")
    assert work.streams[1] == b"no end of line"


def test_what_is_written_to_the_descriptors_arrives(work):
    work.call("work:low", 1, "one")
    work.call("work:low", 2, "two")
    assert work.streams == {1: b"one", 2: b"two"}


def test_what_child_processes_print_arrives(work):
    assert work.call("work:child", "echo out; echo err >&2; exit 3") == 3
    assert work.streams == {1: b"out\n", 2: b"err\n"}


def test_what_a_child_process_prints_later_arrives_by_itself(work):
    work.call("work:child", "(sleep 0.2; echo later) &")
    work.wait_until(lambda: work.streams[1] == b"later\n")
    assert work.streams[1] == b"later\n"


def test_much_output_arrives_whole_and_in_order(work):
    work.call("work:print_lines", 30000)
    assert work.streams[1] == b"".join(b"line %d\n" % number for number in range(30000))


def test_the_standard_input_is_empty(work):
    assert work.call("work:read_stdin") == ["", True, 1]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not list descriptors in /proc")
def test_child_processes_inherit_the_standard_descriptors_only(work):
    assert work.call("work:child", "ls /proc/self/fd") == 0
    assert work.streams[1].split() == [b"0", b"1", b"2", b"3"]  # 3 is the listing's own


def test_a_broken_stdout_of_somebody_else_ends_nothing(work):
    work.call("work:replace_stdout")
    assert isinstance(work.call("work:say", "lost"), ErrorAnswer)
    assert work.call("work:low", 1, "kept") == 4
    assert work.streams[1] == b"kept"


def test_log_records_arrive_before_the_result(work):
    work.call("work:log", "some.logger", 30, "%s is %d", "it", 5)
    ((name, level, message, created, filename, line, thread, trace),) = work.logs
    assert (name, level, message, trace) == ("some.logger", 30, "it is 5", None)
    assert created > 1e9
    assert filename == "roamlet:/parent/work.py"
    assert WORK.splitlines()[line - 1].strip().startswith("logging.getLogger(name)")
    assert thread


def test_names_and_messages_outside_of_ascii_are_logged(work):
    work.call("work:log", "l\xf6gger", 40, "h\xe9 %s", "\u20ac")
    assert work.logs[0][:3] == ("l\xf6gger", 40, "h\xe9 \u20ac")


def test_log_records_carry_their_traceback(work):
    work.call("work:log_error")
    assert work.logs[0][2] == "it failed"
    assert "ZeroDivisionError" in work.logs[0][7]
    assert "1 // 0" in work.logs[0][7]


def test_the_level_of_the_parent_decides_what_travels(python, start):
    target = start(python, log_level=20)
    target.modules({"work": WORK})
    target.call("work:log", "a", 10, "too low")
    target.call("work:log", "a", 20, "just right")
    assert [record[2] for record in target.logs] == ["just right"]
    assert target.call("work:levels") == [20, True, 1]


def test_a_record_that_cannot_be_formatted_is_reported_as_logging_does(work):
    work.call("work:log_broken")
    assert b"Traceback" in work.streams[2]
    assert work.logs == []


def test_logging_is_imported_only_by_code_that_logs(work):
    assert work.call("work:is_loaded", "logging") is False
    assert work.call("work:levels")[2] == 1


def test_all_that_was_printed_comes_before_the_goodbye(work):
    work.modules(
        {"at_end": "import atexit, sys\n\ndef register():\n    atexit.register(sys.stdout.write, 'the last words')\n"}
    )
    work.call("at_end:register")
    work.send(protocol.GOODBYE, 0, b"")
    work.wait_for(protocol.GOODBYE)
    assert work.streams[1] == b"the last words"
    assert work.seconds_to_die() < 3
    assert work.end() == 0


def test_output_flows_while_another_call_keeps_the_interpreter_busy(work):
    work.begin("work:loop_for_ever")
    work.call("work:say", "still here")
    assert work.streams[1] == b"still here\n"
    work.process.kill()
    work.process.wait()
