"""What the check reports about a function is true when the function runs: the same functions, as source and running."""

import asyncio
import gc
import inspect
import weakref
from concurrent.futures import Future

import pytest

from apps.leaks.tests.check import situations
from roamlet_leaks.check import check_source

FINDINGS = check_source(inspect.getsource(situations), situations.__file__)


class Marker:
    """Lives as long as a frame whose local it is. Brings what some functions need."""

    future = Future


def failing_with(deep):
    """What raises a ValueError, in a frame that holds `deep`."""
    held = [deep]

    def fail():
        mine = held.pop() if held else None
        raise ValueError("no" if mine else "no more")

    return fail


def situation_of(finding):
    """The function of a finding; of one within another function the outer one."""
    name = finding.function
    return name if name.startswith("Job.") else name.partition(".")[0]


def run(function, marker, fail):
    """What is left of a call: the generator, where it is one."""
    try:
        if inspect.isgeneratorfunction(function):
            running = function(marker, fail)
            next(running)
            return running
        if inspect.iscoroutinefunction(function):
            asyncio.run(function(marker, fail))
        else:
            function(marker, fail)
    except (ValueError, situations.Refused, ExceptionGroup):
        pass
    return None


@pytest.mark.parametrize("name", situations.SITUATIONS)
def test_the_check_says_of_a_function_what_becomes_of_its_frames(name):
    function, codes = situations.SITUATIONS[name]
    assert [finding.code for finding in FINDINGS if situation_of(finding) == name] == codes
    assert not gc.isenabled()
    frame, raised_in = Marker(), Marker()
    there = [weakref.ref(raised_in), weakref.ref(frame)]
    fail = failing_with(raised_in)
    del raised_in
    running = run(function, frame, fail)
    del frame, fail
    if running is not None:
        there.pop()  # it has not ended: its own frame is in use
    kept = [reference() is not None for reference in there]
    del running
    gc.collect()
    assert any(kept) == bool(codes)


def test_nothing_else_of_the_file_is_found():
    known = {situation_of(finding) for finding in FINDINGS}
    assert known <= set(situations.SITUATIONS)
