"""debugpy, as an editor drives it: breakpoints in tasklets, and steps that stay in them."""

import pytest

from roamlet.core import backend
from tests.core.debug_adapter import Editor
from tests.core.test_debuggers import BACKENDS, FOLDER

pytest.importorskip("debugpy", reason="it is for no such Python yet; the test extra has it elsewhere")

pytestmark = pytest.mark.once(reason="the program is started on each backend")

PROGRAM = str(FOLDER / "workers.py")


def editor(*breakpoints, backend=backend):
    return Editor(PROGRAM, list(breakpoints), {"ROAMLET_SWITCH": backend})


def number_of(program):
    return program.ask("evaluate", expression="number", frameId=program.frame, context="watch")["result"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_stepping_over_whatever_switches_stays_in_the_tasklet(backend):
    with editor(11, backend=backend) as program:
        thread, *place = program.stopped()
        assert (place, number_of(program)) == (["worker", 11], "0")
        program.ask("setBreakpoints", source={"path": PROGRAM}, breakpoints=[])
        for line in range(12, 18):
            program.ask("next", threadId=thread)
            assert program.stopped() == (thread, "worker", line)
            assert number_of(program) == "0"
        program.ask("continue", threadId=thread)
        assert "result [2, 6, 10]" in program.printed()


def test_each_tasklet_stops_at_a_breakpoint():
    with editor(14) as program:
        numbers = []
        for _ in range(3):
            thread, *place = program.stopped()
            assert place == ["worker", 14]
            numbers.append(number_of(program))
            program.ask("continue", threadId=thread)
        assert numbers == ["0", "1", "2"]
        assert "result [2, 6, 10]" in program.printed()


def test_into_a_function_that_switches_and_out_of_it():
    with editor(16) as program:
        thread, *place = program.stopped()
        assert place == ["worker", 16]
        program.ask("setBreakpoints", source={"path": PROGRAM}, breakpoints=[])
        program.ask("stepIn", threadId=thread)
        assert program.stopped() == (thread, "helper", 21)
        program.ask("next", threadId=thread)
        assert program.stopped() == (thread, "helper", 22)
        program.ask("stepOut", threadId=thread)
        _, function, line = program.stopped()
        assert (function, line) in (("worker", 16), ("worker", 17))
        assert number_of(program) == "0"
        program.ask("continue", threadId=thread)
        assert "result [2, 6, 10]" in program.printed()


def test_what_is_typed_at_its_console_may_switch():
    with editor(12) as program:
        thread, *place = program.stopped()
        assert (place, number_of(program)) == (["worker", 12], "0")
        said = program.ask(
            "evaluate", expression="roamlet.sleep(0.05) or log.count(0)", frameId=program.frame, context="repl"
        )
        assert said["result"] == "0"
        assert number_of(program) == "0"  # the others went on meanwhile, and did not stop there
        program.ask("continue", threadId=thread)
        assert "result [2, 6, 10]" in program.printed()
