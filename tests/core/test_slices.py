"""run(slice=): a tasklet that has run for so long goes to the end of the run queue. run(N) is test_preempt's matter.

How long a slice really lasts depends on the machine, so nothing here measures it: an endless tasklet lets others run or the
test hangs, and whatever the moments of the interrupts, the results are the same.
"""

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roamlet
from tests.core._scripts import output_of
from tests.core._threads import in_thread
from tests.core._workload import PIECES, everything, spin


class Switches:
    """How often a tasklet was switched away that did not ask for it: between two marks."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, previous: roamlet.tasklet, following: roamlet.tasklet) -> None:
        self.count += 1


@pytest.fixture
def switches() -> Iterator[Switches]:
    switches = Switches()
    before = roamlet.set_schedule_callback(switches)
    yield switches
    roamlet.set_schedule_callback(before)


def endless() -> None:
    while True:
        pass


def in_slices(*functions: Callable[[], object], slice: float = 0.001, **options: Any) -> None:
    """Run each in a tasklet, beside one that never ends and never switches by itself, until all others have ended."""
    left = len(functions)
    busy = roamlet.tasklet(endless)

    def ending(function: Callable[[], object]) -> None:
        nonlocal left
        try:
            function()
        finally:
            left -= 1
            if not left:
                busy.kill()

    busy()
    for function in functions:
        roamlet.tasklet(ending)(function)
    roamlet.run(slice=slice, **options)
    assert left == 0


# ---- what is interrupted ----


def test_a_hundred_busy_tasklets_get_their_results(switches):
    results: dict[int, set[str]] = {}
    expected = {i: everything(i) for i in range(100)}

    def work(i: int) -> None:
        found = {everything(i) for _ in range(30)}
        while switches.count < 20:  # none has ended: each of these was an interrupt
            found.add(everything(i))
        results[i] = found

    for i in range(100):
        roamlet.tasklet(work)(i)
    roamlet.run(slice=0.0002)
    assert results == {i: {expected[i]} for i in range(100)}


def loop_in_one_line() -> None:
    while True: pass  # noqa: E701  # fmt: skip


def loop_of_calls() -> None:
    while True:
        spin(2)


def loop_in_a_generator() -> None:
    def forever() -> Iterator[int]:
        i = 0
        while True:
            yield i
            i += 1

    for _ in forever():
        pass


def loop_in_yield_from() -> None:
    def forever() -> Iterator[None]:
        while True:
            yield

    def outer() -> Iterator[None]:
        yield from forever()

    for _ in outer():
        pass


def loop_of_exceptions() -> None:
    while True:
        try:
            raise ValueError
        except ValueError:
            continue


def loop_of_comprehensions() -> None:
    while True:
        [x for x in range(100) if x]


def recursion_without_end() -> None:
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    fib(200)


def code_without_functions() -> None:
    exec("while True:\n    total = 1")


def function_of_functions() -> None:
    while True:
        exec("def f():\n    for i in range(10): pass\nf()", {})


@pytest.mark.parametrize(
    "loop",
    [
        endless,
        loop_in_one_line,
        loop_of_calls,
        loop_in_a_generator,
        loop_in_yield_from,
        loop_of_exceptions,
        loop_of_comprehensions,
        recursion_without_end,
        code_without_functions,
        function_of_functions,
    ],
)
@pytest.mark.parametrize("thread", ["main thread", "another thread"])
def test_every_loop_is_interrupted_again_and_again(loop, thread):
    seen = []

    def function() -> None:
        busy = roamlet.tasklet(loop)()
        for _ in range(5):
            roamlet.schedule()
            seen.append(busy.alive)
        busy.kill()

    def run() -> None:
        roamlet.tasklet(function)()
        roamlet.run(slice=0.0005, hub=False, ignore_nesting=loop is code_without_functions)  # exec() is C code

    if thread == "main thread":
        run()
    else:
        in_thread(run)
    assert seen == [True] * 5


def test_a_tasklet_that_was_suspended_before_in_the_middle_of_a_call_is_interrupted():
    channel = roamlet.channel()

    def inner() -> None:
        channel.receive()

    def outer() -> None:
        inner()
        endless()

    busy = roamlet.tasklet(outer)()
    roamlet.run()
    in_slices(lambda: channel.send(None), lambda: [roamlet.schedule() for _ in range(5)], busy.kill)
    assert not busy.alive


class Sorting:
    """Sorts for ever, and knows whether it is inside a key function now."""

    def __init__(self) -> None:
        self.inside = False

    def key(self, value: int) -> int:
        self.inside = True
        result = sum([i for i in range(20)]) * value  # noqa: C416 - Python code, that takes time
        self.inside = False
        return result

    def __call__(self) -> None:
        while True:
            sorted(range(50), key=self.key)


def test_code_that_c_code_called_is_not_interrupted():
    sorting, seen = Sorting(), []
    busy = roamlet.tasklet(sorting)()
    in_slices(lambda: [seen.append(sorting.inside) or roamlet.schedule() for _ in range(30)], busy.kill, slice=0.0003)
    assert seen == [False] * 30


def test_code_that_c_code_called_is_interrupted_where_that_is_asked_for():
    sorting = Sorting()

    def look() -> None:
        while not sorting.inside:
            roamlet.schedule()
        busy.kill()

    busy = roamlet.tasklet(sorting)()
    in_slices(look, slice=0.0003, ignore_nesting=True)
    assert not busy.alive


def test_atomic_code_is_not_interrupted():
    total = 0

    def add() -> None:
        nonlocal total
        for _ in range(30):
            with roamlet.atomic():
                before = total
                spin(200)
                total = before + 1

    in_slices(*[add] * 20, slice=0.0002)
    assert total == 600


def test_a_tasklet_blocks_sleeps_and_wakes_between_slices():
    log = []
    channel = roamlet.channel()

    def waits() -> None:
        log.append(channel.receive())
        roamlet.sleep(0.01)
        log.append("slept")

    in_slices(waits, lambda: channel.send("sent"))
    assert log == ["sent", "slept"]


def test_slices_begin_anew_after_all_have_slept():
    """The slice that ran out while all slept belongs to no tasklet."""
    log = []

    def waits() -> None:
        for i in range(3):
            roamlet.sleep(0.01)
            log.append(i)

    roamlet.tasklet(waits)()
    roamlet.run(slice=0.001)
    in_slices(waits)
    assert log == [0, 1, 2] * 2


def test_an_exception_thrown_into_an_interrupted_tasklet_is_raised_there():
    log: list[object] = []

    def busy() -> None:
        try:
            log.append("inside")
            endless()
        except ValueError as error:
            log.append(error.args)
            spin(10)
            log.append(sys.exc_info()[1] is error)

    def throw() -> None:
        while not log:  # its first slice may have been over before it was there
            roamlet.schedule()
        tasklet.throw(ValueError, "thrown")

    tasklet = roamlet.tasklet(busy)()
    in_slices(throw)
    assert log == ["inside", ("thrown",), True]


# ---- others who watch ----


def test_nobody_holds_a_tool_id_nor_a_trace_function_while_no_slice_is_over():
    seen = []

    def look() -> None:
        if hasattr(sys, "monitoring"):
            seen.append([sys.monitoring.get_tool(tool) for tool in range(6)])
        seen.append((sys.gettrace(), sys.getprofile()))

    look()
    roamlet.tasklet(look)()
    roamlet.run(slice=3600)
    in_slices(lambda: spin(10))
    look()
    third = len(seen) // 3
    assert seen[third : 2 * third] == seen[:third] == seen[2 * third :]


def test_a_trace_function_sees_every_line_in_slices_too():
    counts = []

    def trace(frame: Any, event: str, arg: object) -> Any:
        if frame.f_code is not spin.__code__:
            return None
        nonlocal lines
        lines += event == "line"
        return trace

    for slice in (None, 0.0005):
        lines = 0
        for _ in range(4):
            roamlet.tasklet(spin)(2000)
        sys.settrace(trace)
        try:
            roamlet.run(slice=slice)
            assert sys.gettrace() is trace
        finally:
            sys.settrace(None)
        counts.append(lines)
    assert counts[0] == counts[1] > 16000


def test_a_profile_function_sees_every_call_in_slices_too():
    counts = []

    def profile(frame: Any, event: str, arg: object) -> None:
        nonlocal calls
        calls += frame.f_code is Key.method.__code__ and event in ("call", "return")

    class Key:
        def method(self) -> None:
            pass

    def work() -> None:
        key = Key()
        for _ in range(2000):
            key.method()

    for slice in (None, 0.0005):
        calls = 0
        for _ in range(4):
            roamlet.tasklet(work)()
        sys.setprofile(profile)
        try:
            roamlet.run(slice=slice)
            assert sys.getprofile() is profile
        finally:
            sys.setprofile(None)
        counts.append(calls)
    assert counts[0] == counts[1] == 16000


if hasattr(sys, "monitoring"):  # new in 3.12

    def test_a_tool_of_the_user_sees_every_jump_in_slices_too():
        monitoring = sys.monitoring
        counts = []

        def jump(code: object, *_: int) -> None:
            nonlocal jumps
            jumps += code is spin.__code__

        monitoring.use_tool_id(4, "test")
        monitoring.register_callback(4, monitoring.events.JUMP, jump)
        for slice in (None, 0.0005):
            jumps = 0
            for _ in range(4):
                roamlet.tasklet(spin)(3000)
            monitoring.set_events(4, monitoring.events.JUMP)
            roamlet.run(slice=slice)
            monitoring.set_events(4, 0)
            counts.append(jumps)
        monitoring.register_callback(4, monitoring.events.JUMP, None)
        monitoring.free_tool_id(4)
        assert counts[0] == counts[1] >= 12000

    def test_that_no_tool_id_is_left_when_a_slice_is_over_is_reported_and_the_run_goes_on(monkeypatch):
        reported: list[Any] = []
        monkeypatch.setattr(sys, "unraisablehook", lambda report: reported.append(str(report.exc_value)))
        monitoring = sys.monitoring
        taken: list[int] = []

        def takes() -> None:
            for tool in range(6):
                if monitoring.get_tool(tool) is None:
                    monitoring.use_tool_id(tool, f"tool {tool}")
                    taken.append(tool)
            while not reported:
                pass
            monitoring.free_tool_id(taken.pop())
            endless()

        def ends() -> None:
            while not reported:  # a slice may be over before all are taken
                roamlet.schedule()
            busy.kill()

        busy = roamlet.tasklet(takes)()
        in_slices(ends)
        while taken:
            monitoring.free_tool_id(taken.pop())
        assert reported and all("all six tool ids" in each for each in reported)  # another slice may end meanwhile


# ---- the watcher's thread ----


def watchers() -> list[Path]:
    return [task for task in Path("/proc/self/task").iterdir() if name_of(task) == "roamlet-watch"]


def name_of(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:  # the thread ended meanwhile
        return ""


def test_the_watcher_sleeps_without_end_while_there_are_no_slices():
    in_slices(lambda: spin(10))
    (thread,) = watchers()
    # futex(address, FUTEX_WAIT_BITSET | ..., value, timeout NULL): once the last slice's end has passed
    while not (call := (thread / "syscall").read_text().split()) or call[0] != "202" or int(call[4], 16) != 0:
        spin(1000)
    switched = (thread / "status").read_text().split("voluntary_ctxt_switches:")[1].split()[0]
    for _ in range(5):
        roamlet.tasklet(spin)(100_000)
        roamlet.run()
    assert (thread / "status").read_text().split("voluntary_ctxt_switches:")[1].split()[0] == switched


def test_the_watcher_starts_with_the_first_slice_and_ends_at_exit_at_once():
    source = """
        import threading
        from pathlib import Path
        import roamlet

        def watchers():
            return sum((task / "comm").read_text() == "roamlet-watch\\n" for task in Path("/proc/self/task").iterdir())

        roamlet.tasklet(sum)([])
        roamlet.run(100)
        counts = [watchers()]
        roamlet.tasklet(sum)([])
        roamlet.run(slice=3600)  # what would delay the exit by an hour
        counts.append(watchers())
        print(counts, threading.active_count())
    """
    assert output_of(source, timeout=30) == "[0, 1] 1"


def test_a_daemon_thread_in_slices_does_not_disturb_the_exit():
    source = """
        import threading, roamlet

        started = threading.Event()
        def busy():
            started.set()
            while True:
                pass
        def thread():
            roamlet.tasklet(busy)()
            roamlet.tasklet(busy)()
            roamlet.run(slice=0.0002)
        threading.Thread(target=thread, daemon=True).start()
        started.wait()
        for _ in range(100_000):
            pass
        print("done")
    """
    for _ in range(5):
        assert output_of(source, timeout=30) == "done"


def test_at_exit_no_more_slices_are_promised():
    source = """
        import atexit, roamlet

        def last():
            roamlet.tasklet(sum)([])
            try:
                roamlet.run(slice=0.01)
            except RuntimeError as error:
                print(error)
        atexit.register(last)
        roamlet.tasklet(sum)([])
        roamlet.run(slice=0.01)
    """
    assert output_of(source) == "run() cannot watch slices of time any more: the interpreter is shutting down"


def test_the_watcher_hides_no_deadlock():
    source = """
        import roamlet

        def waits():
            roamlet.channel().receive()
        for _ in range(50):
            roamlet.tasklet(waits)()
            roamlet.tasklet(lambda: [sum(range(100)) for _ in range(300)])()
            roamlet.run(slice=0.0001)
            try:
                roamlet.channel().receive()
            except roamlet.Deadlock:
                pass
        print("found")
    """
    assert output_of(source, timeout=30) == "found"


# ---- threads and processes ----


def test_several_threads_run_in_slices_at_the_same_time():
    expected = [everything(i) for i in range(8)]

    def work() -> list[str]:
        results: list[str] = []
        for i in range(8):
            roamlet.tasklet(lambda i=i: results.append(everything(i)))()
        in_slices(lambda: None, slice=0.0005)
        while roamlet.getruncount() > 1:
            roamlet.run(slice=0.0005)
        return sorted(results)

    outcomes: list[Any] = []
    threads = [threading.Thread(target=lambda: outcomes.append(work())) for _ in range(2)]
    for thread in threads:
        thread.start()
    outcomes.append(work())
    for thread in threads:
        thread.join()
    assert outcomes == [sorted(expected)] * 3


def test_one_thread_counts_while_another_has_slices():
    done = threading.Event()
    outcomes: list[Any] = []

    def counts() -> int:
        roamlet.tasklet(PIECES["sort_keys"])(3)
        count = 0
        while (tasklet := roamlet.run(9, ignore_nesting=True)) is not None:
            count += 1
            tasklet.insert()
        return count

    def thread() -> None:
        for _ in range(20):
            outcomes.append(counts())
        done.set()

    expected = in_thread(counts)
    other = threading.Thread(target=thread)
    other.start()

    def works() -> None:
        while not done.is_set():
            everything(1)

    in_slices(works, slice=0.0003)
    other.join()
    assert outcomes == [expected] * 20


def test_a_forked_child_has_slices_of_its_own():
    source = """
        import os, roamlet

        def endless():
            while True:
                pass
        def forks():
            pid = os.fork()
            for _ in range(5):
                roamlet.schedule()  # each time the other one, which never switches by itself, runs
            if pid == 0:
                busy.kill()
                return
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            busy.kill()
        main = os.getpid()
        for _ in range(3):
            busy = roamlet.tasklet(endless)()
            roamlet.tasklet(forks)()
            roamlet.run(slice=0.001)
            if os.getpid() != main:
                os._exit(7)
    """
    assert output_of(source) == "7\n7\n7"  # nor is anybody warned about threads (-W error)


def test_a_forked_child_knows_nothing_of_the_slices_of_other_threads():
    source = """
        import os, threading, roamlet

        started, done = threading.Event(), threading.Event()
        def busy():
            started.set()
            while not done.is_set():
                pass
        def thread():
            roamlet.tasklet(busy)()
            roamlet.tasklet(busy)()
            roamlet.run(slice=0.0002)
        other = threading.Thread(target=thread)
        other.start()
        started.wait()
        def endless():
            while True:
                pass
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                tasklet = roamlet.tasklet(endless)()
                roamlet.tasklet(tasklet.kill)()
                roamlet.run(slice=0.001)
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        done.set()
        other.join()
        print("done")
    """
    assert output_of(source, "-W", "ignore::DeprecationWarning") == "done"


# ---- code objects ----


def code_of_its_own(callback: Callable[[object], None]) -> Any:
    """A function that nothing else has the code of; `callback` is told when that goes."""
    names: dict[str, Any] = {"over": over}
    exec("def function():\n    over()\n", names)
    watched.append(weakref.ref(names["function"].__code__, callback))
    return names.pop("function")


watched: list[object] = []


def over() -> None:
    """Compute for longer than a slice of a millisecond."""
    until = time.monotonic() + 0.02
    while time.monotonic() < until:
        pass


@pytest.mark.parametrize(
    "blocks_inside", [True, False], ids=["blocks where it cannot be interrupted", "can be interrupted"]
)
def test_code_that_goes_as_its_events_are_taken_back_may_run_python_code(blocks_inside):
    """What is dropped in the middle of a switch cannot switch; what is dropped as a tasklet is interrupted can."""
    log: list[str] = []
    channel: roamlet.channel[None] = roamlet.channel()

    def dropped(reference: object) -> None:
        roamlet.tasklet(log.append)("inserted")
        try:
            roamlet.schedule()
        except RuntimeError as error:
            log.append(str(error))

    def function() -> None:
        own = [code_of_its_own(dropped)]

        def nested(_: object) -> int:
            own.pop()()
            if blocks_inside:
                channel.receive()
            return 0

        sorted([1], key=nested)  # not interrupted in there: the events outlive the function
        channel.receive()

    tasklets = [roamlet.tasklet(function)() for _ in range(3)]
    roamlet.run(slice=0.001)
    assert log.count("inserted") == 3
    assert [text for text in log if text != "inserted"] == [] or blocks_inside
    for tasklet in tasklets:
        tasklet.kill()
    watched.clear()


# ---- memory ----


def test_functions_that_ran_were_preempted_and_dropped_give_their_memory_back():
    """Events leave a few hundred bytes with each code object until it goes: nothing may keep it."""
    source = """
        import resource, roamlet

        def batch(n):
            def other():
                while True:
                    roamlet.schedule()
            busy = roamlet.tasklet(other)()
            def all_of_them():
                for i in range(n):
                    names = {"schedule": roamlet.schedule}
                    exec(f"def f{i}(n=3):\\n    schedule()\\n    for i in range(n):\\n        pass\\n    schedule()", names)
                    names[f"f{i}"]()
                busy.kill()
            roamlet.tasklet(all_of_them)()
            roamlet.run(slice=0.00001)

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize() // 1024

        batch(2000)
        before = resident()
        batch(20000)
        print(resident() - before)
    """
    assert int(output_of(source, timeout=120)) < 4000  # 20,000 functions are more than 30 MB
