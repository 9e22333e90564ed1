"""Calls in a target of each version: values, errors, many at once, and what must not end the context."""

import sys
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from roamlet.wire import codec, protocol
from roamlet.wire.calls import calls
from roamlet.wire.values import values
from tests.wire import interpreters
from tests.wire.target import CONTEXT, ErrorAnswer, send_part


@dataclass
class Ware:
    """An instance of it makes a target import this module, which it does not have."""

    name: str


WORK = """
import os
import sys
import threading
import threading
import time

gate = threading.Event()
started = threading.Event()
state = {"count": 0}

class Shop(object):
    @staticmethod
    def price(item, times=1):
        return [item, times]

class Own(Exception):
    pass

def echo(*args, **kwargs):
    return [args, kwargs]

def wait():
    started.set()
    return gate.wait(20) is not False

def wait_for_start():
    return started.wait(20) is not False

def open_gate():
    gate.set()

def fail(kind="value"):
    if kind == "value":
        raise ValueError("no such thing", 42)
    if kind == "own":
        raise Own("mine")
    if kind == "object":
        raise ValueError(object())
    if kind == "text":
        raise ValueError(u"h\\xe9")
    if kind == "file":
        open("/nowhere/at/all")
    if kind == "exit":
        sys.exit(3)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "generator":
        raise GeneratorExit
    if kind == "unprintable":
        raise Unprintable()
    if kind == "deep":
        return fail("deep")

class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

def give(what):
    if what == "generator":
        return {"rows": [1, (x for x in [])]}
    if what == "lock":
        return threading.Lock()
    if what == "file":
        return [open(os.devnull)]
    if what == "self":
        value = []
        value.append(value)
        return value

def big(size):
    return b"x" * size

def noop():
    pass

def exception_left():
    return sys.exc_info()[0] is not None

def fork_and_return():
    child = os.fork()
    if child == 0:
        return "from the child"
    return os.waitpid(child, 0)[1] >> 8
"""


@pytest.fixture
def work(target):
    target.modules({"work": WORK})
    return target


def test_values_go_there_and_back(work):
    sent = [None, True, 1, 2**80, 1.5, "h\xe9", [1, (2, {"a": {3}})], {"k": [None]}, frozenset([1])]
    args, kwargs = work.call("work:echo", *sent, key="word", other=[1])
    assert list(args) == sent
    assert kwargs == {"key": "word", "other": [1]}


def test_a_dotted_name_reaches_into_classes(work):
    assert work.call("work:Shop.price", "tea", times=3) == ["tea", 3]


def test_a_standard_module_needs_no_bundle(target):
    assert target.call("os:getpid") == target.hello["pid"] == target.process.pid


def test_calls_run_side_by_side(work):
    waiting = [work.begin("work:wait") for _ in range(10)]
    assert work.call("work:echo", 1) == [(1,), {}]
    assert not [frame for frame in work.frames if frame[2] in waiting]
    work.call("work:open_gate")
    assert [work.answer(number) for number in waiting] == [True] * 10


def test_hundreds_of_calls_pushed_at_once_are_all_answered(work):
    numbers = [work.begin("work:echo", index) for index in range(500)]
    assert [work.answer(number)[0] for number in numbers] == [(index,) for index in range(500)]


def test_the_pool_stops_growing_at_its_limit_and_still_reads(python, start):
    target = start(python, max_threads=4)
    target.modules({"work": WORK})
    waiting = [target.begin("work:wait") for _ in range(20)]
    target.send(protocol.PING, 99, b"are you there")
    assert target.wait_for(protocol.PONG, 99)[4] == b"are you there"
    target.send(protocol.CANCEL, waiting[-1], b"")
    answer = target.answer(waiting[-1])
    assert isinstance(answer, ErrorAnswer)
    assert answer["reason"] == protocol.ERROR_CANCELLED
    assert not [frame for frame in target.frames if frame[2] in waiting]


def test_cancelling_a_call_imports_nothing_for_its_values_in_the_thread_that_reads(start):
    target = start(sys.executable, max_threads=2)
    send_part(target, "values.values")
    send_part(target, "channels")
    target.modules({"work": WORK})
    target.begin("work:wait")
    call = ("work", "echo", (Ware("tea"),), None)
    target.send(protocol.CALL, 50, codec.dumps(call, otherwise=values.dumps))
    target.send(protocol.CANCEL, 50, b"")
    target.send(protocol.PING, 99, b"are you there")
    assert target.wait_for(protocol.PONG, 99)[4] == b"are you there"
    answer = target.answer(50)
    assert isinstance(answer, ErrorAnswer)
    assert answer["reason"] == protocol.ERROR_CANCELLED
    assert not target.wants


BLOCKING_OUTPUT = """
import os
import sys
import threading
import threading

class Output(object):
    def __init__(self):
        self.flushed = 0
        self.go_on = threading.Event()

    def write(self, text):
        pass

    def flush(self):
        self.flushed += 1
        if self.flushed > 1:
            self.go_on.wait(60)

output = Output()

def take_over():
    sys.stdout = output

def wait():
    os.write(2, b"begun")
    output.go_on.wait(60)
"""


