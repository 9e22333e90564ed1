"""Checkpoints: what a job saves of itself in the middle, when it does, and that it goes on from there."""

import contextlib
import contextvars
import functools
import os
import sys
import threading
from pathlib import Path

import pytest

import roamlet
from roamlet import _checkpoint, snapshot
from roamlet.snapshot.image import file
from roamlet.snapshot.loading import resume
from roamlet.snapshot.saving import checkpoint as _saving
from tests.snapshot import _jobs

results = []
JOBS = _jobs.JOBS + (_jobs.IN_GENERATORS if sys.version_info >= (3, 12) else [])


@pytest.fixture(autouse=True)
def nothing_known():
    yield
    results.clear()
    assert _checkpoint.known == {}


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "job.roamlet")


now = [1000.0]


@pytest.fixture
def clock(monkeypatch):
    """`now` is what time it is."""
    for module in (_checkpoint, _saving, resume):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])


def keep(function, *args):
    result = function(*args)
    results.append(result)


def run(function, *args):
    """What the function returns, run as a job."""
    roamlet.tasklet(keep)(function, *args)
    roamlet.run()
    return results.pop()


def saves_left(monkeypatch, number):
    """Let only so many checkpoints reach the disk: the last one is what a job that was killed then would have left."""
    real = file.replace
    left = [number]

    def replace(written, data):
        left[0] -= 1
        if left[0] >= 0:
            real(written, data)

    monkeypatch.setattr(_saving, "replace", replace)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_goes_on_from_each_of_its_checkpoints(job, path, monkeypatch):
    expected = repr(run(job, path))
    count = expected.count("False")
    assert count >= 2
    for number in range(1, count + 1):
        with monkeypatch.context() as patched:
            saves_left(patched, number)
            assert repr(run(job, path)) == expected
        # Only the checkpoint that it was resumed from says so; those before it said False then, those after it do now.
        snapshot.resume(path)
        roamlet.run()
        wanted = expected.split("False")
        wanted = "False".join(wanted[:number]) + "True" + "False".join(wanted[number:])
        assert repr(results.pop()) == wanted


def test_it_returns_false_here_and_true_once_where_it_was_resumed(path):
    def job():
        said = []
        for _ in range(3):
            said.append(roamlet.checkpoint(path))
        return said

    assert run(job) == [False, False, False]
    tasklet = snapshot.resume(path)
    assert tasklet.scheduled and results == []
    roamlet.run()
    assert results == [[False, False, True]]


def counting_seconds(path, seconds, every):
    """The seconds in which the file was written, and what checkpoint() said in each."""
    said, written = [], []
    for second in seconds:
        now[0] = 1000.0 + second
        before = os.path.exists(path) and os.stat(path).st_mtime_ns
        resumed = roamlet.checkpoint(path, every=every)
        said.append(resumed)
        if not resumed and os.stat(path).st_mtime_ns != before:
            written.append(second)
    return written, said


def test_at_most_once_in_so_many_seconds_the_first_time_at_once(path, clock):
    assert run(counting_seconds, path, list(range(20)), 6) == ([0, 6, 12, 18], [False] * 20)


def test_after_a_resumption_the_time_begins_anew(path, clock):
    seconds = [0, 6, 7, 11, 12, 13]
    assert run(counting_seconds, path, seconds, 6) == ([0, 6, 12], [False] * 6)
    now[0] = 1013.0
    snapshot.resume(path)
    roamlet.run()
    assert results.pop() == ([0, 6], [False] * 4 + [True, False])
    # 13: one second is too early; the time began anew when it was resumed


def test_every_is_a_number_of_seconds(path):
    for bad in ("60", True, [1]):
        with pytest.raises(TypeError, match="takes `every` as a number of seconds, or None for each time, not"):
            roamlet.checkpoint(path, every=bad)
    for bad in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"give a number of seconds >= 0, for example every=60"):
            roamlet.checkpoint(path, every=bad)
    with pytest.raises(TypeError, match="os.PathLike"):
        roamlet.checkpoint(7)
    assert not os.path.exists(path)


