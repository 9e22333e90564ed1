"""Exceptions that something alive holds: who holds them is named, and those that may be held are no finding."""

import asyncio
import contextvars
import gc
import logging
import sys
import threading
import traceback
import types

import pytest

import roamlet
from apps.leaks.tests import situations
from apps.leaks.tests.test_cycles import expected
from roamlet_leaks import running as leaks
from roamlet_leaks.running import lingering, measure


@pytest.fixture
def service():
    """Lives on. What it holds leads to the frame of the test, which holds it: a cycle in its own right, unless it is emptied."""
    service = situations.Service()
    yield service
    service.__dict__.clear()


@pytest.fixture(autouse=True)
def nothing_else():
    """What other tests have left is no matter of these."""
    yield
    situations.errors_of_the_module.clear()
    situations.last_error = None
    situations.Service.failures.clear()


def alive():
    gc.collect()
    return [thing for thing in gc.get_objects() if type(thing) is situations.Payload]


def check(findings, times=1):
    (finding,) = findings
    assert (finding.kind, finding.times, finding.path) == ("lingering", times, situations.__file__)
    assert (finding.code, finding.name) == expected(finding.line)
    return finding


@pytest.mark.parametrize("name", ["serve", "serve_by_name", "serve_for_all"])
def test_what_an_object_holds(service, name):
    with leaks.watch() as seen:
        getattr(service, name)()
    finding = check(seen.findings)
    assert any(frame.endswith(" in raiser") for frame in finding.keeps.frames)
    assert finding.keeps.objects >= 6


@pytest.mark.parametrize("name", ["serve_without_traceback", "serve_with_cleared_frames"])
def test_what_keeps_no_locals_may_be_held(service, name):
    with leaks.watch() as seen:
        getattr(service, name)()
    assert seen.findings == []
    assert alive() == []


@pytest.mark.parametrize("name", ["into_a_list_of_the_module", "into_a_global"])
def test_what_a_module_holds(name):
    with leaks.watch() as seen:
        getattr(situations, name)()
    check(seen.findings)


def test_exceptions_of_one_line_are_one_finding():
    with leaks.watch() as seen:
        for _ in range(5):
            situations.into_a_list_of_the_module()
    check(seen.findings, times=5)


def test_of_the_exceptions_of_one_place_some_tell_of_all(monkeypatch, service):
    monkeypatch.setattr(lingering, "MOST_OF_A_PLACE", 5)
    with leaks.watch() as seen:
        for _ in range(20):
            situations.into_a_list_of_the_module()
        with_a_great_deal(service)
    assert sorted((finding.name, finding.times) for finding in seen.findings) == [
        ("Service.last", 1),
        ("errors_of_the_module", 5),
    ]


def test_what_was_there_before_is_not_new_but_is_there():
    situations.into_a_global()
    with leaks.watch() as seen:
        pass
    assert seen.findings == []
    check(leaks.find())


def test_what_a_closure_holds():
    with leaks.watch() as seen:
        kept = situations.for_a_closure()
    (finding,) = seen.findings
    assert (finding.code, finding.name) == ("RL008", "kept")
    kept().__traceback__ = None


def test_a_loop_that_remembers_its_last_error():
    turns = []
    situations.a_loop_that_remembers(lambda: turns.append(leaks.find()))
    for findings in turns:
        check(findings)
    assert len(turns) == 3


@pytest.mark.parametrize("name", ["a_loop", "a_loop_that_handles"])
def test_a_loop_that_forgets_and_one_that_stands_in_its_except_clause(name):
    turns = []
    getattr(situations, name)(lambda: turns.append(leaks.find()))
    assert not any(turns) and turns


def test_generators_that_wait():
    waiting = situations.a_generator_that_remembers()
    next(waiting)
    check(leaks.find())
    assert list(waiting) == []
    assert leaks.find() == []