def test_the_thread_that_reads_waits_for_nobodys_output(python, start):
    """The object that a program has put in place of sys.stdout may block who flushes it, which comes before each answer."""
    target = start(python, max_threads=2)
    target.modules({"output": BLOCKING_OUTPUT})
    assert target.call("output:take_over") is None
    target.begin("output:wait")  # in the one thread that may run calls
    target.wait_until(lambda: target.streams[2] == b"begun")
    dropped = [target.begin("os:getpid") for _ in range(3)]
    for number in dropped:
        target.send(protocol.CANCEL, number, b"")
    target.send(protocol.PING, 99, b"are you there")
    assert target.wait_for(protocol.PONG, 99)[4] == b"are you there"
    assert not [frame for frame in target.frames if frame[2] in dropped]
    target.process.kill()


def test_what_the_values_of_a_cancelled_call_import_may_exit(start):
    target = start(sys.executable, max_threads=2)
    send_part(target, "values.values")
    send_part(target, "channels")
    target.modules({"work": WORK, "tests": None, "tests.wire": None, __name__: "raise SystemExit"})
    call = codec.dumps(("work", "echo", (Ware("tea"),), None), otherwise=values.dumps)
    sleep = codec.dumps(("time", "sleep", (0.2,), None))  # in the one thread that could begin the other call
    kinds = ((protocol.CALL, 49, sleep), (protocol.CALL, 50, call), (protocol.CANCEL, 50, b""))
    target.write(b"".join(protocol.frame(CONTEXT, 0, number, kind, body) for kind, number, body in kinds))
    assert target.answer(50)["reason"] == protocol.ERROR_CANCELLED
    assert target.answer(49) is None
    assert target.call("os:getpid") == target.process.pid


TICKS = """
import signal

def begin():
    signal.signal(signal.SIGALRM, lambda number, stack: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
"""


def test_signals_interrupt_nothing_that_waits_for_calls(start):
    target = start(next(iter(interpreters.found().values())))  # the oldest: before 3.5, each system call may fail then
    target.modules({"ticks": TICKS})
    assert target.call("ticks:begin") is None
    for _ in range(1000):
        assert target.call("os:getpid") == target.process.pid


def test_an_answer_does_not_wait_for_the_next_call_of_its_thread(python, start):
    target = start(python, max_threads=2)  # one of which reads
    target.modules({"work": WORK})
    first = target.begin("time:sleep", 0.2)
    second = target.begin("work:wait")
    assert target.answer(first) is None
    assert not [frame for frame in target.frames if frame[2] == second]


def test_a_call_that_runs_is_not_cancelled(work):
    waiting = work.begin("work:wait")
    assert work.call("work:wait_for_start")
    work.send(protocol.CANCEL, waiting, b"")
    work.call("work:open_gate")
    assert work.answer(waiting) is True


def test_an_exception_arrives_with_its_arguments_and_its_lines(work):
    answer = work.call("work:fail")
    assert isinstance(answer, ErrorAnswer)
    assert answer["reason"] == protocol.ERROR_RAISED
    assert (answer["type"], answer["module"], answer["args"]) == ("ValueError", "builtins", ("no such thing", 42))
    assert "no such thing" in answer["text"]
    line = WORK.splitlines().index('        raise ValueError("no such thing", 42)') + 1
    assert 'File "roamlet:/parent/work.py", line %d, in fail' % line in answer["traceback"]
    assert 'raise ValueError("no such thing", 42)' in answer["traceback"]
    assert answer["traceback"].endswith("\n")
    assert "calls.py" not in answer["traceback"]
    assert "roamlet.wire" not in answer["traceback"]


@pytest.mark.parametrize(
    ("kind", "name", "module"),
    [
        ("own", "Own", "work"),
        ("exit", "SystemExit", "builtins"),
        ("interrupt", "KeyboardInterrupt", "builtins"),
        ("generator", "GeneratorExit", "builtins"),
    ],
)
def test_no_exception_ends_the_context(work, kind, name, module):
    answer = work.call("work:fail", kind)
    assert (answer["reason"], answer["type"], answer["module"]) == (protocol.ERROR_RAISED, name, module)
    assert work.call("work:echo") == [(), {}]


def test_the_argument_of_sys_exit_arrives(work):
    assert work.call("work:fail", "exit")["args"] == (3,)


def test_an_error_whose_arguments_cannot_travel_arrives_as_text(work):
    answer = work.call("work:fail", "object")
    assert answer["args"] is None
    assert answer["text"].startswith("<object object at")


def test_text_outside_ascii_arrives_in_errors(work):
    answer = work.call("work:fail", "text")
    assert answer["args"] == ("h\xe9",)
    assert answer["text"] == "h\xe9"


