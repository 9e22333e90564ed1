"""Debuggers and tasklets: pdb as a person types it, trace functions that switch, callbacks of sys.monitoring."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import roamlet

FOLDER = Path(__file__).parent / "debugged"
PACKAGES = str(Path(roamlet.__file__).parent.parent)  # and nothing else that this process was told
BACKENDS = [name for name in ("native", "greenlet") if importlib.util.find_spec(f"roamlet.core._{name}")]
started_on_each = pytest.mark.once(reason="the program is started on each backend")
STOP = re.compile(r"^(?:\(Pdb\) )*> \S*?(\w+\.py)\((\d+)\)([\w<>]+)\(\)", re.MULTILINE)


@pytest.fixture(params=BACKENDS)
def typed(request, tmp_path):
    """typed(WORDS, LINES): what Python prints with these words when these lines are typed at pdb's prompt."""

    def run(words, lines):
        environment = {**os.environ, "ROAMLET_SWITCH": request.param, "HOME": str(tmp_path), "PYTHONPATH": PACKAGES}
        done = subprocess.run(
            [sys.executable, *words],
            input="".join(f"{line}\n" for line in lines),
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout

    return run


def stops(said, program):
    return [(int(line), name) for file, line, name in STOP.findall(said) if file == program]


@started_on_each
def test_next_stays_in_the_tasklet_over_whatever_switches(typed):
    asked = "p ('at', roamlet.getcurrentid(), number)"
    lines = ["b 11", "c", "clear 1", asked, *["n"] * 7, asked, "c", "q"]
    said = typed(["-m", "pdb", str(FOLDER / "workers.py")], lines)
    assert stops(said, "workers.py")[:9] == [
        (1, "<module>"),
        *((line, "worker") for line in (11, 12, 13, 14, 15, 16, 17, 17)),
    ]
    first, last = re.findall(r"\('at', (\d+), (\d)\)", said)
    assert first == last and first[1] == "0"
    assert "result [2, 6, 10]" in said


@started_on_each
def test_each_tasklet_stops_at_a_breakpoint_and_a_condition_chooses_one(typed):
    program = ["-m", "pdb", str(FOLDER / "workers.py")]
    said = typed(program, ["b 14", *["c", "p ('of', number)"] * 3, "c", "q"])
    assert re.findall(r"\('of', (\d)\)", said) == ["0", "1", "2"]
    said = typed(program, ["b 11, number == 1", "c", "p ('of', number)", "n", "p ('of', number)", "r", "c", "q"])
    assert re.findall(r"\('of', (\d)\)", said) == ["1", "1"]
    found = stops(said, "workers.py")[1:]
    assert found[0] == (11, "worker") and (17, "worker") in found
    # From 3.14 on pdb switches the events of a line off for all when another tasklet has passed it.
    assert found[:3] == [(11, "worker"), (12, "worker"), (17, "worker")] or sys.version_info >= (3, 14)
    assert "--Return--" in said and "->6" in said
    assert "result [2, 6, 10]" in said


@started_on_each
def test_stepping_into_a_function_that_switches_and_out_of_it(typed):
    program = ["-m", "pdb", str(FOLDER / "workers.py")]
    said = typed(program, ["b 16, number == 2", "c", "s", "s", "n", "n", "r", "n", "c", "q"])
    assert stops(said, "workers.py")[1:] == [
        (16, "worker"),
        *((line, "helper") for line in (20, 21, 22, 23, 23)),
        (17, "worker"),
        (1, "<module>"),
    ]
    assert "result [2, 6, 10]" in said


@started_on_each
def test_what_is_typed_at_the_prompt_may_switch_and_the_prompt_stays(typed):
    switching = [
        "b answer_to",
        "channel.send('one'); print('got', channel.receive())",
        "roamlet.sleep(0.001); print('slept')",
        "channel.send('two'); print('got', channel.receive())",
        "n",
        "p log",
    ]
    said = typed([str(FOLDER / "prompts.py")], [*switching, "n", "n", "c"])
    assert "got one answered" in said and "slept" in said and "got two answered" in said
    assert "['one', 'two']" in said or "['one', 'two', 'went on']" in said
    found = [name for _, name in stops(said, "prompts.py")]
    assert found[:4] == ["asks"] * 4  # and never in answers(), which ran meanwhile
    assert "['one', 'two', 'went on', 'ended']" in said


def traced(function, trace):
    sys.settrace(trace)
    try:
        return function()
    finally:
        sys.settrace(None)


def other(seen, steps):
    for _ in range(steps):
        seen.append("other")
        roamlet.schedule()


def asking(seen):
    seen.append("asking")


def later(seen):
    seen.append("later")


class TraceThatSwitches:
    """Waits in the middle of a call event of asking(), and notes the events of the others."""

    def __init__(self, seen, channel):
        self.seen, self.channel = seen, channel

    def __call__(self, frame, event, arg):
        code = frame.f_code
        if code is asking.__code__ and event == "call":
            self.seen.append("begins")
            self.seen.append(self.channel.receive())
        elif code in (other.__code__, later.__code__):
            self.seen.append((code.co_name, event))
        return self


def test_other_tasklets_are_not_traced_while_one_is_inside_a_trace_function():
    seen, channel = [], roamlet.channel()

    def program():
        before = roamlet.tasklet(other)(seen, 2)
        roamlet.tasklet(asking)(seen)
        roamlet.schedule()  # both run, until asking() waits inside of trace()
        assert ("other", "call") in seen
        roamlet.tasklet(later)(seen)
        seen.append("--")
        while before.alive:
            roamlet.schedule()
        seen.append("--")
        channel.send("ends")
        roamlet.run()
        roamlet.tasklet(later)(seen)
        roamlet.run()

    traced(program, TraceThatSwitches(seen, channel))
    first, second = (index for index, each in enumerate(seen) if each == "--")
    assert seen[first + 1 : second] == ["other", "later"] or seen[first + 1 : second] == ["later", "other"]
    assert seen[second + 1 : second + 3] == ["ends", "asking"]
    assert seen[second + 3 : second + 5] == [("later", "call"), ("later", "line")]


def test_a_tasklet_that_was_suspended_untraced_is_traced_again():
    seen, channel = [], roamlet.channel()

    def program():
        roamlet.tasklet(asking)(seen)
        steps = roamlet.tasklet(other)(seen, 3)
        for _ in range(2):
            roamlet.schedule()
        assert ("other", "call") not in seen  # it began while nothing was traced
        channel.send("ends")
        roamlet.run()
        roamlet.tasklet(other)(seen, 1)
        roamlet.run()
        assert not steps.alive

    traced(program, TraceThatSwitches(seen, channel))
    assert seen.count("other") == 4
    assert seen.count(("other", "call")) == 1


@pytest.mark.parametrize("ends", ["kill", "throw"])
def test_one_that_ends_inside_a_trace_function_mutes_no_other(ends):
    seen, channel = [], roamlet.channel()

    def program():
        inside = roamlet.tasklet(asking)(seen)
        roamlet.schedule()
        if ends == "kill":
            inside.kill()
        else:
            inside.throw(roamlet.TaskletExit)
        assert not inside.alive
        sys.settrace(trace)  # CPython takes away one that raises
        roamlet.tasklet(later)(seen)
        roamlet.run()

    trace = TraceThatSwitches(seen, channel)
    traced(program, trace)
    assert seen[0] == "begins" and ("later", "call") in seen


def test_two_inside_trace_functions_at_a_time():
    seen, channel = [], roamlet.channel()

    def program():
        for _ in range(2):
            roamlet.tasklet(asking)(seen)
        roamlet.schedule()
        # The second was not traced, as the first is inside of the trace function.
        assert seen == ["begins", "asking"]
        channel.send("ends")
        roamlet.run()
        assert seen == ["begins", "asking", "ends", "asking"]

    traced(program, TraceThatSwitches(seen, channel))


@pytest.mark.pythons((3, 12), (3, 99), reason="sys.monitoring")
def test_callbacks_of_monitoring_that_switch():
    monitoring = sys.monitoring
    seen, channel = [], roamlet.channel()

    def starts(code, offset):
        if code is asking.__code__:
            seen.append("begins")
            seen.append(channel.receive())
        elif code is later.__code__:
            seen.append("later starts")

    monitoring.use_tool_id(monitoring.DEBUGGER_ID, "test")
    try:
        monitoring.register_callback(monitoring.DEBUGGER_ID, monitoring.events.PY_START, starts)
        monitoring.set_events(monitoring.DEBUGGER_ID, monitoring.events.PY_START)
        roamlet.tasklet(asking)(seen)
        roamlet.schedule()
        roamlet.tasklet(later)(seen)
        roamlet.schedule()
        channel.send("ends")
        roamlet.run()
        roamlet.tasklet(later)(seen)
        roamlet.run()
    finally:
        monitoring.set_events(monitoring.DEBUGGER_ID, 0)
        monitoring.register_callback(monitoring.DEBUGGER_ID, monitoring.events.PY_START, None)
        monitoring.free_tool_id(monitoring.DEBUGGER_ID)
    assert seen == ["begins", "later", "ends", "asking", "later starts", "later"]
