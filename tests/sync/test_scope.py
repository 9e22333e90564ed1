"""scope: children end before it does, the first error cancels the others, and all errors come together."""

import threading
import weakref

import pytest

import roamlet
from tests.core._threads import in_thread


class Odd(Exception):
    pass


def fails(error=None, after=None):
    if after is not None:
        roamlet.sleep(after)
    try:
        raise error or Odd("failed")
    finally:
        del error  # the frame is in its traceback


def notes(log, name, body=None):
    """Run the body, wait for ever without one, and note how that ended."""
    try:
        (body or roamlet.channel().receive)()
        log.append(f"{name} is done")
    except BaseException as error:
        log.append(f"{name}: {type(error).__name__}")
        raise


def descend(s, depth, log):
    """Spawn the next of a chain, and end before it does."""
    roamlet.schedule()
    if depth:
        s.spawn(descend, (s, depth - 1, log))
    log.append(depth)


def forms(group):
    """The types of a group's errors, nested ones too."""
    return [forms(error) if isinstance(error, BaseExceptionGroup) else type(error) for error in group.exceptions]


def left_with(body):
    """What a call raises, as the (nested) types in its group, or as its own type."""
    try:
        body()
    except BaseExceptionGroup as group:
        return forms(group)
    except BaseException as error:
        return type(error)
    return None


# ---- results and ends ----


def test_leaving_waits_for_the_children():
    log = []
    with roamlet.scope() as s:
        for number in range(3):
            s.spawn(lambda number=number: log.append(roamlet.schedule(number)))
        assert log == []
    assert log == [0, 1, 2]


def test_children_have_results():
    with roamlet.scope() as s:
        one = s.spawn(divmod, (7, 2))
        two = s.spawn(int, ["11"], {"base": 2})
        assert one.join() == (3, 1)
    assert (two.done, two.result) == (True, 3)


def test_children_of_children_are_waited_for():
    log = []
    with roamlet.scope() as s:
        s.spawn(descend, (s, 3, log))
    assert log == [3, 2, 1, 0]


def test_a_scope_without_children_costs_no_switch():
    log = []
    roamlet.tasklet(log.append)("another")
    with roamlet.scope():
        pass
    assert log == []
    roamlet.run()


# ---- errors ----


def test_the_first_error_cancels_the_others_and_the_body():
    log = []

    def body():
        with roamlet.scope() as s:
            s.spawn(notes, (log, "waits"))
            s.spawn(fails)
            notes(log, "body")

    assert left_with(body) == [Odd]
    assert sorted(log) == ["body: Cancelled", "waits: Cancelled"]


def test_an_error_comes_as_a_group_also_a_single_one_and_also_the_bodys():
    def of_child():
        with roamlet.scope() as s:
            s.spawn(fails)

    def of_body():
        with roamlet.scope():
            fails()

    for body in (of_child, of_body):
        with pytest.raises(ExceptionGroup, match=r"errors in roamlet\.scope\(\)") as caught:
            body()
        assert [str(error) for error in caught.value.exceptions] == ["failed"]
        del caught


def test_an_error_of_the_body_cancels_the_children():
    log = []

    def body():
        with roamlet.scope() as s:
            s.spawn(notes, (log, "child"))
            roamlet.schedule()
            fails()

    assert left_with(body) == [Odd]
    assert log == ["child: Cancelled"]


def test_errors_of_finally_blocks_join_the_first():
    def child():
        try:
            roamlet.channel().receive()
        finally:
            raise ValueError

    def body():
        with roamlet.scope() as s:
            s.spawn(child)
            s.spawn(child)
            s.spawn(fails)

    assert left_with(body) == [Odd, ValueError, ValueError]


def test_the_body_joins_a_child_that_fails_and_the_error_is_raised_once():
    def body():
        with roamlet.scope() as s:
            s.spawn(fails).join()

    assert left_with(body) == [Odd]


def test_who_joins_from_outside_gets_an_error_of_its_own():
    errors = []

    def outside(child):
        try:
            child.join()
        except Odd as error:
            errors.append(error)

    def body():
        with roamlet.scope() as s:
            roamlet.tasklet(outside)(s.spawn(fails))
            roamlet.schedule()

    assert left_with(body) == [Odd]
    roamlet.run()
    assert "comes from" in errors[0].__notes__[0]
    errors.clear()


