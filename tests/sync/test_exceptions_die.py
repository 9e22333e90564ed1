"""No path of an exception through scopes, futures, locks and generators keeps it: what the frames had dies with its handling."""

import concurrent.futures
import threading

import pytest

import roamlet
from roamlet import sync
from roamlet.sync import futures
from tests.witnesses import Witnesses

PATHS = {}


class Stubborn(Exception):
    """One that cannot be made a second time."""

    def __new__(cls, text, made=[]):  # noqa: B006 - it is meant to remember
        if text != "first":
            raise TypeError("there is one of them only")
        return super().__new__(cls, text)

    def __init__(self, text):
        super().__init__("raised below a witness")

    def __copy__(self):
        raise TypeError("there is one of them only")


def path(function):
    PATHS[function.__name__] = function
    return function


@path
def join(witnesses):
    kept = roamlet.spawn(witnesses.fails, (witnesses("an argument"),))
    witnesses.handles(kept.join)
    witnesses.judge()
    assert kept.done


@path
def joined_twice(witnesses):
    kept = roamlet.spawn(witnesses.fails)
    witnesses.handles(kept.join)
    witnesses.handles(kept.join)
    witnesses.handles(lambda: kept.result)
    witnesses.judge()
    assert kept.done


@path
def joined_by_the_frame_that_keeps_it(witnesses):
    local, kept = witnesses("the frame that keeps the tasklet"), roamlet.spawn(witnesses.fails)
    try:
        kept.join()
    except ValueError:
        assert local.name


@path
def joined_though_it_cannot_be_copied(witnesses):
    def fails():
        local = witnesses("the frame that raised")
        witnesses.seen.append("raised")
        raise Stubborn("first") if local else None

    kept = roamlet.spawn(fails)
    witnesses.handles(kept.join, Stubborn)
    witnesses.handles(kept.join, RuntimeError)
    witnesses.judge()
    assert kept.done


@path
def joined_after_a_kill(witnesses):
    kept = roamlet.spawn(witnesses.handles, (roamlet.channel().receive, roamlet.TaskletExit))
    roamlet.schedule()
    kept.kill()
    kept.join()
    other = roamlet.spawn(roamlet.channel().receive)
    roamlet.schedule()
    other.kill()
    witnesses.handles(other.join, roamlet.TaskletKilled)


@path
def join_that_takes_too_long(witnesses):
    kept = roamlet.spawn(witnesses.handles, (roamlet.channel().receive, roamlet.TaskletExit))
    witnesses.handles(lambda: kept.join(0.0), TimeoutError)
    kept.kill()


@path
def spawned_and_joined_by_nobody(witnesses):
    roamlet.spawn(witnesses.fails)
    witnesses.handles(roamlet.run)


@path
def spawned_and_dropped_after_its_end(witnesses):
    kept = [roamlet.spawn(witnesses.fails)]
    roamlet.run()
    kept.clear()
    witnesses.handles(roamlet.run)


@path
def spawned_for_what_ends_programs(witnesses):
    kept = roamlet.spawn(witnesses.fails, (), {"kind": KeyboardInterrupt})
    witnesses.handles(roamlet.run, KeyboardInterrupt)
    witnesses.handles(kept.join, roamlet.TaskletKilled)


def in_a_scope(witnesses, *functions):
    local = witnesses("the frame with the scope")
    with roamlet.scope() as scope:
        for function in functions:
            scope.spawn(function)
        if not functions:
            witnesses.fails(local)
    assert local.name


@path
def a_scope_whose_body_fails(witnesses):
    witnesses.handles(lambda: in_a_scope(witnesses), ExceptionGroup)


@path
def a_scope_whose_children_fail(witnesses):
    def waits():
        local = witnesses("a child that was cancelled")
        roamlet.channel().receive()
        del local

    functions = (waits, witnesses.fails, witnesses.fails)
    witnesses.handles(lambda: in_a_scope(witnesses, *functions), ExceptionGroup)


@path
def a_scope_whose_child_is_kept(witnesses):
    children = []

    def fails():
        with roamlet.scope() as scope:
            children.append(scope.spawn(witnesses.fails))
            children.append(scope.service(roamlet.channel().receive))

    witnesses.handles(fails, ExceptionGroup)
    witnesses.handles(children[0].join)
    witnesses.judge()
    children.clear()


@path
def a_scope_that_is_kept(witnesses):
    kept = roamlet.scope()

    def fails():
        with kept:
            kept.spawn(witnesses.fails)
            kept.service(witnesses.fails)

    witnesses.handles(fails, ExceptionGroup)
    witnesses.judge()
    assert kept.cancelled


@path
def a_scope_whose_child_ends_the_program(witnesses):
    def interrupts():
        witnesses.fails(kind=KeyboardInterrupt)

    witnesses.handles(lambda: in_a_scope(witnesses, witnesses.fails, interrupts), KeyboardInterrupt)


