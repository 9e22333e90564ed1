"""A pytest plugin that runs each test several times in one process and fails those after which more is left each time.

    python -m pytest -p tools.reference_leaks tests/core

Counted are references where the interpreter counts them (sys.gettotalrefcount: a debug build), else blocks of memory
(sys.getallocatedblocks). The first rounds fill caches and are not compared. A test is reported when every one of the
rounds after them left something, twice in a row: what a cache or a thread that ends late leaves is not there each time.
A test that starts a program is run once: what it is about happens there, where nothing is counted, and takes most of the time.
One that cannot help it says so:
    @pytest.mark.leaves("references", reason="an abandoned tasklet keeps its frames")
"""

import gc
import itertools
import sys
from array import array
from collections.abc import Callable

import pytest
from _pytest.runner import runtestprotocol

import roamlet

WARM_UPS = 2
ROUNDS = 4

count: Callable[[], int] = getattr(sys, "gettotalrefcount", sys.getallocatedblocks)
programs = 0  # that subprocess has started
UNIT = "references" if hasattr(sys, "gettotalrefcount") else "blocks of memory"


def note_program(event: str, _arguments: tuple[object, ...]) -> None:
    if event == "subprocess.Popen":
        global programs  # noqa: PLW0603 - an audit hook cannot be taken back, nor has it any object
        programs += 1


def pytest_configure() -> None:
    sys.addaudithook(note_program)


def left_now() -> int:
    """What exists when all that can be let go was."""
    roamlet.trim()
    gc.collect()
    return count()


def run_once(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """One more set-up, call and tear-down of the test, unreported."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined] # pytest has no public name for it
    wider = [each for several in fixtures for each in several if each.scope != "function"]
    ends = [len(each._finalizers) for each in wider]
    item._initrequest()  # type: ignore[attr-defined] # what a rerun needs
    reports: list[pytest.TestReport] = runtestprotocol(item, nextitem=nextitem, log=False)
    for each, end in zip(wider, ends, strict=True):
        del each._finalizers[end:]  # each set-up of what uses the fixture adds one, which has done its work
    return reports


def growth(item: pytest.Item, nextitem: pytest.Item | None, rounds: int) -> list[int] | None:
    """How much more there is after each round than before it; None when the test did not pass."""
    marks = array("q", [0] * (rounds + 1))  # numbers that are no objects: those would be counted too
    marks[0] = left_now()
    for number in range(rounds):
        if not all(report.passed for report in run_once(item, nextitem)):
            return None
        marks[number + 1] = left_now()
    return [after - before for before, after in itertools.pairwise(marks)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """In place of pytest's own: the same once, and more rounds of it when that passed and started no program."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    before = programs
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    allowed = {kind for marker in item.iter_markers("leaves") for kind in marker.args}
    if "references" not in allowed and programs == before and all(report.passed for report in reports):
        found = growth(item, nextitem, WARM_UPS + ROUNDS)
        grown = found and found[WARM_UPS:]
        if grown and min(grown) > 0:
            grown = growth(item, nextitem, ROUNDS)
        call = next(report for report in reports if report.when == "call")
        if grown is None:
            call.outcome = "failed"
            call.longrepr = "the test passes once and not again in the same process"
        elif min(grown) > 0:
            call.outcome = "failed"
            call.longrepr = f"each round left more {UNIT}: {', '.join(f'+{number}' for number in grown)}"
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
