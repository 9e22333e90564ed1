"""run(N): a tasklet is interrupted after exactly N bytecode instructions. Slices of time are test_slices' matter."""

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import roamlet
from roamlet import core
from tests.core._scripts import output_of
from tests.core._threads import in_thread
from tests.core._workload import PIECES, everything, go_on, spin

MONITORING = sys.version_info >= (3, 12)


def instructions_of(function: Callable[[], object]) -> int:
    """How many bytecode instructions a call executes, as the interpreter itself tells."""
    total = 0

    if MONITORING:
        events = sys.monitoring.events

        wanted = ("INSTRUCTION", "PY_START", "PY_RESUME")  # RESUME, which begins a frame, has no INSTRUCTION event

        def count(code: object, offset: int) -> None:
            nonlocal total
            total += code is not instructions_of.__code__

        sys.monitoring.use_tool_id(0, "test")
        for event in wanted:
            sys.monitoring.register_callback(0, getattr(events, event), count)
        sys.monitoring.set_events(0, events.INSTRUCTION | events.PY_START | events.PY_RESUME)
        try:
            function()
        finally:
            sys.monitoring.set_events(0, 0)
            for event in wanted:
                sys.monitoring.register_callback(0, getattr(events, event), None)
            sys.monitoring.free_tool_id(0)
    else:

        def trace(frame: Any, event: str, arg: object) -> Any:
            nonlocal total
            frame.f_trace_opcodes = True
            total += event in ("call", "opcode")
            return trace

        sys.settrace(trace)
        try:
            function()
        finally:
            sys.settrace(None)
    return total


# ---- exactness ----


@pytest.mark.parametrize("name", PIECES)
def test_a_budget_of_one_interrupts_before_every_instruction_and_changes_no_result(name):
    expected = PIECES[name](3)
    results = []
    roamlet.tasklet(lambda: results.append(PIECES[name](3)))()
    roamlet.tasklet(lambda: results.append(PIECES[name](3)))()
    assert go_on(1, ignore_nesting=True) > 50
    assert results == [expected, expected]


@pytest.mark.parametrize("name", PIECES)
def test_every_instruction_counts_once(name):
    def function() -> None:
        PIECES[name](5)

    function()
    count = instructions_of(function)
    for budget in (1, 2, 7, count - 1, count):
        roamlet.tasklet(function)()
        assert go_on(budget, ignore_nesting=True) == (count - 1) // budget, budget


@pytest.mark.parametrize("ignore_nesting", [False, True])
@pytest.mark.parametrize("budget", [1, 13, 100])
def test_the_same_program_is_interrupted_at_the_same_instructions_each_time(budget, ignore_nesting):
    runs = []
    for _ in range(3):  # cold, warm, hot
        at: list[object] = []
        for seed in range(2):
            roamlet.tasklet(everything)(seed)
        go_on(budget, at, ignore_nesting=ignore_nesting)
        runs.append(at)
    assert len(runs[0]) > 20
    assert runs[1] == runs[0] and runs[2] == runs[0]


def test_each_tasklet_has_a_whole_budget_after_it_was_switched_to():
    switches = []

    def polite() -> None:
        for _ in range(30):
            spin(3)
            switches.append(roamlet.getcurrent())
            roamlet.schedule()

    roamlet.tasklet(polite)()
    roamlet.tasklet(polite)()
    assert go_on(400) == 0
    assert len(switches) == 60