def test_an_error_that_its_scope_has_raised_is_not_raised_in_main_again():
    def body():
        with roamlet.scope() as s:
            s.spawn(fails)

    assert left_with(body) == [Odd]
    roamlet.run()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["body", "child"])
def test_what_ends_programs_comes_as_it_is_with_the_others_as_its_cause(stop, where):
    def child():
        try:
            roamlet.channel().receive()
        finally:
            raise Odd

    def body():
        with roamlet.scope() as s:
            s.spawn(child)
            if where == "child":
                s.spawn(fails, (stop(),))
                roamlet.channel().receive()
            roamlet.schedule()
            fails(stop())

    with pytest.raises(stop) as caught:
        body()
    assert forms(caught.value.__cause__) == [Odd]
    del caught


def test_nested_scopes_nest_their_groups():
    def inner():
        with roamlet.scope() as s:
            s.spawn(fails)
            s.spawn(fails, (ValueError(),))

    def body():
        with roamlet.scope() as s:
            s.spawn(inner)

    assert left_with(body) == [[Odd, ValueError]]


def test_an_inner_scope_that_fails_leaves_the_outer_ones_children_alone():
    log = []
    with roamlet.scope() as outer:
        outer.spawn(notes, (log, "outer child", lambda: roamlet.sleep(0)))
        try:
            with roamlet.scope() as inner:
                inner.spawn(fails)
        except* Odd:
            log.append("caught")
    assert log == ["caught", "outer child is done"]
    assert (inner.cancelled, outer.cancelled) == (True, False)


# ---- cancelling ----


def test_cancel_ends_body_and_children_and_raises_nothing():
    log = []
    with roamlet.scope() as s:
        s.spawn(notes, (log, "child"))
        roamlet.schedule()
        s.cancel()
        assert s.cancelled
        notes(log, "body")
        log.append("not reached")
    assert log == ["body: Cancelled", "child: Cancelled"]
    roamlet.sleep(0)


def test_a_cancelled_child_is_told_so_at_every_blocking_call_unless_it_is_shielded():
    log = []

    def child():
        try:
            roamlet.channel().receive()
        finally:
            try:
                notes(log, "again", lambda: roamlet.sleep(0))
            finally:
                with roamlet.shield():
                    notes(log, "shielded", lambda: roamlet.sleep(0))

    with roamlet.scope() as s:
        kept = s.spawn(child)
        roamlet.schedule()
        s.cancel()
    assert log == ["again: Cancelled", "shielded is done"]
    with pytest.raises(roamlet.TaskletKilled, match="child was cancelled before it had a result"):
        kept.join()


def test_a_child_that_is_spawned_into_a_cancelled_scope_runs_until_it_blocks():
    log = []
    with roamlet.scope() as s:
        s.cancel()
        s.spawn(lambda: (log.append("begins"), notes(log, "child")))
    assert log == ["begins", "child: Cancelled"]


def test_cancelling_an_outer_scope_reaches_all_inside():
    log = []

    def nested():
        with roamlet.scope() as inner:
            inner.spawn(notes, (log, "grandchild"))
            notes(log, "inner body")
        log.append("not reached")

    with roamlet.scope() as outer:
        outer.spawn(nested)
        roamlet.schedule()
        roamlet.schedule()
        outer.cancel()
    assert sorted(log) == ["grandchild: Cancelled", "inner body: Cancelled"]


def test_what_follows_an_inner_scope_whose_children_were_cancelled_from_outside_does_not_run():
    log = []
    with roamlet.scope() as outer:
        with roamlet.scope() as inner:
            inner.spawn(notes, (log, "child"))
            roamlet.schedule()
            outer.cancel()
            with roamlet.shield():
                roamlet.schedule()
        log.append("not reached")
    assert log == ["child: Cancelled"]


def test_a_child_may_cancel_the_scope():
    log = []
    with roamlet.scope() as s:
        s.spawn(lambda: s.cancel())
        notes(log, "body")
    assert log == ["body: Cancelled"]


