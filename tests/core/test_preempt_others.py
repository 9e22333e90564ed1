"""Tasklets are interrupted in a process in which other tools trace, profile and monitor: none notices another."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import roamlet
from tests.core._scripts import output_of
from tests.core._workload import PIECES, go_on, spin


def tool_names() -> list[object]:
    """Who holds the tool ids of sys.monitoring, which is new in 3.12."""
    return [sys.monitoring.get_tool(tool) for tool in range(6)] if hasattr(sys, "monitoring") else []


def test_nothing_is_left_when_run_returns():
    before = tool_names()
    tasklet = roamlet.tasklet(spin)(1000)
    assert roamlet.run(100) is tasklet
    assert tool_names() == before and sys.gettrace() is None and sys.getprofile() is None
    assert tasklet.frame.f_trace_opcodes is False
    tasklet.kill()


def traced(events: list[tuple[str, str]]) -> Callable[..., Any]:
    def trace(frame: Any, event: str, arg: object) -> Any:
        if frame.f_code.co_name in ("spin", "loops", "generators", "squares"):
            events.append((event, frame.f_lineno))
        return trace

    return trace


@pytest.mark.parametrize("budget", [1, 10, 1000])
def test_a_trace_function_sees_what_it_would_see_without(budget):
    def function() -> None:
        spin(5)
        PIECES["generators"](1)

    runs = []
    for budget_or_none in (0, budget):
        events: list[tuple[str, str]] = []
        roamlet.tasklet(function)()
        trace = traced(events)
        sys.settrace(trace)
        try:
            while (tasklet := roamlet.run(budget_or_none)) is not None:
                tasklet.insert()
            assert sys.gettrace() is trace
        finally:
            sys.settrace(None)
        runs.append(events)
    assert len(runs[0]) > 10
    assert runs[1] == runs[0]


def test_a_trace_function_that_asks_for_opcodes_gets_them():
    seen = []

    def trace(frame: Any, event: str, arg: object) -> Any:
        frame.f_trace_opcodes = frame.f_code is spin.__code__
        if event == "opcode":
            seen.append(frame.f_code.co_name)
        return trace

    counts = []
    for budget in (0, 0, 7):  # 3.12 begins with opcodes at the settrace() after somebody asked for them
        roamlet.tasklet(lambda: spin(5))()
        sys.settrace(trace)
        try:
            while (tasklet := roamlet.run(budget)) is not None:
                tasklet.insert()
        finally:
            sys.settrace(None)
        counts.append(len(seen))
        assert set(seen) <= {"spin"}
        seen.clear()
    assert counts[1] == counts[2] > 10


def test_a_trace_function_set_by_a_tasklet_that_is_counted_works_and_it_is_still_interrupted():
    events: list[tuple[str, str]] = []

    def function() -> None:
        sys.settrace(traced(events))
        spin(3)
        sys.settrace(None)
        while True:
            spin(100)

    tasklet = roamlet.tasklet(function)()
    assert roamlet.run(500) is tasklet
    assert [event for event, _ in events].count("line") >= 5
    tasklet.kill()


@pytest.mark.parametrize("budget", [1, 10])
def test_a_profile_function_sees_what_it_would_see_without(budget):
    runs = []
    for budget_or_none in (0, budget):
        events: list[tuple[str, str]] = []

        def profile(frame: Any, event: str, arg: object, events: list[tuple[str, str]] = events) -> None:
            if frame.f_code.co_name in ("generators", "squares"):
                events.append((event, getattr(arg, "__name__", "")))

        roamlet.tasklet(lambda: PIECES["generators"](1))()
        sys.setprofile(profile)
        try:
            while (tasklet := roamlet.run(budget_or_none)) is not None:
                tasklet.insert()
            assert sys.getprofile() is profile
        finally:
            sys.setprofile(None)
        runs.append(events)
    assert len(runs[0]) > 10
    assert runs[1] == runs[0]


if hasattr(sys, "monitoring"):  # new in 3.12

    def test_no_local_events_are_left_in_code_that_was_counted():
        tasklet = roamlet.tasklet(spin)(1000)
        assert roamlet.run(100) is tasklet
        for tool in range(6):
            if sys.monitoring.get_tool(tool) is None:
                sys.monitoring.use_tool_id(tool, "test")
                assert sys.monitoring.get_local_events(tool, spin.__code__) == 0
                sys.monitoring.free_tool_id(tool)
        tasklet.kill()

    @pytest.fixture
    def all_tools_taken() -> Iterator[None]:
        taken = [tool for tool in range(6) if sys.monitoring.get_tool(tool) is None]
        for tool in taken:
            sys.monitoring.use_tool_id(tool, f"tool {tool}")
        yield
        for tool in taken:
            if sys.monitoring.get_tool(tool) is not None:
                sys.monitoring.free_tool_id(tool)

    def test_that_no_tool_id_is_free_is_said(all_tools_taken):
        roamlet.tasklet(spin)(10)
        with pytest.raises(
            RuntimeError, match=r"all six tool ids of sys.monitoring are taken, by \[.*'tool 4'.*free_tool_id"
        ):
            roamlet.run(100)
        with pytest.raises(RuntimeError, match="all six tool ids"):
            roamlet.run(slice=0.01)
        sys.monitoring.free_tool_id(1)
        assert go_on(10) > 0

    @pytest.mark.parametrize("kind", ["global", "local"])
    def test_a_tool_of_the_user_sees_what_it_would_see_without(kind):
        monitoring, tool = sys.monitoring, 3
        wanted = (
            monitoring.events.LINE | monitoring.events.JUMP | monitoring.events.INSTRUCTION | monitoring.events.PY_START
        )
        runs = []
        monitoring.use_tool_id(tool, "test")
        for budget in (0, 1, 10):
            events: list[object] = []
            for event in ("LINE", "JUMP", "INSTRUCTION", "PY_START"):

                def callback(code: Any, *args: int, event: str = event, events: list[object] = events) -> None:
                    if code is spin.__code__:
                        events.append((event, *args))

                monitoring.register_callback(tool, getattr(monitoring.events, event), callback)
            if kind == "global":
                monitoring.set_events(tool, wanted)
            else:
                monitoring.set_local_events(tool, spin.__code__, wanted)
            roamlet.tasklet(lambda: spin(4))()
            while (tasklet := roamlet.run(budget)) is not None:
                tasklet.insert()
            monitoring.set_events(tool, 0)
            monitoring.set_local_events(tool, spin.__code__, 0)
            runs.append(events)
        for event in ("LINE", "JUMP", "INSTRUCTION", "PY_START"):
            monitoring.register_callback(tool, getattr(monitoring.events, event), None)
        monitoring.free_tool_id(tool)
        assert {event for event, *_ in runs[0]} == {"LINE", "JUMP", "INSTRUCTION", "PY_START"}
        assert runs[1] == runs[0] and runs[2] == runs[0]


def test_a_tasklet_suspended_inside_a_trace_function_hides_no_other_from_the_watchdog():
    def traced(*_):
        sys.settrace(None)
        roamlet.schedule_remove()

    def stops():
        sys.settrace(traced)
        spin(1)

    stopped = roamlet.tasklet(stops)()
    roamlet.schedule()
    assert stopped.paused
    busy = roamlet.tasklet(spin)(1000)
    assert roamlet.run(100, hub=False) is busy
    stopped.kill()
    busy.kill()
    busy = roamlet.tasklet(spin)(1000)
    assert roamlet.run(100, hub=False) is busy
    busy.kill()


if sys.version_info >= (3, 13):  # which counts how often events are changed, and refuses more than 16 million changes

    def test_a_process_may_call_run_with_a_budget_as_often_as_it_likes():
        source = """
            import sys, roamlet

            def holders():
                return [sys.monitoring.get_tool(tool) for tool in range(6)].count("roamlet")
            def endless():
                while True:
                    pass
            tasklet = roamlet.tasklet(endless)()
            counts = []
            for i in range(140_000):
                assert roamlet.run(2) is tasklet
                tasklet.insert()
                if i in (0, 139_999):
                    counts.append(holders())
            tasklet.kill()
            roamlet.tasklet(sum)([1])
            roamlet.run(slice=1)
            print(counts, sys.monitoring.get_local_events(4, endless.__code__))
        """
        assert (
            output_of(source) == "[0, 1] 0"
        )  # it no longer changes them, and what runs outside of run() is not slowed down
