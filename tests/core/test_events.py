"""Tools that are set while tasklets are suspended: what those do when they go on, and what the tools are told of it.

In processes of their own: CPython 3.15 crashes where code that was never told of events raises.
"""

import pytest

from tests.core._scripts import output_of

WATCHED = """
    import sys
    import roamlet

    ch = roamlet.channel()

    def inner():
        try:
            ch.receive()
        except KeyError:
            print("handled")
        ch.receive()

    def outer():
        try:
            inner()
        finally:
            print("left")

    tasklets = [roamlet.tasklet(outer)() for _ in range(2)]
    roamlet.run()
"""


@pytest.mark.parametrize("watch", ["settrace", "setprofile"])
def test_a_trace_function_that_is_set_while_tasklets_are_suspended_survives_what_they_raise(watch):
    script = f"""
    sys.{watch}(lambda *event: None)
    tasklets[0].throw(KeyError)
    tasklets[0].kill()
    sys.{watch}(None)
    tasklets[1].throw(KeyError)
    tasklets[1].kill()
    """
    assert output_of(WATCHED + script).split() == ["handled", "left"] * 2


@pytest.mark.pythons((3, 12), (3, 99), reason="sys.monitoring is of CPython 3.12")
def test_a_tool_that_is_set_while_tasklets_are_suspended_is_told_of_what_they_raise():
    script = """
    events, seen = sys.monitoring.events, []
    sys.monitoring.use_tool_id(3, "test")
    for name in ("RAISE", "EXCEPTION_HANDLED", "PY_UNWIND"):
        sys.monitoring.register_callback(
            3, getattr(events, name), lambda code, *rest, name=name: seen.append((name, code.co_name))
        )
    sys.monitoring.set_events(3, events.RAISE | events.EXCEPTION_HANDLED | events.PY_UNWIND)
    tasklets[0].throw(KeyError)
    tasklets[0].kill()
    sys.monitoring.set_events(3, 0)
    tasklets[1].kill()
    for event in (("RAISE", "inner"), ("EXCEPTION_HANDLED", "inner"), ("PY_UNWIND", "inner"), ("PY_UNWIND", "outer")):
        assert event in seen, seen
    """
    assert output_of(WATCHED + script).split() == ["handled", "left", "left"]
