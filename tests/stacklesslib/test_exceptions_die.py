"""What stacklesslib keeps of an exception makes no cycle with the frames that it came through, nor with who asks for it."""

import pytest

import roamlet
from roamlet import stackless
from roamlet.stackless._path.stacklesslib import errors, futures, util, wait
from tests.witnesses import Witnesses

PATHS = {}


def path(function):
    PATHS[function.__name__] = function
    return function


@path
def futures_of_every_kind(witnesses):
    for executor in (
        futures.TaskletExecutor(2),
        futures.ThreadPoolExecutor(1),
        futures.tasklet_executor,
        futures.immediate_tasklet_executor,
        futures.direct_executor,
        futures.thread_executor,
    ):
        with executor:
            made = [executor.submit(witnesses.fails)]
            for _ in range(2):
                witnesses.handles(lambda made=made: made[0].result())
            assert made[0].exception()[0] is ValueError
            assert len(list(futures.as_completed(made))) == 1
            made.clear()
        stackless.run()


@path
def a_future_that_the_frame_keeps(witnesses):
    local, future = witnesses("the frame with the future"), futures.tasklet_executor.submit(witnesses.fails)
    try:
        future.result()
    except ValueError:
        assert local.name
    stackless.run()  # who has settled it was interrupted by who waited for it, and is still in its except clause


@path
def a_future_that_is_cancelled(witnesses):
    future = futures.tasklet_executor.submit(roamlet.channel().receive)
    stackless.run()
    future.cancel()
    witnesses.handles(future.result, errors.CancelledError)


@path
def a_tasklet_with_a_value(witnesses):
    local, made = witnesses("the frame with the tasklet"), wait.ValueTasklet(witnesses.fails)()
    stackless.run()
    for _ in range(2):
        try:
            made.get()
        except ValueError:
            assert local.name


@path
def a_tasklet_with_a_value_that_was_killed(witnesses):
    local, made = witnesses("the frame with the tasklet"), wait.ValueTasklet(roamlet.channel().receive)()
    stackless.run()
    made.kill()
    witnesses.handles(made.get, errors.CancelledError)
    assert local.name


@path
def timeouts(witnesses):
    def waits():
        local = witnesses("the frame with the time-out")
        with util.timeout(0.1):
            roamlet.channel().receive()
        del local

    witnesses.handles(waits, errors.TimeoutError)
    good, error = util.timeout_call(waits, 0.05)
    assert (good, type(error)) == (False, errors.TimeoutError)
    del waits


@path
def a_block_that_is_cancelled(witnesses):
    def waits():
        local = witnesses("the frame with the block")
        with util.cancellable() as block:
            roamlet.tasklet(block.cancel)()
            roamlet.channel().receive()
        del local

    witnesses.handles(waits, errors.CancelledError)


@path
def a_tasklet_that_fails(witnesses):
    roamlet.tasklet(witnesses.fails)()
    witnesses.handles(stackless.run)


@pytest.mark.parametrize("name", PATHS)
def test_a_local_of_the_frame_that_raised_dies_when_the_exception_was_handled(name):
    witnesses = Witnesses()
    PATHS[name](witnesses)
    witnesses.judge()