def test_a_time_out_around_a_scope_ends_its_children(clock):
    log = []
    with pytest.raises(TimeoutError, match=r"roamlet\.timeout\(2\): not done within 2 seconds"):
        with roamlet.timeout(2), roamlet.scope() as s:
            s.spawn(notes, (log, "child"))
    assert (log, clock.jumps) == (["child: Cancelled"], [2.0])


# ---- kill ----


def test_whoever_is_killed_in_a_scope_ends_its_children_first():
    log = []

    def owner():
        with roamlet.scope() as s:
            s.spawn(notes, (log, "child"))
            notes(log, "body")
        log.append("not reached")

    killed = roamlet.tasklet(owner)()
    roamlet.schedule()
    roamlet.schedule()
    killed.kill()
    roamlet.run()
    assert (log, killed.alive) == (["body: TaskletExit", "child: Cancelled"], False)


@pytest.mark.parametrize("again", [False, True])
def test_whoever_is_killed_while_it_waits_for_its_children_still_does(again):
    log, gate = [], roamlet.channel()

    def child():
        try:
            roamlet.channel().receive()
        finally:
            with roamlet.shield():
                gate.receive()
            log.append("child has ended")

    def owner():
        try:
            with roamlet.scope() as s:
                s.spawn(child)
        except BaseException as error:
            log.append(type(error).__name__)
            raise

    killed = roamlet.tasklet(owner)()
    roamlet.schedule()
    roamlet.schedule()
    killed.kill()
    if again:
        killed.kill()
    assert log == []
    gate.send(None)
    roamlet.run()
    assert log == ["child has ended", "TaskletExit"]


def test_an_error_in_a_child_of_a_killed_tasklet_is_not_lost():
    def child():
        try:
            roamlet.channel().receive()
        finally:
            raise Odd

    def owner():
        with roamlet.scope() as s:
            s.spawn(child)
            roamlet.channel().receive()

    killed = roamlet.tasklet(owner)()
    roamlet.schedule()
    roamlet.schedule()
    killed.kill()
    assert left_with(roamlet.run) == [Odd]


@pytest.mark.parametrize("began", [False, True])
def test_a_single_child_that_is_killed_ends_quietly(began):
    log = []
    with roamlet.scope() as s:
        child = s.spawn(notes, (log, "killed"))
        s.spawn(notes, (log, "other", lambda: roamlet.sleep(0)))
        if began:
            roamlet.schedule()
        child.kill()
    assert log == ["killed: TaskletExit"] * began + ["other is done"]
    assert not s.cancelled


# ---- services ----


def test_a_service_is_cancelled_when_the_others_are_done():
    log, jobs = [], roamlet.channel()

    def serve():
        try:
            for job in jobs:
                log.append(job)
        finally:
            with roamlet.shield():
                roamlet.sleep(0)
            log.append("closed")

    with roamlet.scope() as s:
        service = s.service(serve)
        s.spawn(jobs.send, (1,))
        jobs.send(2)
    assert log == [2, 1, "closed"]
    assert service.join() is None
    assert not s.cancelled


def test_a_service_may_end_by_itself_and_has_a_result():
    with roamlet.scope() as s:
        service = s.service(lambda: 5)
        roamlet.schedule()
    assert service.result == 5


def test_a_service_that_fails_cancels_the_others():
    log = []

    def body():
        with roamlet.scope() as s:
            s.service(fails)
            s.spawn(notes, (log, "child"))

    assert left_with(body) == [Odd]
    assert log == ["child: Cancelled"]


def test_a_service_that_has_not_begun_when_all_others_are_done_runs_until_it_blocks():
    log = []
    with roamlet.scope() as s:
        s.service(notes, (log, "service"))
    assert log == ["service: Cancelled"]


def test_services_are_used_while_children_end(clock):
    log, jobs = [], roamlet.channel()

    def child():
        try:
            roamlet.sleep(5)
        finally:
            jobs.send("last words")

    with roamlet.scope() as s:
        s.service(lambda: [log.append(job) for job in jobs])
        s.spawn(child)
    assert log == ["last words"]


# ---- other threads ----