@path
def a_scope_that_is_cancelled(witnesses):
    def waits():
        local = witnesses("the frame with the scope")
        with roamlet.scope() as scope:
            scope.spawn(roamlet.channel().receive)
            roamlet.tasklet(scope.cancel)()
            roamlet.channel().receive()
        assert local.name
        witnesses.seen.append("cancelled")

    waits()


@path
def a_scope_whose_owner_is_killed(witnesses):
    def waits():
        local = witnesses("the frame with the scope")
        with roamlet.scope() as scope:
            scope.spawn(witnesses.handles, (roamlet.channel().receive, roamlet.TaskletExit))
            roamlet.channel().receive()
        del local

    owner = roamlet.tasklet(waits)()
    roamlet.schedule()
    roamlet.schedule()
    owner.kill()
    roamlet.run()
    witnesses.judge()
    assert not owner.alive


@path
def a_scope_that_nobody_can_leave(witnesses):
    witnesses.handles(lambda: in_a_scope(witnesses, roamlet.channel().receive), ExceptionGroup)
    witnesses.seen.append("deadlock")


@path
def a_timeout(witnesses):
    def waits():
        local = witnesses("the frame with the time-out")
        with roamlet.timeout(0.0):
            roamlet.channel().receive()
        del local

    witnesses.handles(waits, TimeoutError)


@path
def a_timeout_that_is_kept_and_nested(witnesses):
    kept = roamlet.timeout(0.0)

    def waits():
        local = witnesses("the frame with the time-outs")
        with kept, roamlet.timeout(60), roamlet.shield():
            try:
                witnesses.fails(local)
            finally:
                roamlet.sleep(0.001)

    witnesses.handles(waits)
    witnesses.judge()
    assert kept.expired


@path
def a_shield(witnesses):
    def waits():
        with roamlet.shield(0.0):
            witnesses("the frame with the shield")
            roamlet.channel().receive()

    witnesses.handles(waits, TimeoutError)


@path
def a_future(witnesses):
    with futures.TaskletExecutor() as executor:
        witnesses.handles(executor.submit(witnesses.fails, witnesses("an argument")).result)
        witnesses.judge()


@path
def a_future_that_the_frame_keeps(witnesses):
    local = witnesses("the frame with the future")
    with futures.TaskletExecutor() as executor:
        future = executor.submit(witnesses.fails)
        try:
            future.result()
        except ValueError:
            assert local.name


@path
def a_future_whose_error_cannot_be_copied(witnesses):
    def fails():
        local = witnesses("the frame that raised")
        witnesses.seen.append("raised")
        raise Stubborn("first") if local else None

    def keeps():
        local = witnesses("the frame with the future")
        with futures.TaskletExecutor() as executor:
            future = executor.submit(fails)
            for kind, text in ((Stubborn, "raised below"), (RuntimeError, "no second one")):
                with pytest.raises(kind, match=text):
                    future.result()
            assert local.name

    keeps()


@path
def a_future_that_is_cancelled(witnesses):
    future = futures.Future()
    future.cancel()
    witnesses.handles(future.result, futures.CancelledError)
    witnesses.judge()
    assert future.cancelled()


@path
def a_future_that_nobody_settles_in_time(witnesses):
    future = futures.Future()
    witnesses.handles(lambda: future.result(0.0), TimeoutError)
    witnesses.judge()
    assert not future.done()


@path
def a_future_whose_callback_fails(witnesses):
    future = futures.Future()
    future.add_done_callback(witnesses.fails)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("concurrent.futures._base.LOGGER.exception", lambda *_: None)
        future.set_result(1)
    witnesses.judge()
    assert future.done()


@path
def waiting_for_futures(witnesses):
    with futures.TaskletExecutor() as executor:
        made = [executor.submit(witnesses.fails) for _ in range(3)]
        for future in futures.as_completed(made):
            witnesses.handles(future.result)
        del future
        done, others = futures.wait(made, return_when=futures.FIRST_EXCEPTION)
        assert (len(done), len(others)) == (3, 0)
        del done, others
        made.clear()
        witnesses.judge()


@path
def an_executor_that_maps(witnesses):
    with futures.TaskletExecutor(2) as executor:
        witnesses.handles(lambda: list(executor.map(witnesses.fails, range(4))))
        roamlet.run()
        witnesses.judge()


@path
def a_standard_future(witnesses):
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        made = [executor.submit(witnesses.fails)]
        futures.wait(made)
        made.clear()


@path
def what_waits_for_locks(witnesses):
    lock = sync.Lock()
    lock.acquire()
    for block in (lock.acquire, sync.Semaphore(0).acquire, sync.Event().wait, sync.Queue().get, sync.SimpleQueue().get):
        waiting = roamlet.tasklet(witnesses.handles)(block)
        roamlet.schedule()
        waiting.throw(ValueError, "thrown")
        witnesses.judge()
        assert not waiting.alive


