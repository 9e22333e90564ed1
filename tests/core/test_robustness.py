"""What breaks naive stack switching: tracing, recursion in C, the collector, destructors, big stacks, trashcans."""

import ctypes
import ctypes.util
import gc
import json
import platform
import re
import sys
import weakref

import pytest

import roamlet
from roamlet import core
from tests.core._objects import Dropping
from tests.core._scripts import output_of, run_script

# ---- tracing, profiling, monitoring ----


def steps(count=5):
    value = 0
    for _ in range(count):
        roamlet.schedule()
        value += 1
    return value


@pytest.fixture
def tracing():
    """Restore whatever traces the test run itself."""
    before = sys.gettrace(), sys.getprofile()
    yield
    sys.settrace(before[0])
    sys.setprofile(before[1])


def test_settrace_sees_each_line_once_and_matching_calls_and_returns(tracing):
    events = []

    def trace(frame, event, argument):
        if frame.f_code is steps.__code__:
            events.append(event)
        return trace

    for _ in range(3):
        roamlet.tasklet(steps)()
    sys.settrace(trace)
    roamlet.run()
    sys.settrace(None)
    assert (events.count("call"), events.count("return"), events.count("exception")) == (3, 3, 0)
    assert events.count("line") == 3 * (1 + 5 * 3 + 1 + 1)


def test_setprofile_sees_matching_calls_and_returns(tracing):
    events = []

    def profile(frame, event, argument):
        if frame.f_code is steps.__code__ and event in ("call", "return"):
            events.append(event)

    for _ in range(3):
        roamlet.tasklet(steps)()
    sys.setprofile(profile)
    roamlet.run()
    sys.setprofile(None)
    assert (events.count("call"), events.count("return")) == (3, 3)


def test_a_trace_function_may_itself_switch(tracing):
    log = []

    def trace(frame, event, argument):
        if event == "line" and frame.f_code is lines.__code__:
            roamlet.schedule()
        return trace

    def lines(name):
        log.append((name, 1))
        log.append((name, 2))
        log.append((name, 3))

    for name in "abc":
        roamlet.tasklet(lines)(name)
    sys.settrace(trace)
    roamlet.run()
    sys.settrace(None)
    assert sorted(log) == [(name, number) for name in "abc" for number in (1, 2, 3)]


def test_tracing_switched_on_and_off_while_tasklets_are_suspended_below_c_calls(tracing):
    """Whether a frame is traced stands on the C stack in 3.11, which must not be written to while another's is there."""
    calls, channel, received = [], roamlet.channel(), []

    def trace(frame, event, argument):
        if event == "call":
            calls.append(frame.f_code.co_name)
        return trace

    def after():
        received.append(channel.receive())

    def nested(depth):
        if depth:
            return next(map(lambda _: nested(depth - 1), (1,)))
        channel.receive()
        return after()

    for depth in range(5):
        roamlet.tasklet(nested)(depth)
    roamlet.run()

    def switches_on_and_off():
        sys.settrace(trace)
        channel.send(1)
        channel.send(2)
        sys.settrace(None)
        for number in range(3, 11):
            channel.send(number)

    roamlet.tasklet(switches_on_and_off)()
    roamlet.run()
    del nested
    assert calls == ["after", "after"]
    assert (sorted(received), channel.balance) == ([6, 7, 8, 9, 10], 0)


if hasattr(sys, "monitoring"):  # new in 3.12

    def test_monitoring_counts_every_line_of_every_tasklet():
        monitoring, lines = sys.monitoring, []

        def line(code, number):
            if code is steps.__code__:
                lines.append(number)

        monitoring.use_tool_id(4, "roamlet tests")
        monitoring.register_callback(4, monitoring.events.LINE, line)
        for _ in range(3):
            roamlet.tasklet(steps)()
        monitoring.set_events(4, monitoring.events.LINE)
        roamlet.run()
        monitoring.set_events(4, 0)
        monitoring.register_callback(4, monitoring.events.LINE, None)
        monitoring.free_tool_id(4)
        assert len(lines) >= 3 * (1 + 5 * 2 + 1 + 1)
        assert len(lines) % 3 == 0


# ---- recursion ----


def test_python_recursion_ends_in_recursion_error_in_every_tasklet():
    reached = []

    def recurse(depth):
        try:
            return recurse(depth + 1)
        except RecursionError:
            return depth

    def function():
        for _ in range(3):
            roamlet.schedule()
            reached.append(recurse(0))

    for _ in range(4):
        roamlet.tasklet(function)()
    roamlet.run()
    del recurse
    assert len(reached) == 12 and min(reached) > sys.getrecursionlimit() - 60


