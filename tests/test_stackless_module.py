"""weft.stackless has each name of Stackless's module, and each does what Stackless says."""

import builtins
import importlib
import pickle
import sys
import threading
from types import ModuleType

import pytest

from weft import stackless

FUNCTIONS = [
    "enable_softswitch",
    "getcurrent",
    "getdebug",
    "getmain",
    "getruncount",
    "getuncollectables",
    "pickle_flags",
    "pickle_flags_default",
    "run",
    "schedule",
    "schedule_remove",
]
TYPES = ["channel", "tasklet"]
LIVE = ["current", "debug", "main", "pickle_with_tracing_state", "runcount", "uncollectables"]
FLAGS = ["PICKLEFLAGS_PRESERVE_TRACING_STATE", "PICKLEFLAGS_PRESERVE_AG_FINALIZER", "PICKLEFLAGS_RESET_AG_FINALIZER"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_module_has_the_function(name):
    assert callable(getattr(stackless, name))


@pytest.mark.parametrize("name", TYPES)
def test_the_module_has_the_type(name):
    assert isinstance(getattr(stackless, name), type)


def test_a_star_import_gives_the_documented_names_and_none_that_is_computed():
    names = {}
    exec("from weft.stackless import *", names)
    assert {*TYPES, "getcurrent", "run", "schedule", "stackless"} <= set(names)
    assert set(names) & {"current", "main", "runcount"} == set()


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
    assert importlib.reload(stackless) is stackless is sys.modules["weft.stackless"]
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
