"""Each construct, saved at every point where it blocks: resumed in a fresh process, and saved again at every later step."""

import gc

import pytest

from tests.snapshot import async_programs, programs
from tests.snapshot._driving import in_a_fresh_process, saved_at_each_step, wrong_from

PROGRAMS = {program.__name__: program for program in (*programs.PROGRAMS, *async_programs.PROGRAMS)}


@pytest.fixture(autouse=True)
def cycles_of_the_programs_are_gone():
    """A function that calls itself, or a manager made of a generator, is one."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def answers():
    """Of one fresh process for all programs: what went wrong there."""
    cases = {}
    for name, program in PROGRAMS.items():
        snapshots, out = saved_at_each_step(program)
        cases[name] = snapshots, repr(out)
    return in_a_fresh_process(cases)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_goes_on_in_a_fresh_process_from_every_step_and_again_from_each_later_one(name, answers):
    assert answers[name] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_original_is_not_disturbed_and_copies_go_on_beside_it(name):
    snapshots, out = saved_at_each_step(PROGRAMS[name])
    assert snapshots
    again, undisturbed = saved_at_each_step(PROGRAMS[name])
    assert repr(out) == repr(undisturbed)
    assert len(again) == len(snapshots)
    assert wrong_from(snapshots[:1], repr(out)) == []