def test_a_generator_that_waits_in_its_except_clause_may_hold_what_it_handles():
    waiting = situations.a_generator_that_handles()
    next(waiting)
    assert leaks.find() == []
    waiting.close()


def test_tasklets_that_wait():
    go_on = roamlet.channel()
    roamlet.tasklet(situations.a_loop_that_remembers)(go_on.receive)
    roamlet.schedule()
    check(leaks.find())
    for _ in range(3):
        go_on.send(None)
    roamlet.schedule()
    assert leaks.find() == []


def test_a_tasklet_that_waits_in_its_except_clause():
    go_on = roamlet.channel()
    roamlet.tasklet(situations.a_loop_that_handles)(go_on.receive)
    roamlet.schedule()
    assert leaks.find() == []
    go_on.send(None)
    roamlet.schedule()


def test_another_thread_that_handles_an_exception():
    inside, go_on = threading.Event(), threading.Event()

    def turn():
        inside.set()
        go_on.wait(20)

    thread = threading.Thread(target=situations.a_loop_that_handles, args=(turn,))
    thread.start()
    assert inside.wait(20)
    try:
        assert leaks.find() == []
    finally:
        go_on.set()
        thread.join()


def test_futures_may_hold_what_somebody_may_still_ask_for():
    with leaks.watch() as seen:
        future = situations.a_future_that_nobody_has_asked_yet()
    assert seen.findings == []
    assert isinstance(future.exception(), ValueError)
    del future


@pytest.mark.roamlet_keeps(reason="run_until_complete() has a cycle of its own, through its local `future`")
@pytest.mark.leaves("objects", reason="run_until_complete() has a cycle of its own, through its local `future`")
def test_tasks_of_asyncio_may_too():
    with leaks.watch() as seen:
        loop, task = situations.a_loop_of_asyncio()
    loop.close()
    assert isinstance(task, asyncio.Task) and task.done()
    assert seen.findings == []
    assert isinstance(task.exception(), ValueError)
    del task


def test_spawned_tasklets_that_nobody_has_joined_may_too():
    with leaks.watch() as seen:
        tasklet = roamlet.spawn(situations.raiser)
        roamlet.run()
    assert seen.findings == []
    with pytest.raises(ValueError, match="<"):
        tasklet.join()


def test_what_the_interpreter_keeps_for_debuggers_is_no_finding(monkeypatch):
    monkeypatch.setattr(sys, "last_value", situations.only_returned(), raising=False)
    assert leaks.find() == []


def test_records_of_logging_hold_exceptions():
    handler = situations.Records()
    logger = logging.Logger("ours")
    logger.addHandler(handler)

    def log():
        much = bytearray(1_000_000)
        try:
            situations.raiser()
        except ValueError:
            logger.exception("it failed %s", len(much))

    with leaks.watch() as seen:
        log()
    (finding,) = seen.findings
    assert (finding.code, finding.name) == ("RL004", "LogRecord.exc_info")
    assert finding.keeps.bytes > 1_000_000  # though the record has the traceback beside the exception
    assert len(finding.keeps.frames) == 2
    handler.records.clear()


def test_context_variables_hold_what_they_are_set_to():
    variable = contextvars.ContextVar("last_failure")

    def fail():
        try:
            situations.raiser()
        except ValueError as error:
            variable.set([error])

    context = contextvars.copy_context()
    with leaks.watch() as seen:
        context.run(fail)
    context.run(variable.set, None)
    (finding,) = seen.findings
    assert (finding.code, finding.name, finding.function.rpartition(".")[2]) == ("RL005", "last_failure", "fail")


def test_a_bare_traceback_holds_frames_too(service):
    def serve():
        try:
            situations.raiser()
        except ValueError:
            service.last = sys.exc_info()[2]

    with leaks.watch() as seen:
        serve()
    (finding,) = seen.findings
    assert (finding.code, finding.name) == ("RL004", "Service.last")


