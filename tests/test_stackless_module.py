"""roamlet.stackless has each name of Stackless's module, and each does what Stackless says."""

import builtins
import importlib
import pickle
import sys
import threading
from types import ModuleType

import pytest

from roamlet import stackless

# Every documented name of Stackless 3.7's and 3.8's module, tasklet and channel; and what roamlet has there.
FUNCTIONS = [
    "enable_softswitch",
    "get_channel_callback",
    "get_schedule_callback",
    "get_thread_info",
    "getcurrent",
    "getcurrentid",
    "getdebug",
    "getmain",
    "getruncount",
    "getthreads",
    "getuncollectables",
    "pickle_flags",
    "pickle_flags_default",
    "run",
    "schedule",
    "schedule_remove",
    "set_channel_callback",
    "set_error_handler",
    "set_schedule_callback",
    "switch_trap",
]
TYPES = ["atomic", "channel", "tasklet"]
LIVE = ["current", "debug", "main", "pickle_with_tracing_state", "runcount", "threads", "uncollectables"]
FLAGS = ["PICKLEFLAGS_PRESERVE_TRACING_STATE", "PICKLEFLAGS_PRESERVE_AG_FINALIZER", "PICKLEFLAGS_RESET_AG_FINALIZER"]

TASKLET_METHODS = [
    "__call__",
    "__del__",
    "__init__",
    "__reduce__",
    "__setstate__",
    "bind",
    "bind_thread",
    "context_run",
    "insert",
    "kill",
    "raise_exception",
    "remove",
    "run",
    "set_atomic",
    "set_context",
    "set_ignore_nesting",
    "setup",
    "switch",
    "throw",
]
TASKLET_ATTRIBUTES = [
    "alive",
    "atomic",
    "block_trap",
    "blocked",
    "frame",
    "ignore_nesting",
    "is_current",
    "is_main",
    "nesting_level",
    "next",
    "paused",
    "prev",
    "profile_function",
    "recursion_depth",
    "restorable",
    "scheduled",
    "tempval",
    "thread_id",
    "trace_function",
]
CHANNEL_METHODS = [
    "__iter__",
    "__next__",
    "__reduce__",
    "__setstate__",
    "close",
    "open",
    "receive",
    "send",
    "send_exception",
    "send_sequence",
    "send_throw",
]
CHANNEL_ATTRIBUTES = ["balance", "closed", "closing", "preference", "queue", "schedule_all"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_module_has_the_function(name):
    assert callable(getattr(stackless, name))


@pytest.mark.parametrize("name", LIVE)
def test_the_module_has_the_live_attribute(name):
    assert name not in vars(stackless)
    assert getattr(stackless, name) == getattr(stackless, name)


@pytest.mark.parametrize("name", TASKLET_METHODS)
def test_a_tasklet_has_the_method(name):
    assert callable(getattr(stackless.tasklet, name))


@pytest.mark.parametrize("name", TASKLET_ATTRIBUTES)
def test_a_tasklet_has_the_attribute(name):
    assert hasattr(stackless.tasklet, name)
    getattr(stackless.current, name)


@pytest.mark.parametrize("name", CHANNEL_METHODS)
def test_a_channel_has_the_method(name):
    assert callable(getattr(stackless.channel, name))


@pytest.mark.parametrize("name", CHANNEL_ATTRIBUTES)
def test_a_channel_has_the_attribute(name):
    assert hasattr(stackless.channel(), name)


@pytest.mark.parametrize("name", TYPES)
def test_the_module_has_the_type(name):
    assert isinstance(getattr(stackless, name), type)


def test_a_star_import_gives_the_documented_names_and_none_that_is_computed():
    names = {}
    exec("from roamlet.stackless import *", names)
    undocumented = {"pickle_flags", "pickle_flags_default"}
    assert {*TYPES, *FUNCTIONS, "pickle_with_tracing_state", "stackless"} - undocumented <= set(names)
    assert set(names) & set(LIVE) == {"pickle_with_tracing_state"}


def test_tasklet_exit_is_among_the_builtins():
    assert issubclass(builtins.TaskletExit, SystemExit)

    def ends():
        raise builtins.TaskletExit

    task = stackless.tasklet(ends)()
    stackless.run()
    assert not task.alive


def test_the_module_contains_itself_and_can_be_pickled_and_reloaded():
    assert isinstance(stackless, ModuleType)
    assert stackless.stackless is stackless
    assert pickle.loads(pickle.dumps(stackless)) is stackless
    assert importlib.reload(stackless) is stackless is sys.modules["roamlet.stackless"]
    assert stackless.main is stackless.getmain()


def test_current_main_and_runcount_are_computed_when_they_are_read():
    seen = []
    task = stackless.tasklet(lambda: seen.append((stackless.current, stackless.main, stackless.runcount)))()
    assert stackless.runcount == 2
    task.run()
    assert seen == [(task, stackless.getmain(), 2)]
    assert (stackless.current, stackless.main, stackless.runcount) == (stackless.getmain(), stackless.getmain(), 1)


@pytest.mark.parametrize("name", ["current", "main", "runcount", "debug", "uncollectables"])
def test_a_computed_attribute_cannot_be_set(name):
    with pytest.raises(AttributeError):
        setattr(stackless, name, None)


def test_run_returns_when_the_queue_is_empty_though_tasklets_are_blocked():
    results = stackless.channel()
    waiting = stackless.tasklet(results.receive)()
    stackless.run()
    assert waiting.blocked
    assert stackless.getuncollectables() == stackless.uncollectables == [waiting]
    waiting.kill()
    assert stackless.uncollectables == []


@pytest.mark.parametrize("flag", [None, 0, 1, True])
def test_soft_switching_is_off_and_stays_off(flag):
    assert stackless.enable_softswitch(flag) is False
    assert stackless.enable_softswitch(None) is False


@pytest.fixture
def flags():
    yield
    stackless.pickle_flags(0)
    stackless.pickle_flags_default(0)


def in_a_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.usefixtures("flags")
def test_pickle_flags_belong_to_a_thread_and_their_default_to_the_process():
    assert [getattr(stackless, name) for name in FLAGS] == [1, 2, 4]
    assert stackless.pickle_flags(5) == 0
    assert stackless.pickle_flags(2, 6) == 5
    assert stackless.pickle_flags() == 3
    assert in_a_thread(stackless.pickle_flags) == 0
    assert stackless.pickle_flags_default(4) == 0
    assert stackless.pickle_flags_default() == 4
    assert stackless.pickle_flags() == 3
    assert in_a_thread(stackless.pickle_flags) == 4


@pytest.mark.parametrize("function", [stackless.pickle_flags, stackless.pickle_flags_default])
@pytest.mark.parametrize("arguments", [(-2,), (8,), (9, 8)])
def test_an_undefined_pickle_flag_is_refused(function, arguments):
    with pytest.raises(ValueError, match="you must not set an undefined pickle-flag"):
        function(*arguments)
    assert function() == 0


@pytest.mark.usefixtures("flags")
def test_pickle_with_tracing_state_can_be_set():
    assert stackless.pickle_with_tracing_state is False
    stackless.pickle_with_tracing_state = 1
    assert stackless.pickle_with_tracing_state is True
    assert (stackless.pickle_flags(), stackless.pickle_flags_default()) == (1, 1)
    stackless.pickle_with_tracing_state = False
    assert (stackless.pickle_flags(), stackless.pickle_flags_default()) == (0, 0)


# ---- what the names do, as Stackless's manual says ----


def counting():
    number = 0
    while True:
        number += 1


def test_run_with_a_timeout_returns_the_interrupted_tasklet_which_can_be_inserted_again():
    task = stackless.tasklet(counting)()
    for _ in range(3):
        assert stackless.run(1000) is task
        assert (task.paused, stackless.runcount) == (True, 1)
        task.insert()
    task.kill()
    assert stackless.run(1000) is None


def test_run_with_a_soft_timeout_returns_none_and_leaves_the_tasklet_in_the_queue():
    def polite():
        while True:
            for _ in range(200):
                pass
            stackless.schedule()

    task = stackless.tasklet(polite)()
    assert stackless.run(100, soft=True) is None
    assert task.scheduled
    task.kill()


def test_run_takes_the_arguments_of_stackless_in_its_order():
    assert stackless.run(0, False, False, False, False) is None
    assert stackless.run(timeout=0, threadblock=False, soft=False, ignore_nesting=False, totaltimeout=False) is None
    with pytest.raises(TypeError, match="at most 5 arguments"):
        stackless.run(0, 0, 0, 0, 0, 0)


def test_threads_and_their_tasklets_can_be_looked_at():
    assert stackless.threads == stackless.getthreads()
    assert stackless.threads[0] == threading.get_ident()
    task = stackless.tasklet(int)()
    assert stackless.get_thread_info(stackless.threads[0]) == (stackless.main, stackless.current, 2)
    assert stackless.get_thread_info() == (stackless.main, stackless.current, 2)
    task.kill()
    assert stackless.getcurrentid() == threading.get_ident()


def test_callbacks_see_switches_and_channel_operations():
    switches, operations = [], []
    channel = stackless.channel()

    def on_channel(channel, tasklet, sending, willblock):
        operations.append((channel, tasklet, sending, willblock))

    def on_switch(previous, following):
        switches.append((previous, following))

    receiver = stackless.tasklet(channel.receive)()
    assert stackless.set_channel_callback(on_channel) is None
    assert stackless.set_schedule_callback(on_switch) is None
    try:
        stackless.run()
        channel.send(1)
        assert stackless.get_channel_callback() is on_channel and stackless.get_schedule_callback() is on_switch
    finally:
        assert stackless.set_channel_callback(None) is on_channel
        assert stackless.set_schedule_callback(None) is on_switch
    assert operations == [(channel, receiver, 0, 1), (channel, stackless.main, 1, 0)]
    assert switches[0] == (stackless.main, receiver)


def test_an_error_handler_gets_what_a_tasklet_does_not_catch():
    handled = []
    stackless.set_error_handler(
        lambda kind, value, traceback: handled.append((kind, str(value), traceback is not None))
    )
    try:
        stackless.tasklet(int)("no number")
        stackless.run()
    finally:
        stackless.set_error_handler(None)
    assert handled == [(ValueError, "invalid literal for int() with base 10: 'no number'", False)]


def test_a_switch_trap_forbids_to_switch():
    task = stackless.tasklet(int)()
    assert stackless.switch_trap(1) == 0
    try:
        with pytest.raises(RuntimeError, match="switch_trap"):
            stackless.schedule()
    finally:
        assert stackless.switch_trap(-1) == 1
    stackless.run()
    assert not task.alive


def test_a_block_trap_forbids_to_block():
    stackless.current.block_trap = True
    try:
        with pytest.raises(RuntimeError):
            stackless.channel().receive()
    finally:
        stackless.current.block_trap = False


def test_atomic_and_set_atomic_agree():
    assert stackless.current.set_atomic(True) is False
    assert stackless.current.set_atomic(False) is True
    with stackless.atomic():
        assert stackless.current.atomic
    assert not stackless.current.atomic


def test_tempval_is_what_schedule_remove_returns_as_the_manual_shows():
    waiting, results = [], []

    def wait_for_result():
        waiting.append(stackless.current)
        return stackless.schedule_remove()

    stackless.tasklet(lambda: results.append(wait_for_result()))()
    stackless.run()
    for task in waiting:
        task.tempval = "the result"
        task.insert()
    stackless.run()
    assert results == ["the result"]