def test_any_kind_of_path(path):
    def job():
        return [roamlet.checkpoint(each, every=60) for each in (path, Path(path), os.fsencode(path))]

    assert run(job) == [False] * 3
    assert snapshot.resume(Path(path)).alive
    roamlet.run()
    tasklet = snapshot.resume(os.fsencode(path))
    tasklet.kill()


def test_the_file_is_for_its_owner_alone_and_nothing_lies_beside_it(path):
    before = os.umask(0)
    try:
        run(_jobs.inside_loops, path)
    finally:
        os.umask(before)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.listdir(os.path.dirname(path)) == ["job.roamlet"]


def test_what_the_job_reaches_comes_along(path):
    def job(ch, log):
        roamlet.checkpoint(path)
        ch.send("from the job")
        log.append("sent")

    def waiting(ch, log):
        log.append(ch.receive())

    ch, log = roamlet.channel(), []
    roamlet.tasklet(waiting)(ch, log)
    roamlet.tasklet(job)(ch, log)
    roamlet.run()
    assert sorted(log) == ["from the job", "sent"]

    # `log` is in the file as it was: empty
    tasklet = snapshot.resume(path)
    its_log = tasklet.frame.f_locals["log"]
    assert its_log == []
    roamlet.run()
    assert sorted(its_log) == ["from the job", "sent"]
    assert sorted(log) == ["from the job", "sent"]


def test_nobody_else_runs_while_it_is_saved(path):
    order = []

    def job():
        order.append("before")
        roamlet.checkpoint(path)
        order.append("behind")

    roamlet.tasklet(job)()
    roamlet.tasklet(order.append)("another")
    roamlet.run()
    assert order == ["before", "behind", "another"]


class NotesWhoPickles:
    seen = []

    def __reduce__(self):
        NotesWhoPickles.seen.append(roamlet.getcurrent().atomic)
        return int, ()


def test_whoever_saves_is_not_interrupted_by_slices(path):
    def job():
        thing = NotesWhoPickles()
        roamlet.checkpoint(path)
        return thing

    run(job)
    assert NotesWhoPickles.seen == [True]
    assert not roamlet.getcurrent().atomic


def test_atomic_depth_context_and_the_error_that_is_handled_are_there_again(path):
    log = []

    def job():
        variable.set(5)
        try:
            raise LookupError("being handled")
        except LookupError:
            with roamlet.atomic():
                roamlet.checkpoint(path)
                log.append((roamlet.getcurrent().atomic, variable.get(), repr(sys.exc_info()[1])))
        log.append(roamlet.getcurrent().atomic)
        return log

    expected = [(True, 5, "LookupError('being handled')"), False]
    assert run(job) == expected
    snapshot.resume(path)
    roamlet.run()
    assert results.pop() == expected
    assert variable.get() == 0


variable = contextvars.ContextVar("variable", default=0)


def test_a_variable_that_cannot_be_named_is_left_out_with_a_warning_at_the_job(path):
    hidden = contextvars.ContextVar("of a library")

    def job():
        roamlet.checkpoint(path)

    def start():
        hidden.set(1)
        run(job)

    with pytest.warns(snapshot.LeftOut, match="the context variables 'of a library', which are no") as told:
        contextvars.copy_context().run(start)
    assert [each.filename for each in told] == [__file__]


def test_a_job_that_was_spawned_is_joined_here_and_where_it_is_resumed(path):
    def job(number):
        resumed = roamlet.checkpoint(path)
        if number < 0:
            raise LookupError(f"of the job, {resumed}")
        return number, resumed

    assert roamlet.spawn(job, (7,)).join() == (7, False)
    copy = snapshot.resume(path)
    assert not copy.done
    assert copy.join() == (7, True)
    failing = roamlet.spawn(job, (-1,))
    with pytest.raises(LookupError, match="of the job, False"):
        failing.join()
    copy = snapshot.resume(path)
    with pytest.raises(LookupError, match="of the job, True"):
        copy.join()


