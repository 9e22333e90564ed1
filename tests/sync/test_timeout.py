"""timeout and shield: limits of time, nested ones too, and what is kept from a tasklet that is being ended."""

import threading

import pytest

import roamlet
from roamlet.core import CancelScope


def wait_for_ever():
    roamlet.channel().receive()


def waits(seconds, log=None):
    """Sleep; note that the sleep was cancelled."""
    try:
        roamlet.sleep(seconds)
    except roamlet.Cancelled:
        if log is not None:
            log.append("cancelled")
        raise


def test_leaving_raises_when_the_time_was_over(clock):
    with pytest.raises(TimeoutError, match=r"^roamlet\.timeout\(2\.5\): not done within 2\.5 seconds$") as caught:
        with roamlet.timeout(2.5) as limit:
            wait_for_ever()
    assert isinstance(caught.value.__cause__, roamlet.Cancelled)
    assert caught.value.__cause__.__traceback__.tb_next.tb_frame.f_code.co_name == "wait_for_ever"
    assert (limit.expired, clock.jumps) == (True, [2.5])
    del caught


def test_who_is_done_in_time_has_no_error(clock):
    with roamlet.timeout(2) as limit:
        roamlet.sleep(1)
    assert not limit.expired
    roamlet.sleep(5)


def test_what_does_not_block_is_not_interrupted(clock):
    with roamlet.timeout(2) as limit:
        clock.now += 5
    assert limit.expired


def test_inside_each_blocking_call_raises_until_it_is_left(clock):
    log = []

    def body():
        with roamlet.timeout(1):
            for _ in range(3):
                try:
                    wait_for_ever()
                except roamlet.Cancelled:
                    log.append("cancelled")
            wait_for_ever()

    with pytest.raises(TimeoutError):
        body()
    assert log == ["cancelled"] * 3
    roamlet.sleep(1)


def test_a_body_that_gets_done_after_all_has_no_error(clock):
    with roamlet.timeout(1) as limit:
        try:
            wait_for_ever()
        except roamlet.Cancelled:
            pass
    assert limit.expired


def test_another_error_of_the_body_comes_through(clock):
    def body():
        with roamlet.timeout(1):
            try:
                wait_for_ever()
            finally:
                raise KeyError

    with pytest.raises(KeyError):
        body()


@pytest.mark.parametrize("seconds", [0, 0.0])
def test_no_time_at_all_ends_the_first_blocking_call(seconds, clock):
    with pytest.raises(TimeoutError, match="not done within 0"), roamlet.timeout(seconds):
        roamlet.sleep(0)


def test_none_is_no_limit(clock):
    with roamlet.timeout(None) as limit:
        roamlet.sleep(1000)
    assert (limit.expired, repr(limit)) == (False, "roamlet.timeout(None)")


@pytest.mark.parametrize(("bad", "error"), [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError)])
@pytest.mark.parametrize("form", [roamlet.timeout, roamlet.shield])
def test_a_limit_that_is_no_number_from_0_on_is_refused(form, bad, error):
    with pytest.raises(error, match=rf"^roamlet\.{form.__name__} takes a number of seconds"):
        form(bad)
    with form() if form is roamlet.shield else form(1) as limit:
        with pytest.raises(error, match=r"^reschedule\(\) takes a number of seconds"):
            limit.reschedule(bad)


def test_it_is_entered_once():
    with roamlet.timeout(1) as limit:
        with pytest.raises(RuntimeError, match="entered once"):
            limit.__enter__()


# ---- nested ----


def test_of_two_the_earlier_one_raises(clock):
    log = []
    with roamlet.timeout(10):
        with pytest.raises(TimeoutError, match=r"timeout\(1\)"), roamlet.timeout(1):
            waits(100, log)
        roamlet.sleep(2)
    assert (log, clock.jumps) == (["cancelled"], [1.0, 2.0])


def test_when_the_outer_one_is_over_the_inner_ones_are_left_without_an_error_of_theirs(clock):
    log = []

    def body():
        with roamlet.timeout(1) as outer:
            try:
                with roamlet.timeout(10) as inner:
                    wait_for_ever()
            finally:
                log.append((outer.expired, inner.expired))
                waits(0, log)

    with pytest.raises(TimeoutError, match=r"timeout\(1\)"):
        body()
    assert log == [(True, False), "cancelled"]


@pytest.mark.parametrize("how", ["at once", "one after the other"])
def test_when_both_are_over_the_outer_one_raises(how, clock):
    log = []

    def body():
        with roamlet.timeout(2):
            try:
                with roamlet.timeout(2 if how == "at once" else 1):
                    if how == "at once":
                        wait_for_ever()
                    clock.now += 3
                    roamlet.sleep(0)
            except TimeoutError:
                log.append("the inner one")

    with pytest.raises(TimeoutError, match=r"timeout\(2\)"):
        body()
    assert log == []