def test_children_in_another_thread():
    log = []

    def other(s):
        child = s.spawn(lambda: log.append(roamlet.schedule(threading.get_ident())))
        child.join()

    with roamlet.scope() as s:
        thread = threading.Thread(target=other, args=(s,))
        s.spawn(thread.start)
        s.spawn(roamlet.sleep, (0,)).join()
        ident = thread.ident
        while not log:
            roamlet.sleep(0.001)
    thread.join()
    assert log == [ident]


def test_a_child_in_another_thread_is_cancelled_and_waited_for():
    log, spawned, done = [], threading.Event(), roamlet.channel()

    def other(s):
        s.spawn(notes, (log, "child"))
        spawned.set()
        done.receive()

    def body():
        with roamlet.scope() as s:
            thread = threading.Thread(target=other, args=(s,))
            thread.start()
            spawned.wait()
            try:
                fails()
            finally:
                threads.append(thread)

    threads = []
    assert left_with(body) == [Odd]
    assert log == ["child: Cancelled"]
    done.send(None)
    threads[0].join()


def test_a_scope_in_a_thread_without_tasklets():
    def other():
        log = []
        with roamlet.scope() as s:
            s.spawn(log.append, (1,))
        return log

    assert in_thread(other) == [1]


def test_children_end_with_their_thread():
    def other():
        log = []

        def owner():
            with roamlet.scope() as s:
                s.spawn(notes, (log, "child"))
                notes(log, "body")

        roamlet.tasklet(owner)()
        roamlet.schedule()
        roamlet.schedule()
        return log

    log = in_thread(other)
    assert sorted(log) == ["body: TaskletExit", "child: TaskletExit"]


def lose(s, spawn, begins):
    """Let a thread spawn a child into the scope, and end before the child does."""

    def other():
        getattr(s, spawn)(notes, ([], "child"))
        if begins:
            roamlet.schedule()

    thread = threading.Thread(target=other, name="hasty")
    thread.start()
    thread.join()


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("spawn", ["spawn", "service"])
def test_a_child_that_ends_with_its_thread_is_an_error_of_the_scope(spawn, begins):
    log = []

    def body():
        with roamlet.scope() as s:
            s.spawn(notes, (log, "other"))
            roamlet.schedule()
            lose(s, spawn, begins)

    with pytest.raises(ExceptionGroup) as caught:
        body()
    (error,) = caught.value.exceptions
    assert (type(error), log) == (roamlet.TaskletKilled, ["other: Cancelled"])
    assert str(error).startswith(
        "notes was ended before it was done, because its thread, hasty, has ended: a thread that"
    )
    del caught, error


@pytest.mark.parametrize("begins", [False, True])
def test_a_child_that_was_cancelled_before_its_thread_ended_is_none(begins):
    with roamlet.scope() as s:  # raises nothing
        s.cancel()
        lose(s, "spawn", begins)
    assert s.cancelled


@pytest.mark.parametrize("begins", [False, True])
def test_a_child_that_was_killed_in_another_thread_is_none(begins):
    def other(s):
        child = s.spawn(roamlet.channel().receive)
        if begins:
            roamlet.schedule()
        child.kill()
        killed.append(not child.alive)

    killed = []
    with roamlet.scope() as s:  # raises nothing
        in_thread(lambda: other(s))
    assert killed == [True]


def test_the_function_of_a_worker_spawns_nothing_into_the_callers_scope():
    with roamlet.scope() as s:
        with pytest.raises(
            RuntimeError, match=r"<roamlet\.scope, entered, 0 children, at 0x\w+> takes no tasklets in roamlet-"
        ):
            roamlet.call_async(lambda: s.spawn(print))


def test_the_function_of_a_worker_may_have_a_scope_of_its_own():
    def job():
        with roamlet.scope() as s:
            return s.spawn(lambda: 5).join()

    assert roamlet.call_async(job) == 5


# ---- messages and names ----


def test_what_cancelled_it_is_named():
    with roamlet.scope() as s:
        s.cancel()
        with pytest.raises(roamlet.Cancelled, match=r"^roamlet\.scope\(\) was cancelled$"):
            roamlet.sleep(0)


def test_a_scope_has_no_other_names_than_those_for_its_users():
    names = {name for name in dir(roamlet.scope) if not name.startswith("_")}
    assert names == {"spawn", "service", "cancel", "cancelled"}


