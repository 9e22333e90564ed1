"""timeout and shield: limits of time, nested ones too, and what is kept from a tasklet that is being ended."""

import threading

import pytest

import weft
from weft.core import CancelScope


def wait_for_ever():
    weft.channel().receive()


def waits(seconds, log=None):
    """Sleep; note that the sleep was cancelled."""
    try:
        weft.sleep(seconds)
    except weft.Cancelled:
        if log is not None:
            log.append("cancelled")
        raise


def test_leaving_raises_when_the_time_was_over(clock):
    with pytest.raises(TimeoutError, match=r"^weft\.timeout\(2\.5\): not done within 2\.5 seconds$") as caught:
        with weft.timeout(2.5) as limit:
            wait_for_ever()
    assert isinstance(caught.value.__cause__, weft.Cancelled)
    assert caught.value.__cause__.__traceback__.tb_next.tb_frame.f_code.co_name == "wait_for_ever"
    assert (limit.expired, clock.jumps) == (True, [2.5])
    del caught


def test_who_is_done_in_time_has_no_error(clock):
    with weft.timeout(2) as limit:
        weft.sleep(1)
    assert not limit.expired
    weft.sleep(5)


def test_what_does_not_block_is_not_interrupted(clock):
    with weft.timeout(2) as limit:
        clock.now += 5
    assert limit.expired


def test_inside_each_blocking_call_raises_until_it_is_left(clock):
    log = []

    def body():
        with weft.timeout(1):
            for _ in range(3):
                try:
                    wait_for_ever()
                except weft.Cancelled:
                    log.append("cancelled")
            wait_for_ever()

    with pytest.raises(TimeoutError):
        body()
    assert log == ["cancelled"] * 3
    weft.sleep(1)


def test_a_body_that_gets_done_after_all_has_no_error(clock):
    with weft.timeout(1) as limit:
        try:
            wait_for_ever()
        except weft.Cancelled:
            pass
    assert limit.expired


def test_another_error_of_the_body_comes_through(clock):
    def body():
        with weft.timeout(1):
            try:
                wait_for_ever()
            finally:
                raise KeyError

    with pytest.raises(KeyError):
        body()


@pytest.mark.parametrize("seconds", [0, 0.0])
def test_no_time_at_all_ends_the_first_blocking_call(seconds, clock):
    with pytest.raises(TimeoutError, match="not done within 0"), weft.timeout(seconds):
        weft.sleep(0)


def test_none_is_no_limit(clock):
    with weft.timeout(None) as limit:
        weft.sleep(1000)
    assert (limit.expired, repr(limit)) == (False, "weft.timeout(None)")


@pytest.mark.parametrize(("bad", "error"), [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError)])
@pytest.mark.parametrize("form", [weft.timeout, weft.shield])
def test_a_limit_that_is_no_number_from_0_on_is_refused(form, bad, error):
    with pytest.raises(error, match=rf"^weft\.{form.__name__} takes a number of seconds"):
        form(bad)
    with form() if form is weft.shield else form(1) as limit:
        with pytest.raises(error, match=r"^reschedule\(\) takes a number of seconds"):
            limit.reschedule(bad)


def test_it_is_entered_once():
    with weft.timeout(1) as limit:
        with pytest.raises(RuntimeError, match="entered once"):
            limit.__enter__()


# ---- nested ----


def test_of_two_the_earlier_one_raises(clock):
    log = []
    with weft.timeout(10):
        with pytest.raises(TimeoutError, match=r"timeout\(1\)"), weft.timeout(1):
            waits(100, log)
        weft.sleep(2)
    assert (log, clock.jumps) == (["cancelled"], [1.0, 2.0])


def test_when_the_outer_one_is_over_the_inner_ones_are_left_without_an_error_of_theirs(clock):
    log = []

    def body():
        with weft.timeout(1) as outer:
            try:
                with weft.timeout(10) as inner:
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
        with weft.timeout(2):
            try:
                with weft.timeout(2 if how == "at once" else 1):
                    if how == "at once":
                        wait_for_ever()
                    clock.now += 3
                    weft.sleep(0)
            except TimeoutError:
                log.append("the inner one")

    with pytest.raises(TimeoutError, match=r"timeout\(2\)"):
        body()
    assert log == []


