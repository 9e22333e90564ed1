"""Calls into a context: values, errors, many at once."""

import asyncio
import collections
import functools
import gc
import math
import os
import pickle
import platform
import signal
import sys
import threading
import time
import weakref

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.testing import run_until_blocked
from tests.remote.conftest import targets
from tests.remote.inside import link_of
from tests.remote.interpreters import others
from tests.remote.raising import raises
from tests.remote.stopping import stop

PLAIN = [
    None,
    True,
    False,
    0,
    -1,
    2**31,
    -(2**63),
    10**40,
    -(10**40),
    1.5,
    math.inf,
    1 + 2j,
    "",
    "plain",
    "ünïcødé \N{SNOWMAN} \N{GRINNING FACE}",
    b"\xff\x00\xfe",
    [],
    [1, [2, [3]]],
    (),
    (1, "two", (3.0,)),
    {},
    {"a": 1, 2: ["b"], (1, 2): None},
    set(),
    {1, 2},
    frozenset({"a"}),
    list(range(100)),
    [0.5] * 20,
    ["a"] * 20,
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_go_there_and_come_back_as_they_were(shared, value):
    result = shared.call(roamlet_sent.echo, (value,))
    assert result == value
    assert type(result) is type(value)


def test_the_same_types_are_there_as_here(shared):
    names = {"int": 1, "list": [], "tuple": (), "dict": {}, "set": set(), "frozenset": frozenset(), "float": 1.0}
    assert {name: shared.call(roamlet_sent.type_name, (value,)) for name, value in names.items()} == {
        n: n for n in names
    }


def test_bytes_come_back_as_bytes_except_text_from_python_2(shared):
    result = shared.call(roamlet_sent.echo, (b"abc",))
    assert result == ("abc" if shared.facts.python < (3,) else b"abc")


def test_a_function_of_the_standard_library_needs_nothing_sent(target):
    with target.open() as context:
        assert context.call(platform.python_version) == context.facts.version
        assert context.stats.modules == 0


def test_positional_and_keyword_arguments_arrive(shared):
    assert shared.call(roamlet_sent.add, (1,), {"b": 2}) == 3
    assert shared.call(roamlet_sent.add, [1, 5]) == 6


def test_static_and_class_methods_are_found_by_their_class(shared):
    assert shared.call(roamlet_sent.Shelf.size) == 3
    assert shared.call(roamlet_sent.Shelf.kind) == "Shelf"


def test_facts_tell_which_python_answers(shared):
    assert tuple(shared.call(roamlet_sent.version)) == shared.facts.python[:2]
    assert shared.call(os.getpid) == shared.facts.pid != os.getpid()
    assert shared.facts.platform.startswith("linux")
    assert {"os", "sys", "json"} <= shared.facts.packages


def test_a_builtin_exception_arrives_as_the_same_type_with_the_remote_traceback(shared):
    with raises(ValueError, match="not good") as caught:
        shared.call(roamlet_sent.raise_value_error)
    assert type(caught.value) is ValueError
    assert caught.value.args == ("not good", 17)
    note = "\n".join(caught.value.__notes__)
    assert f"In {shared.name}, called as roamlet_sent.raise_value_error:" in note
    assert "roamlet_sent.py" in note and "in raise_value_error" in note


def test_a_key_error_keeps_its_key(shared):
    with raises(KeyError) as caught:
        shared.call(roamlet_sent.raise_key_error)
    assert caught.value.args == ("no such key",)


def test_an_os_error_is_its_subclass_with_its_number_and_file(shared):
    with raises(FileNotFoundError) as caught:
        shared.call(roamlet_sent.open_missing_file)
    assert caught.value.errno == 2
    assert caught.value.filename == "/no/such/file/anywhere"


def test_a_unicode_error_keeps_what_it_was_about(shared):
    with raises(UnicodeDecodeError) as caught:
        shared.call(roamlet_sent.decode_nonsense)
    assert (caught.value.start, caught.value.end) == (0, 1)
    assert "utf" in str(caught.value)


def test_an_exception_of_their_own_arrives_as_remote_error_with_its_type_by_name(shared):
    with raises(remote.RemoteError, match="only known on the target") as caught:
        shared.call(roamlet_sent.raise_own_error)
    assert type(caught.value) is remote.RemoteError
    assert caught.value.type_name == "roamlet_sent.OwnError"
    assert "in raise_own_error" in caught.value.traceback
    assert (caught.value.context, caught.value.function) == (shared.name, "roamlet_sent.raise_own_error")


def test_an_interrupt_on_the_target_does_not_interrupt_here(shared):
    with raises(remote.RemoteError, match="KeyboardInterrupt"):
        shared.call(roamlet_sent.raise_interrupt)
    assert shared.call(roamlet_sent.add, (1, 1)) == 2


def test_the_cause_of_an_exception_is_in_the_remote_traceback(shared):
    with raises(ValueError, match="while looking") as caught:
        shared.call(roamlet_sent.raise_inside_cause)
    if shared.facts.python >= (3,):
        assert "KeyError: 'no such key'" in caught.value.__notes__[0]
    assert "ValueError: while looking" in caught.value.__notes__[0]


def test_an_exception_leaves_no_reference_cycle(shared):
    def caught():
        try:
            shared.call(roamlet_sent.raise_own_error)
        except remote.RemoteError as error:
            return weakref.ref(error)

    assert not gc.isenabled()
    assert caught()() is None


def test_sys_exit_is_an_error_of_the_call_and_the_context_lives_on(shared):
    with raises(
        remote.FunctionExited, match=r"roamlet_sent.exit_with called sys.exit\(5\).*The context lives on"
    ) as caught:
        shared.call(roamlet_sent.exit_with, (5,))
    assert caught.value.code == 5
    assert shared.name in str(caught.value)
    assert shared.call(roamlet_sent.add, (2, 2)) == 4


@pytest.mark.parametrize(
    ("function", "path"), [(roamlet_sent.generator_inside, r"result['rows'][2]"), (roamlet_sent.a_lock, "result")]
)
def test_a_result_that_cannot_travel_is_named_by_its_path(shared, function, path):
    with raises(remote.CannotTravel, match="what it returned cannot travel") as caught:
        shared.call(function)
    assert path in str(caught.value)
    assert caught.value.path == path
    assert f"roamlet_sent.{function.__name__}" in str(caught.value) and shared.name in str(caught.value)
    assert shared.call(roamlet_sent.add, (2, 2)) == 4


def test_an_argument_that_cannot_travel_is_named_by_its_path_and_nothing_is_sent(shared):
    before = shared.stats
    with raises(remote.CannotTravel, match=r"args\[1\]\['rows'\]\[2\].*generator") as caught:
        shared.call(roamlet_sent.echo, (1, {"rows": [1, 2, (n for n in ())]}))
    assert caught.value.path == "args[1]['rows'][2]"
    with raises(remote.CannotTravel, match=r"kwargs\['b'\]"):
        shared.call(roamlet_sent.add, (1,), {"b": object()})
    named = collections.namedtuple("Point", "x y")
    with raises(remote.CannotTravel, match=r"args\[0\].*Point"):
        shared.call(roamlet_sent.echo, (named(1, 2),))
    assert shared.stats == before


# Between equal versions they travel as code: see test_by_value.py.
@pytest.mark.parametrize("shared", targets(others()), indirect=True)
def test_functions_without_a_name_on_the_target_are_refused_before_anything_is_sent(shared):
    def inner():
        pass

    before = shared.stats
    here = "{}.{}".format(*sys.version_info)
    for function, says in ((lambda: 1, "lambda"), (inner, "inside of another function")):
        with raises(
            remote.CannotTravel, match=f"{says}.*As code it would travel to Python {here} alone, and"
        ) as caught:
            shared.call(function)
        assert f"was not called in {shared.name!r}: function cannot travel" in str(caught.value)
        assert caught.value.path == "function"
    with raises(TypeError, match="cannot be called"):
        shared.call(3)
    assert shared.stats == before


async def coroutine(value):
    return value


async def generator():
    yield 1


def to_its_end(function):
    @functools.wraps(function)
    def run(*args):
        return asyncio.run(function(*args))

    return run


@to_its_end
async def decorated(value):
    return value


def test_an_async_def_is_refused_with_what_to_do_instead():
    async def inside():
        return 1

    class Holder:
        async def method(self):
            return 1

    with remote.local() as context:
        for function in (coroutine, inside, Holder().method, functools.partial(coroutine, 1)):
            with raises(
                TypeError, match=r"is an async def: on the target, nothing would run.*plain function.*asyncio\.run\("
            ):
                context.call(function)
        with raises(TypeError, match="generator is an async def.*a loop over it inside of a plain function"):
            next(context.iterate(generator))
        assert context.stats.calls == 0
        assert context.call(decorated, (3,)) == 3


def test_a_context_and_what_belongs_to_it_stay_here_and_the_error_says_what_to_do():
    with remote.local() as context, remote.local(name="other") as other:
        with raises(
            remote.CannotTravel, match=r"args\[0\] cannot travel: it is a Context; contexts stay in the process"
        ):
            context.call(roamlet_sent.echo, (other,))
        with raises(
            remote.CannotTravel, match=r"args\[0\]\[0\]\['to'\] cannot travel: .*call it from here, or .* a channel"
        ):
            context.call(roamlet_sent.echo, ([{"to": other}],))
        with raises(remote.CannotTravel, match="'other'|contexts stay in the process"):
            context.call(lambda: other.call(len, ("",)))
        call = context.spawn(roamlet_sent.nothing)
        with raises(
            remote.CannotTravel, match="RemoteCall; calls stay with the process that waits for them: send what join"
        ):
            context.call(roamlet_sent.echo, (call,))
        call.join()
        with raises(TypeError, match="'other'.* cannot be pickled: contexts stay in the process that opened them"):
            pickle.dumps(other)


def test_wrong_kinds_of_arguments_are_refused_with_the_right_call_shown(shared):
    with raises(TypeError, match=r"args must be a tuple or a list.*context\.call\(roamlet_sent\.echo, \(value,\)\)"):
        shared.call(roamlet_sent.echo, "abc")
    with raises(TypeError, match="kwargs must be a dict whose keys are str"):
        shared.call(roamlet_sent.echo, (), {1: 2})
    with raises(ValueError, match="timeout"):
        shared.call(roamlet_sent.echo, (1,), timeout=-1)


def test_a_name_that_the_target_lacks_is_an_error_that_names_it(shared, monkeypatch):
    def absent():
        pass

    absent.__module__, absent.__qualname__ = "json", "nobody_wrote_this"
    monkeypatch.setattr("json.nobody_wrote_this", absent, raising=False)
    with raises(remote.FunctionNotFound, match="json.nobody_wrote_this is not there in") as caught:
        shared.call(absent)
    assert shared.name in str(caught.value)


def test_a_module_that_is_nowhere_is_an_error_that_names_it(shared, monkeypatch):
    import types

    ghost = types.ModuleType("roamlet_ghost")
    exec("def haunt(): pass", vars(ghost))
    monkeypatch.setitem(__import__("sys").modules, "roamlet_ghost", ghost)
    with raises(remote.RemoteModuleNotFound, match="roamlet_ghost") as caught:
        shared.call(ghost.haunt)
    assert (caught.value.context, caught.value.function) == (shared.name, "roamlet_ghost.haunt")
    assert shared.name in str(caught.value)
    assert shared.call(roamlet_sent.add, (2, 2)) == 4


def test_what_is_missing_is_named_before_what_a_package_makes_of_it():
    import roamlet_wraps  # not at the top: this file travels as well

    why = (
        r"roamlet_wraps failed there: No module named .*roamlet_nowhere.*\n"
        r"    What became of that: you are in the wrong folder\.\n"
    )
    with remote.local() as context, raises(remote.RemoteModuleNotFound, match=why):
        context.call(roamlet_wraps.never)


def test_calls_made_at_once_from_tasklets_run_at_once(shared, in_tasklets):
    assert in_tasklets(lambda _: shared.call(roamlet_sent.meet, (8,), timeout=30), list(range(8))) == [True] * 8


def test_each_of_many_calls_gets_its_own_answer(shared, in_tasklets):
    assert in_tasklets(lambda n: shared.call(roamlet_sent.echo, (n,)), list(range(300))) == list(range(300))


def test_calls_come_from_any_thread_and_a_busy_thread_stalls_no_other(shared):
    results: dict[int, list[int]] = {}
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            sum(range(1000))

    def work(number):
        results[number] = [shared.call(roamlet_sent.add, (number, n)) for n in range(30)]

    computing = threading.Thread(target=busy)
    computing.start()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    stop.set()
    computing.join()
    assert results == {number: [number + n for n in range(30)] for number in range(4)}


def test_a_thread_that_ends_in_the_middle_of_its_call_stalls_no_other(own_target):
    context = own_target.open()
    error = []

    def work():
        try:
            context.call(roamlet_sent.wait_for_release, timeout=0.05)
        except remote.CallTimeout as timeout:
            error.append(str(timeout))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert len(error) == 1
    assert context.call(roamlet_sent.add, (1, 2)) == 3
    context.call(roamlet_sent.release)


def test_a_call_that_takes_too_long_raises_and_the_context_goes_on(own_target):
    context = own_target.open()
    with raises(
        remote.CallTimeout, match=r"roamlet_sent\.wait_for_release in .* did not answer within 0\.05 seconds"
    ) as caught:
        context.call(roamlet_sent.wait_for_release, timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    context.call(roamlet_sent.release)
    assert context.call(roamlet_sent.wait_for_release) is True  # it is the same process, which has not been harmed


def test_an_error_thrown_into_a_waiting_call_asks_the_target_nothing():
    def waits():
        with raises(ModuleNotFoundError, match="^No module named 'pytest'$") as caught:
            context.call(time.sleep, (60,))
        costs.append(context.stats.calls)
        assert not hasattr(caught.value, "__notes__")

    costs = []
    with remote.local() as context:
        assert "pytest" in context.facts.packages  # the target would be asked for its version
        waiting = roamlet.spawn(waits)
        run_until_blocked()
        waiting.throw(ModuleNotFoundError("No module named 'pytest'"))
        waiting.join()
    assert costs == [1]


def test_a_tasklet_killed_in_its_call_leaves_the_context_usable(own_target):
    context = own_target.open()
    ended = []

    def work():
        try:
            context.call(roamlet_sent.wait_for_release)
        finally:
            ended.append(True)

    tasklet = roamlet.tasklet(work)()
    roamlet.schedule()
    assert tasklet.blocked
    tasklet.kill()
    assert ended == [True]
    context.call(roamlet_sent.release)
    assert context.call(roamlet_sent.add, (1, 1)) == 2


def test_large_values_travel_both_ways_while_small_calls_go_on(own_target, in_tasklets):
    context = own_target.open()
    size = 6_000_000
    data = b"\1" * size

    def one(number):
        if number == 0:
            return context.call(roamlet_sent.size_of, (data,))
        if number == 1:
            return context.call(roamlet_sent.zeros, (size,)).count(b"\0")
        return context.call(roamlet_sent.add, (number, 0))

    assert in_tasklets(one, list(range(20))) == [size, size, *range(2, 20)]


def test_a_child_that_reads_nothing_slows_its_callers_and_no_other_context(own_target, in_tasklets):
    stopped, other = own_target.open(name="stopped"), own_target.open(name="other")
    data = b"\1" * 300_000
    stopped.call(roamlet_sent.size_of, (b"",))
    queued = []

    def work(number):
        if number < 30:
            return stopped.call(roamlet_sent.size_of, (data,))
        answers = [other.call(roamlet_sent.add, (n, 0)) for n in range(50)]
        queued.append(link_of(stopped).sender.queued)
        os.kill(stopped.facts.pid, signal.SIGCONT)
        return answers

    stop(stopped.facts.pid)
    assert in_tasklets(work, list(range(31))) == [300_000] * 30 + [list(range(50))]
    if own_target.way == "local":
        # Of the 9 million bytes, what one pipe's fill may leave of the limit; the others wait with their callers.
        assert 500_000 < queued[0] < 1_500_000


def test_a_call_that_cannot_even_be_sent_in_time_says_so(own_target, in_tasklets):
    context = own_target.open()
    context.call(roamlet_sent.size_of, (b"",))
    data = b"\1" * 6_000_000

    def work(number):
        if number == 0:
            return context.call(roamlet_sent.size_of, (data,))
        if number in (1, 2):  # one whose modules are there, one whose are not known to be
            return context.call(roamlet_sent.size_of if number == 1 else roamlet_sent.echo, (b"1",), timeout=0.1)
        roamlet.sleep(0.3)
        os.kill(context.facts.pid, signal.SIGCONT)
        return None

    stop(context.facts.pid)
    first, second, third, _ = in_tasklets(work, [0, 1, 2, 3])
    assert first == 6_000_000
    assert {type(second), type(third)} == {remote.CallTimeout}
    if own_target.way == "local":
        assert "was not sent within 0.1 seconds" in str(second)
        assert "was not sent within 0.1 seconds" in str(third)
    assert context.call(roamlet_sent.echo, (5,)) == 5
    assert context.stats.modules == 1


def test_a_call_blocks_only_its_own_tasklet(shared):
    ticks = []

    def tick():
        for _ in range(5):
            ticks.append(True)
            roamlet.schedule()

    roamlet.tasklet(tick)()
    shared.call(time.sleep, (0.1,))  # no thread waits for an answer that is there at once
    assert ticks  # how often it ran meanwhile is up to the machine
    roamlet.run()
    assert len(ticks) == 5


def test_the_context_says_what_it_is(shared):
    assert repr(shared).startswith(
        f"<roamlet.remote.Context {shared.name!r}: {shared.facts.implementation} {shared.facts.version} on linux"
    )


@pytest.mark.parametrize("timeout", ["3", [], object()])
def test_a_time_limit_that_is_no_number_is_refused(shared, timeout):
    with pytest.raises(TypeError, match="timeout must be a number of seconds or None, not "):
        shared.call(roamlet_sent.echo, (1,), timeout=timeout)
