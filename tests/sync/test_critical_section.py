"""critical_section: one tasklet of the process at a time."""

import gc
import threading

import pytest

import roamlet
from roamlet import sync
from roamlet.sync import _critical, critical_section
from roamlet.testing import run_until_blocked
from tests.sync._noting import holding


@pytest.fixture(autouse=True)
def no_section_is_left():
    yield
    gc.collect()
    assert dict(_critical._sections) == {}


def test_sections_of_one_name_exclude_each_other_and_others_do_not():
    log = []
    with critical_section("one"):
        holding(log, "one", critical_section("one"), steps=0)
        holding(log, "two", critical_section("two"), steps=0)
        assert log == ["two"]
    run_until_blocked()
    assert log == ["two", "one"]


def test_it_may_be_entered_again_by_the_tasklet_inside():
    reached = False
    with critical_section("again"), critical_section("again"):
        reached = True
    assert reached  # and not a Deadlock


def test_without_a_name_each_place_is_a_section():
    log = []

    def place(name):
        with critical_section():
            log.append(f"{name} in")
            roamlet.schedule()
            log.append(f"{name} out")

    def other_place():
        with critical_section():
            log.append("other")

    for name in "ab":
        roamlet.tasklet(place)(name)
    roamlet.tasklet(other_place)()
    roamlet.run()
    assert log == ["a in", "other", "a out", "b in", "b out"]


@pytest.mark.parametrize(
    "decorator",
    [lambda: critical_section, lambda: critical_section("decorated"), lambda: critical_section()],
    ids=["bare", "named", "called"],
)
def test_a_decorated_function_is_a_section(decorator):
    log = []

    @decorator()
    def adds(value, *, more=1):
        """Add."""
        log.append("in")
        roamlet.schedule()
        log.append("out")
        return value + more

    results = []
    for value in (1, 10):
        roamlet.tasklet(lambda value=value: results.append(adds(value, more=2)))()
    roamlet.run()
    assert (results, log) == ([3, 12], ["in", "out", "in", "out"])
    assert (adds.__name__, adds.__doc__) == ("adds", "Add.")


def test_threads_exclude_each_other():
    inside, seen = [], []

    @critical_section
    def enters():
        inside.append(1)
        roamlet.sleep(0)
        seen.append(len(inside))
        inside.pop()

    threads = [threading.Thread(target=lambda: [enters() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 200


def test_what_is_raised_inside_leaves_the_section_free():
    section = critical_section("raises")
    with pytest.raises(LookupError), section:
        raise LookupError
    assert "<critical section 'raises': <unlocked roamlet.sync.RLock" in repr(section)


def test_what_runs_after_its_call_has_returned_is_refused():
    def generator():
        yield

    async def coroutine():
        pass

    for function in (generator, coroutine):
        with pytest.raises(TypeError, match="cannot guard .* its body runs after the call has returned"):
            critical_section(function)
    with pytest.raises(TypeError, match="takes a name, or the function that it decorates, not 3"):
        critical_section(3)


def test_the_table_keeps_nothing_that_is_not_used():
    for number in range(1000):
        with critical_section(f"number {number}"):
            assert len(_critical._sections) == 1
    assert sync.Lock is type(_critical._sections_guard)