def test_setrecursionlimit_changes_while_tasklets_are_suspended():
    printed = output_of("""
        import sys, roamlet
        depths = []
        def recurse(depth):
            try:
                return recurse(depth + 1)
            except RecursionError:
                return depth
        def deep(depth, function):
            return function() if depth == 0 else deep(depth - 1, function)
        def function(limit):
            roamlet.schedule()
            sys.setrecursionlimit(limit)
            roamlet.schedule()
            depths.append(recurse(0))
        for limit in (300, 500, 2000):
            roamlet.tasklet(deep)(50, lambda limit=limit: function(limit))
        roamlet.run()
        print(all(1800 < depth < 2000 for depth in depths), len(depths))
    """)
    assert printed == "True 3"


C_RECURSION = {
    "nested map": """
        def recurse(depth):
            list(map(recurse, (depth + 1,)))
        body = lambda: recurse(0)
    """,
    "repr of nested lists": """
        value = []
        for _ in range(100_000):
            value = [value]
        body = lambda: repr(value)
    """,
    "compile": """
        body = lambda: compile("-" * 100_000 + "1", "x", "eval")
    """,
    "nested sort": """
        class K:
            def __init__(self, depth):
                sorted([1, 2], key=lambda x: K(depth + 1) and x)
        body = lambda: K(0)
    """,
    "nested comparison": """
        import sys
        a, b = [], []
        for _ in range(1_000_000 if sys.version_info >= (3, 14) else 50_000):  # from 3.14 on as deep as the C stack allows
            a, b = [a], [b]
        body = lambda: a == b
    """,
}


@pytest.mark.parametrize("kind", C_RECURSION)
def test_recursion_in_c_ends_in_an_error_and_not_in_a_crash(kind):
    printed = output_of(f"""
        import roamlet
        import textwrap
        exec(textwrap.dedent({C_RECURSION[kind]!r}))
        ended = []
        def function():
            roamlet.schedule()
            try:
                body()
                ended.append("no error")
            except (RecursionError, MemoryError) as error:
                ended.append(type(error).__name__)
            roamlet.schedule()
        for _ in range(3):
            roamlet.tasklet(function)()
        roamlet.run()
        print(*ended)
    """)
    assert len(printed.split()) == 3
    assert set(printed.split()) <= {"RecursionError", "MemoryError"}


def test_library_calls_with_large_c_frames_work_in_tasklets():
    printed = output_of("""
        import ast, decimal, hashlib, inspect, json, pickle, re, socket, sqlite3, ssl, roamlet, xml.dom.minidom, zlib
        def function(results):
            for _ in range(2):
                json.dumps([[[1]] * 10] * 10)
                roamlet.schedule()
                re.sub(r"(a|b)*c", lambda match: roamlet.schedule("x"), "ab" * 1000 + "c")
                str(decimal.Decimal(2) ** 1000)
                with sqlite3.connect(":memory:") as database:
                    database.create_function("yield_", 0, lambda: roamlet.schedule(1))
                    database.execute("create table t(a)")
                    database.execute("insert into t values (yield_())")
                database.close()
                zlib.decompress(zlib.compress(b"x" * 100_000))
                ssl.create_default_context()
                "%.200f" % 1e300
                xml.dom.minidom.parseString("<a><b/></a>")
                ast.parse(inspect.getsource(inspect))
                pickle.loads(pickle.dumps({"a": [1] * 100}))
            results.append(1)
        results = []
        for _ in range(3):
            roamlet.tasklet(function)(results)
        roamlet.run()
        print(len(results))
    """)
    assert printed == "3"


# ---- stacks of changing size ----


def nested(depth, function):
    return function() if depth == 0 else next(map(lambda _: nested(depth - 1, function), (1,)))


def test_big_slices_then_small_then_big_again():
    log = []

    def function(name):
        for depth in (0, 60, 0, 1, 120, 3, 0, 60):
            nested(depth, lambda: [roamlet.schedule() for _ in range(3)])
            log.append((name, depth))

    for name in range(10):
        roamlet.tasklet(function)(name)
    roamlet.run()
    assert len(log) == 80