def test_a_scope_that_is_cancelled_wins_over_time_outs_inside(clock):
    log = []
    with roamlet.scope() as s:
        s.spawn(lambda: (waits(1), s.cancel()))
        try:
            with roamlet.timeout(5):
                wait_for_ever()
        except TimeoutError:
            log.append("not reached")
    assert (log, clock.jumps) == ([], [1.0])


def test_a_kill_inside_is_no_time_out(clock):
    log = []

    def body():
        try:
            with roamlet.timeout(5):
                wait_for_ever()
        except BaseException as error:
            log.append(type(error))
            raise

    tasklet = roamlet.tasklet(body)()
    roamlet.schedule()
    tasklet.kill()
    assert log == [roamlet.TaskletExit]


# ---- reschedule ----


def test_a_limit_can_be_moved(clock):
    def body():
        with roamlet.timeout(1) as limit:
            roamlet.sleep(0.5)
            limit.reschedule(3)
            roamlet.sleep(2.5)
            assert not limit.expired
            wait_for_ever()

    with pytest.raises(TimeoutError, match=r"roamlet\.timeout\(3\): not done within 3 seconds"):
        body()
    assert clock.jumps == [0.5, 2.5, 0.5]


def test_a_limit_can_be_taken_away(clock):
    with roamlet.timeout(1) as limit:
        limit.reschedule(None)
        roamlet.sleep(5)
    assert not limit.expired


def test_a_limit_can_be_given_later_and_moved_while_it_is_waited_for(clock):
    def move():
        roamlet.sleep(1)
        limit.reschedule(1)

    roamlet.tasklet(move)()
    with pytest.raises(TimeoutError):
        with roamlet.timeout(None) as limit:
            wait_for_ever()
    assert clock.jumps == [1.0, 1.0]


def test_what_has_expired_is_not_moved(clock):
    with roamlet.timeout(1) as limit:
        clock.now += 2
        with pytest.raises(RuntimeError, match=r"roamlet\.timeout\(1\) has expired, and what is in it was told so"):
            limit.reschedule(5)


def test_a_limit_that_is_not_entered_or_left_is_not_moved():
    limit = roamlet.timeout(1)
    with pytest.raises(
        RuntimeError, match=r"reschedule\(\): roamlet\.timeout\(1\) is not entered yet: a limit is moved while"
    ):
        limit.reschedule(5)
    with limit:
        pass
    with pytest.raises(
        RuntimeError, match=r"reschedule\(\): roamlet\.timeout\(1\) has been left: a limit is moved while"
    ):
        limit.reschedule(5)


@pytest.mark.parametrize("form", [roamlet.timeout, roamlet.shield])
def test_what_blocks_inside_is_told_whose_time_is_over(form, clock):
    with form(1) as limit:
        limit.reschedule(0.5)
        with pytest.raises(roamlet.Cancelled, match=rf"^roamlet\.{form.__name__}\(0\.5\): its time is over$"):
            wait_for_ever()


def test_a_limit_that_is_left_in_another_tasklet_is_named():
    with roamlet.timeout(5) as limit:
        with pytest.raises(
            RuntimeError, match=r"^roamlet\.timeout\(5\) is left where it is not the innermost scope of .*Spawned"
        ):
            roamlet.spawn(limit.__exit__, (None, None, None)).join()


def test_another_thread_can_move_a_limit():
    limit = roamlet.timeout(1000)
    thread = threading.Thread(target=limit.reschedule, args=(0,))

    def body():
        with limit:
            thread.start()
            wait_for_ever()

    with pytest.raises(TimeoutError):
        body()
    thread.join()


# ---- shield ----


def test_a_shield_keeps_off_what_is_around_it(clock):
    log = []

    def body():
        with roamlet.timeout(1):
            with roamlet.shield():
                roamlet.sleep(5)
                log.append("slept")
            waits(0, log)

    with pytest.raises(TimeoutError):
        body()
    assert log == ["slept", "cancelled"]


def test_a_shield_in_a_finally_block_of_a_cancelled_tasklet(clock):
    log = []

    def child():
        try:
            wait_for_ever()
        finally:
            with roamlet.shield(5):
                roamlet.sleep(1)
            log.append("closed")

    with roamlet.scope() as s:
        s.spawn(child)
        roamlet.schedule()
        s.cancel()
    assert log == ["closed"]


def test_a_shield_with_a_limit_raises_when_that_is_over(clock):
    with pytest.raises(TimeoutError, match=r"roamlet\.shield\(2\): not done within 2 seconds"):
        with roamlet.shield(2):
            wait_for_ever()
    assert clock.jumps == [2.0]


def test_a_shield_does_not_keep_off_a_kill():
    log = []

    def body():
        with roamlet.shield():
            try:
                wait_for_ever()
            finally:
                log.append("killed")

    tasklet = roamlet.tasklet(body)()
    roamlet.schedule()
    tasklet.kill()
    assert log == ["killed"]


def test_a_time_out_inside_a_shield_counts(clock):
    with CancelScope() as outer:
        outer.cancel()
        with roamlet.shield():
            with pytest.raises(TimeoutError), roamlet.timeout(1):
                wait_for_ever()
    assert clock.jumps == [1.0]