def test_a_scope_that_is_cancelled_wins_over_time_outs_inside(clock):
    log = []
    with weft.scope() as s:
        s.spawn(lambda: (waits(1), s.cancel()))
        try:
            with weft.timeout(5):
                wait_for_ever()
        except TimeoutError:
            log.append("not reached")
    assert (log, clock.jumps) == ([], [1.0])


def test_a_kill_inside_is_no_time_out(clock):
    log = []

    def body():
        try:
            with weft.timeout(5):
                wait_for_ever()
        except BaseException as error:
            log.append(type(error))
            raise

    tasklet = weft.tasklet(body)()
    weft.schedule()
    tasklet.kill()
    assert log == [weft.TaskletExit]


# ---- reschedule ----


def test_a_limit_can_be_moved(clock):
    def body():
        with weft.timeout(1) as limit:
            weft.sleep(0.5)
            limit.reschedule(3)
            weft.sleep(2.5)
            assert not limit.expired
            wait_for_ever()

    with pytest.raises(TimeoutError, match=r"weft\.timeout\(3\): not done within 3 seconds"):
        body()
    assert clock.jumps == [0.5, 2.5, 0.5]


def test_a_limit_can_be_taken_away(clock):
    with weft.timeout(1) as limit:
        limit.reschedule(None)
        weft.sleep(5)
    assert not limit.expired


def test_a_limit_can_be_given_later_and_moved_while_it_is_waited_for(clock):
    def move():
        weft.sleep(1)
        limit.reschedule(1)

    weft.tasklet(move)()
    with pytest.raises(TimeoutError):
        with weft.timeout(None) as limit:
            wait_for_ever()
    assert clock.jumps == [1.0, 1.0]


def test_what_has_expired_is_not_moved(clock):
    with weft.timeout(1) as limit:
        clock.now += 2
        with pytest.raises(RuntimeError, match=r"weft\.timeout\(1\) has expired, and what is in it was told so"):
            limit.reschedule(5)


def test_a_limit_that_is_not_entered_or_left_is_not_moved():
    limit = weft.timeout(1)
    with pytest.raises(
        RuntimeError, match=r"reschedule\(\): weft\.timeout\(1\) is not entered yet: a limit is moved while"
    ):
        limit.reschedule(5)
    with limit:
        pass
    with pytest.raises(RuntimeError, match=r"reschedule\(\): weft\.timeout\(1\) has been left: a limit is moved while"):
        limit.reschedule(5)


@pytest.mark.parametrize("form", [weft.timeout, weft.shield])
def test_what_blocks_inside_is_told_whose_time_is_over(form, clock):
    with form(1) as limit:
        limit.reschedule(0.5)
        with pytest.raises(weft.Cancelled, match=rf"^weft\.{form.__name__}\(0\.5\): its time is over$"):
            wait_for_ever()


def test_a_limit_that_is_left_in_another_tasklet_is_named():
    with weft.timeout(5) as limit:
        with pytest.raises(
            RuntimeError, match=r"^weft\.timeout\(5\) is left where it is not the innermost scope of .*Spawned"
        ):
            weft.spawn(limit.__exit__, (None, None, None)).join()


def test_another_thread_can_move_a_limit():
    limit = weft.timeout(1000)
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
        with weft.timeout(1):
            with weft.shield():
                weft.sleep(5)
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
            with weft.shield(5):
                weft.sleep(1)
            log.append("closed")

    with weft.scope() as s:
        s.spawn(child)
        weft.schedule()
        s.cancel()
    assert log == ["closed"]


def test_a_shield_with_a_limit_raises_when_that_is_over(clock):
    with pytest.raises(TimeoutError, match=r"weft\.shield\(2\): not done within 2 seconds"):
        with weft.shield(2):
            wait_for_ever()
    assert clock.jumps == [2.0]


def test_a_shield_does_not_keep_off_a_kill():
    log = []

    def body():
        with weft.shield():
            try:
                wait_for_ever()
            finally:
                log.append("killed")

    tasklet = weft.tasklet(body)()
    weft.schedule()
    tasklet.kill()
    assert log == ["killed"]


def test_a_time_out_inside_a_shield_counts(clock):
    with CancelScope() as outer:
        outer.cancel()
        with weft.shield():
            with pytest.raises(TimeoutError), weft.timeout(1):
                wait_for_ever()
    assert clock.jumps == [1.0]