def test_a_total_budget_is_that_of_all_together():
    def polite() -> None:
        for _ in range(30):
            roamlet.schedule()

    count = instructions_of(polite) * 2
    for budget in (50, count // 2):
        roamlet.tasklet(polite)()
        roamlet.tasklet(polite)()
        assert go_on(budget, totaltimeout=True) == (count - 1) // budget


def test_tasklets_that_were_suspended_before_are_counted_in_all_their_frames():
    channel = roamlet.channel()

    def inner() -> None:
        channel.receive()
        spin(5)

    def numbers() -> Iterator[int]:
        channel.receive()
        yield from range(100)

    def outer() -> int:
        inner()
        return spin(100) + sum(n for n in numbers())

    tasklet = roamlet.tasklet(outer)()
    roamlet.run()
    assert tasklet.frame is not None
    at: list[object] = []
    roamlet.tasklet(channel.send_sequence)([None, None])
    go_on(10, at, ignore_nesting=True)
    assert {name for name, _ in at} >= {"spin", "numbers", "<genexpr>"}
    assert not tasklet.alive


def test_what_runs_outside_of_run_is_not_counted():
    roamlet.tasklet(spin)(10)
    assert roamlet.run(10_000) is None
    spin(100_000)
    roamlet.tasklet(spin)(10)
    assert roamlet.run(10_000) is None


# ---- the notebook's use ----


def test_whoever_has_been_running_quite_a_bit_is_found_and_goes_on():
    said, results = [], []

    def busy(name: str, n: int) -> None:
        results.append((name, spin(n)))

    for i in range(3):
        roamlet.tasklet(busy)(f"busy {i}", 100 * (i + 1))
    roamlet.tasklet(results.append)("quick")
    while True:
        interrupted = roamlet.run(100)
        if interrupted is None:
            break
        said.append(f"{interrupted.frame.f_code.co_name} has been running quite a bit")
        assert interrupted.paused and interrupted.alive and not interrupted.scheduled
        interrupted.insert()
    assert set(said) == {"spin has been running quite a bit"} and len(said) > 10
    assert results == ["quick"] + [(f"busy {i}", spin(100 * (i + 1))) for i in range(3)]


# ---- what is thrown into an interrupted tasklet ----


def test_a_kill_arrives_where_the_tasklet_was_interrupted():
    log = []

    def function() -> None:
        try:
            while True:
                spin(10)
        except roamlet.TaskletExit:
            log.append("exit")
            raise
        finally:
            log.append(spin(4))

    tasklet = roamlet.tasklet(function)()
    assert roamlet.run(100) is tasklet
    tasklet.kill()
    assert log == ["exit", 6] and not tasklet.alive


@pytest.mark.parametrize("budget", range(1, 40))
def test_an_exception_can_be_thrown_in_before_any_instruction(budget):
    seen = []

    def function() -> None:
        for _ in range(3):
            try:
                seen.append([x * 2 for x in range(3)])
            except ValueError as error:
                seen.append(str(error))
        seen.append("end")

    tasklet = roamlet.tasklet(function)()
    interrupted = roamlet.run(budget)
    if interrupted is None:
        return
    assert interrupted is tasklet
    try:
        tasklet.throw(ValueError, "thrown")
    except ValueError:
        assert not tasklet.alive  # outside of the try
    else:
        roamlet.run()
        assert seen[-1] == "end" and "thrown" in seen
    assert sys.exc_info() == (None, None, None)


def test_an_interrupted_tasklet_can_be_interrupted_again_after_it_raised():
    log = []

    def function() -> None:
        for _ in range(3):
            try:
                while True:
                    spin(5)
            except ValueError:
                log.append("again")

    tasklet = roamlet.tasklet(function)()
    for _ in range(3):
        assert roamlet.run(200) is tasklet
        tasklet.throw(ValueError, pending=True)
        tasklet.insert()
    assert roamlet.run(200) is None
    assert log == ["again"] * 3


# ---- what is not interrupted ----


def test_code_that_c_code_called_is_not_interrupted_unless_asked_for():
    def key(value: int) -> int:
        return value * 3 % 7

    def function() -> None:
        for _ in range(10):
            sorted(range(20), key=key)
            list(map(key, range(20)))

    for ignore_nesting, expected in ((False, {"function"}), (True, {"function", "key"})):
        at: list[object] = []
        roamlet.tasklet(function)()
        assert go_on(3, at, ignore_nesting=ignore_nesting) > 20
        assert {name for name, _ in at} == expected


def test_a_tasklet_may_ask_for_interrupts_inside_c_code_itself():
    def key(value: int) -> int:
        return value * 3 % 7

    at: list[object] = []
    tasklet = roamlet.tasklet(sorted)(range(20), key=key)
    tasklet.set_ignore_nesting(True)
    assert go_on(3, at) > 5
    assert {name for name, _ in at} == {"key"}


def test_a_generator_in_a_for_loop_is_interrupted():
    def numbers(n: int) -> Iterator[int]:
        for i in range(n):
            yield i + 1

    def outer(n: int) -> Iterator[int]:
        yield from numbers(n)

    def function() -> None:
        for _ in outer(50):
            pass

    at: list[object] = []
    for budget in (5, 7, 11):  # the loop must not be as long as the budget
        roamlet.tasklet(function)()
        go_on(budget, at)
    assert {name for name, _ in at} == {"function", "outer", "numbers"}


@pytest.mark.parametrize("ignore_nesting", [False, True])
def test_an_import_is_never_interrupted(monkeypatch, ignore_nesting):
    name = "tests.core._slow_to_import"
    monkeypatch.delitem(sys.modules, name, raising=False)
    seen = []

    def imports() -> None:
        seen.append(importlib.import_module(name).last)

    roamlet.tasklet(imports)()
    roamlet.tasklet(imports)()
    at: list[object] = []
    assert go_on(5, at, ignore_nesting=ignore_nesting) > 2
    assert seen == [4951, 4951]
    assert not {name for name, _ in at} & {"<module>", "_find_and_load", "exec_module"}
    del sys.modules[name]


def test_an_atomic_tasklet_is_interrupted_as_soon_as_it_no_longer_is():
    log = []

    def function() -> None:
        with roamlet.atomic():
            log.append("in")
            spin(1000)
            log.append("out")
        for i in range(1000):
            log.append(i)

    tasklet = roamlet.tasklet(function)()
    assert roamlet.run(50) is tasklet
    assert log[:2] == ["in", "out"] and len(log) < 10
    tasklet.kill()


def test_a_soft_interrupt_waits_for_the_next_switch():
    log = []

    def function() -> None:
        spin(1000)
        log.append("before")
        roamlet.schedule()
        log.append("after")

    roamlet.tasklet(function)()
    roamlet.tasklet(spin)(10)
    assert roamlet.run(50, soft=True) is None
    assert log == ["before"]
    roamlet.run()
    assert log == ["before", "after"]


def test_a_soft_interrupt_is_taken_also_when_nobody_else_can_run():
    """run() would go on waiting for the sleeping tasklet."""
    go_on_then = core.Waiter()
    channel = roamlet.channel()

    def function() -> None:
        spin(1000)
        channel.receive()

    roamlet.tasklet(function)()
    sleeper = roamlet.tasklet(go_on_then.wait)()
    sleeper.run()
    assert roamlet.run(50, soft=True) is None
    assert sleeper.blocked and channel.balance == -1
    go_on_then.succeed()
    channel.send(None)
    roamlet.run()


def test_a_soft_interrupt_is_taken_by_schedule_though_nobody_else_can_run():
    switches = []

    def polite():
        while len(switches) < 1000:
            for _ in range(100):
                pass
            switches.append(roamlet.schedule())

    tasklet = roamlet.tasklet(polite)()
    assert roamlet.run(50, soft=True) is None
    assert (len(switches), tasklet.scheduled, roamlet.getruncount()) == (0, True, 2)
    tasklet.kill()
    switches.clear()


def test_a_soft_interrupt_is_that_of_its_run_alone():
    """The tasklet wakes main itself, and blocks: the next run() has a budget of its own."""
    main, channel, log = roamlet.getcurrent(), roamlet.channel(), []

    def function() -> None:
        spin(1000)
        main.insert()
        channel.receive()
        for _ in range(3):
            log.append(roamlet.schedule("on"))

    roamlet.tasklet(function)()
    assert roamlet.run(50, soft=True) is None
    assert channel.balance == -1
    channel.preference = 0
    channel.send(None)
    roamlet.tasklet(lambda: [roamlet.schedule() for _ in range(3)])()
    assert roamlet.run(10**9, soft=True) is None
    assert log == ["on"] * 3


def test_an_interrupted_tasklet_goes_on_where_run_raises_something_else():
    main, log = roamlet.getcurrent(), []

    def throws(previous: object, following: object) -> None:
        if following is main:
            main.throw(LookupError, pending=True)

    def function() -> None:
        spin(1000)
        log.append("done")

    roamlet.tasklet(function)()
    roamlet.set_schedule_callback(throws)
    try:
        with pytest.raises(LookupError):
            roamlet.run(50)
    finally:
        roamlet.set_schedule_callback(None)
    assert log == [] and roamlet.getruncount() == 2
    roamlet.run()
    assert log == ["done"]


# ---- threads and processes ----


def test_threads_count_for_themselves():
    def interrupts() -> tuple[int, list[str]]:
        results: list[str] = []
        roamlet.tasklet(lambda: results.append(everything(1)))()
        return go_on(20, ignore_nesting=True), results

    expected = interrupts()
    outcomes: list[Any] = []
    threads = [threading.Thread(target=lambda: outcomes.append(interrupts())) for _ in range(3)]
    for thread in threads:
        thread.start()
    outcomes.append(interrupts())
    for thread in threads:
        thread.join()
    assert outcomes == [expected] * 4


def test_what_other_threads_execute_is_not_counted():
    done = threading.Event()
    started = threading.Event()

    def other() -> None:
        started.set()
        while not done.is_set():
            spin(10)

    thread = threading.Thread(target=other)
    thread.start()
    started.wait()
    count = instructions_in_thread = in_thread(lambda: counted(10))
    done.set()
    thread.join()
    assert count == instructions_in_thread == counted(10)


def counted(budget: int) -> int:
    roamlet.tasklet(spin)(2000)
    return go_on(budget)


def test_a_forked_child_goes_on_counting():
    source = """
        import os, roamlet

        def spin(n):
            total = 0
            for i in range(n):
                total += i
            return total
        def function():
            pid = os.fork()
            total = spin(300)
            if pid == 0:
                ends.append(total)
            else:
                ends.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        ends, main, count = [], os.getpid(), 0
        roamlet.tasklet(function)()
        while (tasklet := roamlet.run(50)) is not None:
            count += 1
            tasklet.insert()
        if os.getpid() != main:
            os._exit(7 if count > 20 and ends == [spin(300)] else 1)
        print(ends)
    """
    assert output_of(source) == "[7]"


def test_a_thread_that_ends_kills_an_interrupted_tasklet():
    log, kept = [], []

    def function() -> None:
        try:
            while True:
                spin(10)
        finally:
            log.append("ended")

    def thread() -> None:
        roamlet.tasklet(function)()
        kept.append(roamlet.run(100))
        log.append("interrupted")

    in_thread(thread)
    assert log == ["interrupted", "ended"] and not kept[0].alive


@pytest.mark.parametrize("runs", ["a run for each", "one run for all"])
def test_functions_that_ran_and_were_interrupted_give_their_memory_back(runs):
    """Events leave a hundred bytes and more with each code object until it goes: nothing may keep it."""
    source = f"""
        import resource, roamlet

        def made(i):
            names = {{}}
            exec(f"def f{{i}}(n=3):\\n    total = 0\\n    for i in range(n):\\n        total += i\\n    return total", names)
            return names[f"f{{i}}"]

        def go_on(budget):
            while (tasklet := roamlet.run(budget)) is not None:
                tasklet.insert()

        def batch(n):
            if {runs == "a run for each"}:
                for i in range(n):
                    roamlet.tasklet(made(i))()
                    go_on(11)
            else:
                roamlet.tasklet(lambda: [made(i)() for i in range(n)])()
                go_on(1_000_000)

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize() // 1024

        batch(2000)
        before = resident()
        batch(20000)
        print(resident() - before)
        """
    assert (
        int(output_of(source, timeout=120)) < 4000
    )  # 20,000 functions with what events add to them are more than 30 MB