def test_switches_below_many_kinds_of_c_calls():
    """Slices of many sizes and layouts on top of each other: a wrong byte shows as a wrong value or a crash."""

    class Strange:
        def __init__(self, function):
            self.function = function

        def __repr__(self):
            self.function()
            return "strange"

        def __eq__(self, other):
            return bool(self.function())

        __hash__ = None

        @property
        def attribute(self):
            return self.function()

    ways = [
        lambda function: next(map(lambda _: function(), (1,))),
        lambda function: sorted([1], key=lambda _: function() or 0),
        lambda function: max([1], key=lambda _: function() or 0),
        lambda function: re.sub("a", lambda _: str(function()), "a"),
        lambda function: json.dumps(object(), default=lambda _: function() and 1),
        lambda function: repr([Strange(function)]),
        lambda function: [Strange(function)] == [3],
        lambda function: Strange(function).attribute,
        lambda function: list(zip(map(lambda _: function(), (1,)), (2,), strict=True)),
        lambda function: [*(function() for _ in range(1))],
    ]
    counts = [0] * 60

    def work(number):
        seed = number

        def inner(depth):
            nonlocal seed
            seed = (seed * 1103515245 + 12345) % 2**31
            if depth == 0:
                counts[number] += 1
                roamlet.schedule()
                return 0
            return ways[seed // 65536 % len(ways)](lambda: inner(depth - 1))

        for round_number in range(8):
            inner((number + round_number) % 7)
            roamlet.schedule()

    for number in range(60):
        roamlet.tasklet(work)(number)
    roamlet.run()
    assert counts == [8] * 60


def test_sorting_while_the_comparison_switches():
    class Item:
        def __init__(self, value):
            self.value = value

        def __lt__(self, other):
            roamlet.schedule()
            return self.value < other.value

    results = []

    def function(seed):
        items = [Item((number * 7919 + seed) % 101) for number in range(50)]
        items.sort()
        results.append([item.value for item in items] == sorted(item.value for item in items))

    for seed in range(5):
        roamlet.tasklet(function)(seed)
    roamlet.run()
    assert results == [True] * 5


def test_the_rounding_mode_of_floating_point_belongs_to_the_tasklet():
    upward, nearest = {"x86_64": 0x800, "aarch64": 0x400000}.get(platform.machine(), -1), 0
    try:
        libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    except OSError:
        pytest.skip("no libm to set the rounding mode with")
    if libm.fesetround(upward) != 0:
        pytest.skip("what means upward on this machine is not known")
    libm.fesetround(nearest)
    seen = []

    def function(mode):
        libm.fesetround(mode)
        for _ in range(5):
            roamlet.schedule()
            seen.append(libm.fegetround() == mode)
        libm.fesetround(nearest)

    for mode in (upward, nearest, upward, nearest):
        roamlet.tasklet(function)(mode)
    roamlet.run()
    if core.backend == "greenlet" and not all(seen):
        pytest.skip("this greenlet does not keep the control word")
    assert seen == [True] * 20
    assert libm.fegetround() == nearest


# ---- destructors, weak references, the collector ----


def test_a_destructor_may_switch():
    log = []

    def dying():
        log.append("begin")
        roamlet.schedule()
        log.append("end")

    def function():
        value = Dropping(dying)
        del value
        log.append("after")

    for _ in range(3):
        roamlet.tasklet(function)()
    roamlet.run()
    assert log == ["begin"] * 3 + ["end", "after"] * 3


def test_a_destructor_may_send_and_receive():
    channel, got = roamlet.channel(), []

    def function():
        Dropping(lambda: channel.send("from __del__"))

    roamlet.tasklet(lambda: got.extend(channel.receive() for _ in range(3)))()
    for _ in range(3):
        roamlet.tasklet(function)()
    roamlet.run()
    assert got == ["from __del__"] * 3


def test_a_weak_reference_callback_may_switch():
    log = []

    class Value:
        pass

    def function(name):
        value = Value()
        ref = weakref.ref(value, lambda _: (log.append((name, "begin")), roamlet.schedule(), log.append((name, "end"))))
        del value
        log.append((name, ref() is None))

    for name in "ab":
        roamlet.tasklet(function)(name)
    roamlet.run()
    assert log == [("a", "begin"), ("b", "begin"), ("a", "end"), ("a", True), ("b", "end"), ("b", True)]


@pytest.mark.parametrize("call", ["schedule", "send", "receive", "kill", "start"])
def test_what_a_dying_tasklet_holds_may_switch_while_it_dies(call):
    channel, log, victims = roamlet.channel(), [], []
    calls = {
        "schedule": roamlet.schedule,
        "send": lambda: channel.send("dying"),
        "receive": lambda: log.append(channel.receive()),
        "kill": lambda: victims.pop().kill(),
        "start": lambda: roamlet.tasklet(log.append)("started"),
    }

    def dying():
        calls[call]()
        log.append("dropped")

    def function(value):
        return Dropping(dying)

    if call == "kill":
        victims.extend(roamlet.tasklet(roamlet.schedule_remove)() for _ in range(12))
        roamlet.run()
    for _ in range(3):
        roamlet.tasklet(function)(Dropping(dying))
    if call == "send":
        roamlet.tasklet(lambda: [channel.receive() for _ in range(6)])()
    if call == "receive":
        roamlet.tasklet(channel.send_sequence)(range(6))
    roamlet.run()
    for victim in victims:
        victim.kill()
    assert log.count("dropped") == 6
    assert (channel.balance, roamlet.getruncount()) == (0, 1)


def test_a_weak_reference_to_a_tasklet_whose_callback_switches_when_it_dies():
    log = []

    def function():
        roamlet.schedule()

    refs = []
    for _ in range(5):
        tasklet = roamlet.tasklet(function)()
        refs.append(weakref.ref(tasklet, lambda _: (roamlet.schedule(), log.append("callback"))))
    del tasklet
    roamlet.run()
    assert log == ["callback"] * 5


def test_a_long_chain_of_objects_freed_by_the_trashcan_with_switches_inside():
    ended = []

    def function():
        chain = None
        for number in range(3000):
            chain = (chain, Dropping(roamlet.schedule) if number % 100 == 0 else None)
        del chain
        ended.append(True)

    for _ in range(4):
        roamlet.tasklet(function)()
    roamlet.run()
    assert ended == [True] * 4


def test_the_collector_runs_as_often_as_it_can_without_harm():
    printed = output_of(
        """
        import gc, roamlet
        from roamlet import core
        gc.enable()
        gc.set_threshold(5, 1, 1)
        channel, whole = roamlet.channel(), []
        def producer():
            for number in range(3000):
                channel.send({"a": [number]})
        def consumer():
            for number in range(3000):
                value = channel.receive()
                whole.append(value["a"] == [number])
                value["self"] = value
                [{} for _ in range(10)]
        def loose():
            tasklet = roamlet.tasklet(roamlet.schedule_remove)()
            roamlet.schedule()
            cycle = [tasklet]
            cycle.append(cycle)
        roamlet.tasklet(consumer)()
        roamlet.tasklet(producer)()
        for _ in range(100):
            roamlet.tasklet(loose)()
        roamlet.run()
        gc.collect()
        print(whole == [True] * 3000, core.started(), roamlet.getruncount(), sum(s["collections"] for s in gc.get_stats()) > 30)
        """,
        env={"PYTHONMALLOC": "debug"},
    )
    assert printed == "True [] 1 True"


def test_paused_tasklets_in_cycles_are_ended_by_the_collector():
    log = []

    def function(cell):
        try:
            roamlet.schedule_remove()
        finally:
            log.append("finally")

    for _ in range(10):
        cell = []
        tasklet = roamlet.tasklet(function, (weakref.ref(roamlet.getmain()),))
        cell.append(tasklet)
        tasklet.run()
        cell.append(cell)
    del cell, tasklet
    gc.collect()
    assert log == ["finally"] * 10
    assert core.started() == []


def test_unstarted_tasklets_in_cycles_are_freed_by_the_collector():
    gone = []
    for _ in range(10):
        cell = []
        tasklet = roamlet.tasklet(len, (cell,))
        cell.append(tasklet)
        gone.append(weakref.ref(tasklet))
    del cell, tasklet
    gc.collect()
    assert [ref() for ref in gone] == [None] * 10


def test_a_destructor_run_by_the_collector_may_switch():
    log = []

    class Value:
        def __init__(self):
            self.me = self

        def __del__(self):
            roamlet.schedule()
            log.append("collected")

    def function():
        Value()
        gc.collect()

    for _ in range(3):
        roamlet.tasklet(function)()
    roamlet.run()
    gc.collect()
    assert log == ["collected"] * 3


# ---- debuggers ----


def test_faulthandler_dumps_the_running_tasklets_stack():
    done = run_script("""
        import faulthandler, roamlet
        def inside_the_tasklet():
            roamlet.schedule()
            faulthandler.dump_traceback()
        for _ in range(2):
            roamlet.tasklet(inside_the_tasklet)()
        roamlet.run()
    """)
    assert done.returncode == 0
    assert done.stderr.count("in inside_the_tasklet") == 2
    assert "in <module>" not in done.stderr


def test_sys_current_frames_in_another_thread_sees_the_running_tasklet():
    printed = output_of("""
        import sys, threading, roamlet
        seen, main, go, done = [], threading.get_ident(), threading.Event(), threading.Event()
        def look():
            go.wait()
            frame = sys._current_frames()[main]
            while frame is not None:
                seen.append(frame.f_code.co_name)
                frame = frame.f_back
            done.set()
        thread = threading.Thread(target=look)
        thread.start()
        def inside_the_tasklet():
            roamlet.schedule()
            go.set()
            done.wait()
        for _ in range(2):
            roamlet.tasklet(inside_the_tasklet)()
        roamlet.run()
        thread.join()
        print(seen[-1])
    """)
    assert printed == "inside_the_tasklet"