def test_a_scope_that_is_left_in_another_order_is_named():
    outer, inner = roamlet.scope(), roamlet.timeout(5)
    with outer:
        with inner:
            with pytest.raises(
                RuntimeError, match=r"^roamlet\.scope\(\) is left where it is not the innermost scope of"
            ):
                outer._limit.__exit__(None, None, None)


# ---- misuse ----


def test_a_scope_that_is_not_entered_or_is_over_takes_no_tasklets():
    s = roamlet.scope()
    for name in ("spawn", "service"):
        with pytest.raises(
            RuntimeError, match="this scope is not entered, and takes no more tasklets: `with roamlet.scope"
        ):
            getattr(s, name)(print)
    with s:
        pass
    for name in ("spawn", "service"):
        with pytest.raises(RuntimeError, match="this scope is over, and takes no more tasklets: `with roamlet.scope"):
            getattr(s, name)(print)
    with pytest.raises(RuntimeError, match="this scope is over: make a new one"):
        s.__enter__()


def test_a_scope_is_entered_once():
    with roamlet.scope() as s:
        with pytest.raises(RuntimeError, match="this scope is entered: make a new one"):
            s.__enter__()


@pytest.mark.parametrize("name", ["spawn", "service"])
def test_what_cannot_be_called_is_refused(name):
    with roamlet.scope() as s:
        with pytest.raises(TypeError, match=rf"scope\.{name}\(\) takes a callable, and its arguments apart"):
            getattr(s, name)(None)


def test_nobody_can_ever_end_it_is_a_deadlock_and_ends_the_children():
    log = []

    def body():
        with roamlet.scope() as s:
            s.spawn(notes, (log, "child"))

    assert left_with(body) == [roamlet.Deadlock]
    assert log == ["child: Cancelled"]


def test_children_that_wait_for_ever_in_a_shield_are_killed():
    log = []

    def child():
        with roamlet.shield():
            notes(log, "child")

    def body():
        with roamlet.scope() as s:
            s.spawn(child)

    assert left_with(body) == [roamlet.Deadlock]
    assert log == ["child: TaskletExit"]


def test_a_child_that_refuses_to_end_is_given_up():
    tries, gate = [], roamlet.channel()

    def child():
        with roamlet.shield():
            while True:
                try:
                    gate.receive()
                except roamlet.TaskletExit:
                    tries.append(1)
                    continue
                return

    def body():
        with roamlet.scope() as s:
            s.spawn(child)

    with pytest.raises(ExceptionGroup) as caught:
        body()
    assert [type(error) for error in caught.value.exceptions] == [roamlet.Deadlock, RuntimeError]
    assert "did not end when killed: [<Spawned " in str(caught.value.exceptions[1])
    del caught
    assert len(tries) >= 10
    gate.send(None)
    roamlet.run()


def test_where_nobody_may_wait_it_is_left_with_an_error():
    log = []

    def body():
        with roamlet.scope() as s:
            s.spawn(notes, (log, "child"))
            roamlet.schedule()
            roamlet.getcurrent().block_trap = True

    try:
        assert left_with(body) == [RuntimeError, RuntimeError]
    finally:
        roamlet.getcurrent().block_trap = False
    roamlet.run()
    assert log == ["child: TaskletExit"]


# ---- memory ----


def test_errors_of_children_make_no_cycle():
    gone = []

    class Mark(Exception):
        pass

    def child(s):
        gone.append(weakref.ref(s))
        raise Mark

    def body():
        try:
            with roamlet.scope() as s:
                s.spawn(child, (s,))
        except* Mark as group:
            gone.extend(weakref.ref(error) for error in group.exceptions)

    body()
    assert [ref() for ref in gone] == [None, None]


def test_an_error_of_the_body_makes_no_cycle():
    gone = []

    class Mark(Exception):
        pass

    def body():
        try:
            with roamlet.scope() as s:
                gone.append(weakref.ref(s))
                raise Mark
        except* Mark as group:
            gone.extend(weakref.ref(error) for error in group.exceptions)

    body()
    assert [ref() for ref in gone] == [None, None]