def test_what_led_to_a_held_exception_is_not_reported_beside_it(service):
    def serve():
        try:
            try:
                situations.raiser()
            except ValueError as error:
                raise KeyError(1) from error
        except KeyError as error:
            service.last = error

    with leaks.watch() as seen:
        serve()
    (finding,) = seen.findings
    assert (finding.times, finding.name) == (1, "Service.last")


def test_clear_frames_leaves_the_locals_of_who_called_and_has_ended(service):
    def catcher():
        try:
            situations.raiser()
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)
            service.last = error

    def caller():
        payload = situations.Payload()
        catcher()
        return payload is None

    with leaks.watch() as seen:
        caller()
    (finding,) = seen.findings
    assert finding.name == "Service.last"
    assert len(alive()) == 1


def test_nothing_of_the_program_is_run_to_name_a_holder():
    class Touchy:
        def __getattr__(self, name):
            raise AssertionError(name)

        @property
        def error(self):
            raise AssertionError

        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    holder = Touchy()
    holder.kept = situations.only_returned()
    with leaks.watch() as seen:
        holder.kept = situations.only_returned()
    del holder.kept
    assert [finding.name.rpartition(".")[2] for finding in seen.findings] == ["kept"]


def test_the_finder_leaves_no_frames_of_its_own():
    situations.into_a_global()
    leaks.find()
    assert gc.collect() == 0
    assert [
        thing
        for thing in gc.get_objects()
        if type(thing).__name__ == "frame" and "roamlet_leaks" in thing.f_code.co_filename
    ] == []


def test_a_source_that_is_another_one_now_is_no_end_of_the_search(tmp_path):
    path = tmp_path / "job.py"
    text = "try:\n    fail()\nexcept ValueError as error:\n    last = error\n"
    path.write_text("broken = (\n# roamlet: keep\n")
    job = types.ModuleType("roamlet_job")
    job.fail = situations.raiser
    sys.modules["roamlet_job"] = job
    try:
        with leaks.watch() as seen:
            exec(compile(text, str(path), "exec"), job.__dict__)
    finally:
        del sys.modules["roamlet_job"]
        job.__dict__.clear()
    (finding,) = seen.findings
    assert (finding.path, finding.line, finding.name) == (str(path), 4, "last")


def with_a_great_deal(service):
    great = [[number] for number in range(5000)]
    try:
        situations.raiser()
    except ValueError as error:
        service.last = error
    return len(great)


def test_one_that_holds_a_great_deal_is_measured_in_part_and_hides_no_other(service, monkeypatch):
    monkeypatch.setattr(measure, "MOST_OBJECTS", 2000)
    with leaks.watch() as seen:
        with_a_great_deal(service)
        situations.into_a_global()
    great, small = sorted(seen.findings, key=lambda finding: -finding.keeps.objects)
    assert small.name == "last_error"
    assert 1000 < great.keeps.objects <= 2000


def test_exceptions_whose_attributes_are_functions_of_the_program_run_none_of_them():
    ran = []
    asked = []

    class Odd(ValueError):
        def __getattribute__(self, name):
            ran.append(name)
            return super().__getattribute__(name)

    def keep():
        try:
            raise Odd
        except Odd:
            leaks.find()
        # What happens later concerns its holder.
        asked.extend(ran)

    keep()
    assert asked == []


def test_what_a_decorated_function_stores_with_nonlocal_has_the_name_of_the_variable():
    def decorated(function):
        return lambda: function()

    def made():
        last = None

        @decorated
        def work():
            nonlocal last
            payload = situations.Payload()
            try:
                raise ValueError(payload)
            except ValueError as error:
                last = error

        return work

    with leaks.watch() as seen:
        work = made()
        work()
    (finding,) = seen.findings
    assert (finding.code, finding.name) == ("RL008", "last")
    assert "last = None" in finding.mend and "work" not in finding.mend
    work.__closure__[0].cell_contents.__closure__[0].cell_contents = None