def test_an_os_error_keeps_its_file_name(work):
    answer = work.call("work:fail", "file")
    assert answer["args"] == (2, "No such file or directory", "/nowhere/at/all")


def test_an_exception_without_a_text_arrives_all_the_same(work):
    answer = work.call("work:fail", "unprintable")
    assert (answer["type"], answer["text"]) == ("Unprintable", "(its text cannot be had)")
    assert "Unprintable" in answer["traceback"]


def test_endless_recursion_is_an_error_of_bounded_size(work):
    answer = work.call("work:fail", "deep")
    assert answer["type"] in ("RecursionError", "RuntimeError")
    assert len(answer["traceback"]) < 100_000


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("generator", "result['rows'][1] cannot travel: it is a generator; send list(...) of it"),
        ("lock", "result cannot travel: it is a "),
        ("file", "result[0] cannot travel: it is a "),
        ("self", "result[0] cannot travel: it contains itself"),
    ],
)
def test_a_result_that_cannot_travel_is_an_error_that_names_the_path(work, what, message):
    answer = work.call("work:give", what)
    assert answer["reason"] == protocol.ERROR_RESULT
    assert answer["text"].replace("u'", "'").startswith(message)
    assert work.call("work:echo") == [(), {}]


def test_a_function_that_is_not_there_is_told_apart_from_one_that_fails(work):
    answer = work.call("work:no.such")
    assert answer["reason"] == protocol.ERROR_FUNCTION
    assert "no" in answer["text"]


def test_a_module_that_does_not_import_is_told_apart_too(work):
    work.modules({"broken": "x = 1\nraise KeyError('at import')\n"})
    answer = work.call("broken:f")
    assert (answer["reason"], answer["type"], answer["args"]) == (protocol.ERROR_IMPORT, "KeyError", ("at import",))
    assert "roamlet:/parent/broken.py" in answer["traceback"]


def test_a_call_that_cannot_be_read_is_answered(work):
    work.send(protocol.CALL, 5, b"garbage")
    assert work.answer(5)["reason"] == protocol.ERROR_MESSAGE
    work.send(protocol.CALL, 6, codec.dumps((1, 2)))
    assert work.answer(6)["reason"] == protocol.ERROR_MESSAGE


def test_a_large_result_arrives_whole_between_small_ones(work):
    numbers = [work.begin("work:big", size) for size in (10, 5_000_000, 20, 100_000, 70_000, 3)]
    sizes = [len(work.answer(number)) for number in numbers]
    assert sizes == [10, 5_000_000, 20, 100_000, 70_000, 3]


def test_no_exception_stays_alive_between_calls(work):
    work.call("work:fail")
    assert [work.call("work:exception_left") for _ in range(5)] == [False] * 5


def test_a_call_that_forks_answers_once(work):
    number = work.begin("work:fork_and_return")
    assert work.answer(number) == 1
    assert work.call("work:noop") is None
    assert not work.frames


def test_a_call_that_ends_its_process_closes_the_link(work):
    from tests.wire.target import Ended

    work.begin("os:_exit", 5)
    with pytest.raises(Ended, match="status 5"):
        work.wait_for(protocol.RESULT)


def test_without_epoll_calls_run_side_by_side_as_well(python, start):
    """Where there is no epoll (macOS) the threads take turns by a lock."""

    def without_epoll(command):
        stage = command.index("-c") + 1
        command[stage] = "import select;del select.epoll;" + command[stage]
        return command

    target = start(python, wrap=without_epoll)
    target.modules({"work": WORK})
    waiting = [target.begin("work:wait") for _ in range(10)]
    assert target.call("work:wait_for_start")
    numbers = [target.begin("work:echo", index) for index in range(300)]
    assert [target.answer(number)[0] for number in numbers] == [(index,) for index in range(300)]
    target.call("work:open_gate")
    assert [target.answer(number) for number in waiting] == [True] * 10


def test_sys_argv_is_that_of_no_program(work):
    work.modules({"look": "import sys\ndef argv():\n    return sys.argv\n"})
    assert work.call("look:argv") == [""]


def test_a_ping_is_answered_while_calls_run(work):
    waiting = work.begin("work:wait")
    work.send(protocol.PING, 77, b"abc")
    assert work.wait_for(protocol.PONG, 77)[4] == b"abc"
    work.call("work:open_gate")
    assert work.answer(waiting) is True


def test_the_last_thread_that_reads_leaves_answers_that_the_parent_keeps_waiting_to_one_other():
    taken, sent = threading.Event(), []
    pool = calls.Pool(SimpleNamespace(send_raw=sent.append, context=0), turns=None, handle=None, flush=taken.wait)
    before = set(threading.enumerate())
    for answer in (b"one", b"two"):
        pool._answers.append(answer)
        helps = threading.Thread(target=pool._help, daemon=True)
        helps.start()
        helps.join(10)
        assert not helps.is_alive()
    (aside,) = set(threading.enumerate()) - before
    taken.set()
    aside.join(10)
    assert b"".join(part for parts in sent for part in parts) == b"onetwo"