def test_a_spawned_job_that_is_killed_after_it_was_resumed_says_so(path):
    def job():
        roamlet.checkpoint(path)
        roamlet.channel().receive()

    first = roamlet.spawn(job)
    roamlet.schedule()
    copy = snapshot.resume(path)
    roamlet.schedule()
    for each in (first, copy):
        assert each.blocked
        each.kill()
        with pytest.raises(roamlet.TaskletKilled, match="was killed before it had a result"):
            each.join()


def test_in_a_thread_and_under_slices(path):
    def job():
        total = 0
        for number in range(2000):
            total += number
            roamlet.checkpoint(path, every=3600)
        return total

    def work():
        roamlet.tasklet(keep)(job)
        roamlet.run(slice=0.001)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results.pop() == sum(range(2000))
    snapshot.resume(path)
    roamlet.run()
    assert results.pop() == sum(range(2000))


# ---- what is refused ----


def test_the_main_tasklet_is_refused(path):
    with pytest.raises(snapshot.CannotSave, match=r"it is the main tasklet of its thread.*Start the work in a tasklet"):
        roamlet.checkpoint(path)
    assert not os.path.exists(path)


def refused(function, path):
    def job():
        try:
            function()
        except snapshot.CannotSave as error:
            return str(error)
        return "it was saved"

    said = run(job)
    assert not os.path.exists(path)
    return said


def test_c_code_in_between_is_named(path):
    said = refused(lambda: sorted([2, 1], key=lambda _: roamlet.checkpoint(path)), path)
    assert "the call of <built-in function sorted> in " in said
    assert "what C code was about to do next cannot be saved" in said
    assert "/_checkpoint.py" not in said  # the frames that are named are the job's own
    said = refused(lambda: list(map(roamlet.checkpoint, [path])), path)
    assert "the call of <class 'list'> in " in said


def test_a_scope_is_named(path):
    def job():
        with roamlet.timeout(60):
            roamlet.checkpoint(path)

    assert "it is inside a scope or a time-out" in refused(job, path)


def test_the_variable_is_named(path):
    def job():
        mutex = threading.Lock()
        mutex.acquire()
        roamlet.checkpoint(path)
        return mutex

    said = refused(job, path)
    assert "the variable 'mutex' of " in said
    assert "test_checkpoint.py, line " in said


def test_a_job_that_is_nothing_but_the_call_has_nothing_to_save(path):
    roamlet.tasklet(roamlet.checkpoint)(path)
    with pytest.raises(snapshot.CannotSave, match="it runs nothing but checkpoint"):
        roamlet.run()


def test_a_partial_of_it_is_called_through(path):
    def job():
        return functools.partial(roamlet.checkpoint, path)()

    assert run(job) is False
    snapshot.resume(path)
    roamlet.run()
    assert results.pop() is True


class Switches:
    def __init__(self, ch):
        self.ch = ch

    def __reduce__(self):
        self.ch.receive()
        return int, ()


def test_what_blocks_while_it_is_pickled_is_said(path):
    def job():
        thing = Switches(roamlet.channel())
        roamlet.checkpoint(path)
        return thing

    assert "switches tasklets while it is pickled" in refused(job, path)


def test_a_job_goes_on_when_it_could_not_be_saved_and_tries_again(path):
    def job():
        mutex = threading.Lock()
        mutex.acquire()
        with contextlib.suppress(snapshot.CannotSave):
            roamlet.checkpoint(path, every=60)
        assert not os.path.exists(path)
        del mutex
        roamlet.checkpoint(path, every=60)
        return os.path.exists(path)

    assert run(job) is True