@path
def a_body_of_with_that_fails(witnesses):
    for manager in (
        sync.Lock(),
        sync.RLock(),
        sync.Condition(),
        sync.Semaphore(),
        sync.critical_section(),
        roamlet.atomic(),
    ):

        def fails(manager=manager):
            with manager:
                witnesses.fails()

        witnesses.handles(fails)
        witnesses.judge()


@path
def a_condition_whose_predicate_fails(witnesses):
    condition = sync.Condition()

    def waits():
        with condition:
            condition.wait_for(witnesses.fails)

    witnesses.handles(waits)
    witnesses.judge()
    assert not condition._is_owned() if hasattr(condition, "_is_owned") else True


@path
def a_barrier_whose_action_fails(witnesses):
    barrier = sync.Barrier(2, action=witnesses.fails)
    other = roamlet.tasklet(witnesses.handles)(barrier.wait, threading.BrokenBarrierError)
    roamlet.schedule()
    witnesses.handles(barrier.wait)
    roamlet.run()
    witnesses.judge()
    assert barrier.broken
    assert not other.alive


@path
def a_queue_whose_hook_fails(witnesses):
    class Failing(sync.Queue):
        def _put(self, item):
            witnesses.fails(item)

    queue = Failing()
    witnesses.handles(lambda: queue.put(witnesses("an item")))
    witnesses.judge()
    assert queue.empty()


@path
def a_queue_whose_items_cannot_be_compared(witnesses):
    class Item:
        def __init__(self):
            self.local = witnesses("an item")

        def __lt__(self, other):
            witnesses.fails(other)

    queue = sync.PriorityQueue()
    queue.put(Item())
    witnesses.handles(lambda: queue.put(Item()))
    del queue
    Item.__init__ = Item.__lt__ = None


@path
def queues_that_are_empty_full_or_shut_down(witnesses):
    queue = sync.Queue(1)
    witnesses.handles(queue.get_nowait, sync.Empty)
    queue.put(1)
    witnesses.handles(lambda: queue.put_nowait(witnesses("an item")), sync.Full)
    queue.shutdown(immediate=True)
    witnesses.handles(queue.get, sync.ShutDown)
    witnesses.judge()


@path
def a_select_that_fails(witnesses):
    witnesses.handles(lambda: roamlet.select(roamlet.channel(), timeout=0.0), TimeoutError)


@roamlet.generator
def nested(witnesses, when):
    local = witnesses("the generator's frame")
    if when == "first":
        witnesses.fails(local)
    try:
        roamlet.yield_(1)
        witnesses.fails(local)
    finally:
        roamlet.yield_(2) if when == "finally" else None


@path
def a_generator_that_fails_at_once(witnesses):
    kept = nested(witnesses, "first")
    witnesses.handles(lambda: next(kept))
    witnesses.judge()
    witnesses.handles(lambda: next(kept), StopIteration)


@path
def a_generator_that_fails_later(witnesses):
    kept = nested(witnesses, "later")
    next(kept)
    witnesses.handles(lambda: next(kept))
    witnesses.judge()
    witnesses.handles(lambda: kept.send(None), StopIteration)


@path
def what_is_thrown_into_a_generator(witnesses):
    kept = nested(witnesses, "later")
    next(kept)

    def throws():
        try:
            witnesses.fails()
        except ValueError as error:
            kept.throw(error)

    witnesses.handles(throws)
    witnesses.judge()
    witnesses.handles(lambda: next(kept), StopIteration)


@path
def what_is_thrown_into_a_generator_that_has_not_begun(witnesses):
    kept = nested(witnesses, "later")
    witnesses.handles(lambda: kept.throw(ValueError, witnesses("an argument")))
    witnesses.seen.append("thrown")
    witnesses.judge()
    assert kept


@path
def a_generator_that_is_closed(witnesses):
    kept = nested(witnesses, "later")
    next(kept)
    kept.close()
    witnesses.seen.append("closed")
    witnesses.judge()
    assert kept


@path
def a_generator_that_is_dropped(witnesses):
    next(nested(witnesses, "later"))
    witnesses.seen.append("dropped")


@path
def a_generator_whose_caller_is_killed(witnesses):
    @roamlet.generator
    def waits():
        local = witnesses("the generator's frame")
        roamlet.channel().receive()
        roamlet.yield_(local)

    kept = waits()
    asking = roamlet.tasklet(witnesses.handles)(lambda: next(kept), roamlet.TaskletExit)
    roamlet.schedule()
    asking.kill()
    roamlet.run()
    witnesses.judge()
    assert not asking.alive
    del kept


@pytest.mark.parametrize("name", PATHS)
def test_a_local_of_the_frame_that_raised_dies_when_the_exception_was_handled(name):
    witnesses = Witnesses()
    PATHS[name](witnesses)
    witnesses.judge()
