"""Queue, LifoQueue, PriorityQueue and SimpleQueue: what the standard library's tests do not ask."""

import collections
import gc
import queue
import signal
import threading
import weakref

import pytest

import roamlet
from roamlet import sync
from roamlet.testing import run_until_blocked
from tests.sync._noting import noted_when_collected, noting

KINDS = [sync.Queue, sync.LifoQueue, sync.PriorityQueue]
ALL = [*KINDS, sync.SimpleQueue]


@pytest.fixture(params=ALL)
def any_queue(request):
    return request.param()


# ---- tasklets ----


def test_who_waits_gets_items_in_the_order_of_arrival(any_queue):
    log = []
    for name in "abc":
        noting(log, name, any_queue.get)
    for item in range(3):
        any_queue.put(item)
        run_until_blocked()
    assert log == [("a", 0), ("b", 1), ("c", 2)]


@pytest.mark.parametrize("kind", KINDS)
def test_who_has_no_room_waits_for_it(kind):
    items, log = kind(2), []
    for item in range(4):
        noting(log, item, lambda item=item: items.put(item))
    assert [item for item, _ in log] == [0, 1] and items.full()
    items.get()
    run_until_blocked()
    assert [item for item, _ in log] == [0, 1, 2]
    items.get()
    run_until_blocked()
    assert [item for item, _ in log] == [0, 1, 2, 3]
    assert items.qsize() == 2


def test_an_item_for_a_tasklet_that_is_killed_goes_to_the_next(any_queue):
    log = []
    first, _ = noting(log, "first", any_queue.get), noting(log, "second", any_queue.get)
    any_queue.put("item")
    first.kill(pending=True)
    run_until_blocked()
    assert log == [("first", "TaskletExit"), ("second", "item")]
    assert any_queue.empty()


@pytest.mark.parametrize("kind", KINDS)
def test_room_for_a_tasklet_that_is_killed_goes_to_the_next(kind):
    items, log = kind(1), []
    items.put(0)
    first, _ = noting(log, "first", lambda: items.put(1)), noting(log, "second", lambda: items.put(2))
    items.get()
    first.kill(pending=True)
    run_until_blocked()
    assert log == [("first", "TaskletExit"), ("second", None)]
    assert items.get_nowait() == 2


def test_an_item_for_one_whose_time_was_over_goes_to_the_next(any_queue, clock):
    log = []
    noting(log, "late", lambda: any_queue.get(timeout=1))
    noting(log, "next", any_queue.get)
    roamlet.sleep(2)
    any_queue.put("item")
    run_until_blocked()
    assert log == [("late", "Empty"), ("next", "item")]


def test_a_tasklet_of_another_one_overtakes_and_the_item_is_not_given_twice(any_queue):
    log = []
    noting(log, "waits", any_queue.get)
    with roamlet.atomic():  # get() lets others run now and then
        any_queue.put(1)
        assert any_queue.get() == 1
    run_until_blocked()
    assert log == []
    any_queue.put(2)
    run_until_blocked()
    assert log == [("waits", 2)]


def test_who_was_overtaken_in_a_simple_queue_is_first_in_it_again():
    items, log = sync.SimpleQueue(), []
    for name in "abc":
        noting(log, name, items.get)
    with roamlet.atomic():
        items.put(0)
        assert items.get() == 0
    run_until_blocked()
    assert log == []
    for item in range(3):
        items.put(item)
    run_until_blocked()
    assert log == [("a", 0), ("b", 1), ("c", 2)]


def test_a_busy_consumer_lets_others_run(any_queue):
    for item in range(20_000):
        any_queue.put(item)
    taken_by_then = []
    roamlet.tasklet(lambda: taken_by_then.append(20_000 - any_queue.qsize()))()
    for _ in range(20_000):
        any_queue.get()
    roamlet.run()
    assert taken_by_then[0] < 20_000


def test_join_waits_for_task_done():
    items, log = sync.Queue(), []
    for item in range(2):
        items.put(item)
    noting(log, "joined", items.join)
    items.get()
    items.task_done()
    run_until_blocked()
    assert (log, items.unfinished_tasks) == ([], 1)
    items.get()
    items.task_done()
    run_until_blocked()
    assert log == [("joined", None)]
    with pytest.raises(ValueError, match=r"task_done\(\) called too many times: once for each get\(\) is right"):
        items.task_done()


@pytest.mark.parametrize("immediate", [False, True])
def test_shutdown_wakes_all_who_wait(immediate):
    empty, full, log = sync.Queue(), sync.Queue(1), []
    full.put(1)
    noting(log, "get", empty.get)
    noting(log, "put", lambda: full.put(2))
    noting(log, "join", full.join)
    empty.shutdown(immediate)
    full.shutdown(immediate=immediate)
    run_until_blocked()
    expected = [("get", "ShutDown"), ("put", "ShutDown")]
    assert sorted(log, key=str) == sorted([*expected, ("join", None)] if immediate else expected, key=str)
    assert full.qsize() == (0 if immediate else 1)
    if not immediate:
        assert full.get() == 1
        full.task_done()
        run_until_blocked()
        assert log[-1] == ("join", None)
    for call in (full.get, full.get_nowait, lambda: full.put(1), lambda: full.put_nowait(1)):
        with pytest.raises(sync.ShutDown):
            call()


def test_items_that_shutdown_drops_may_use_the_queue_as_they_go():
    known, log = [sync.Queue()], []

    class Item:
        def __del__(self):
            log.append(known[0].qsize())

    known[0].put(Item())
    known[0].put(Item())
    known[0].shutdown(immediate=True)
    assert log == [0, 0]
    known.clear()  # the class is a cycle of its own, and would keep the queue


# ---- reentrancy ----


def test_put_from_del_in_the_middle_of_get_and_put(any_queue):
    class Item:
        def __lt__(self, other):
            return False

        def __del__(self):
            any_queue.put(1)

    any_queue.put(Item())
    any_queue.get()
    assert any_queue.get_nowait() == 1


@pytest.mark.parametrize("kind", [sync.SimpleQueue, sync.Queue, sync.LifoQueue])
def test_put_from_a_signal_handler_loses_nothing(kind):
    items, count = kind(), [0]

    def handler(*_):
        items.put("signal")
        count[0] += 1

    before = signal.signal(signal.SIGALRM, handler)
    timer = signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        rounds = 0
        got = []
        while count[0] < 50:
            items.put("own")
            got.append(items.get())
            rounds += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)
    while not items.empty():
        got.append(items.get())
    assert collections.Counter(got) == {"own": rounds, "signal": count[0]}


# ---- time-outs and nonsense ----


@pytest.mark.parametrize(
    ("timeout", "error", "message"),
    [
        (-1, ValueError, "'timeout' must be a non-negative number of seconds, or None for no limit; it is -1"),
        (float("nan"), ValueError, "NaN"),
        (1e11, OverflowError, "too large"),
        ("1", TypeError, "not str"),
    ],
)
def test_a_nonsense_time_out_is_refused(any_queue, timeout, error, message):
    any_queue.put(1)
    with pytest.raises(error, match=message):
        any_queue.get(timeout=timeout)
    assert any_queue.get(block=False, timeout=timeout) == 1  # not looked at, as in the standard library


def test_the_exceptions_are_the_standard_librarys(any_queue, clock):
    assert (sync.Empty, sync.Full) == (queue.Empty, queue.Full)
    assert sync.ShutDown is getattr(queue, "ShutDown", sync.ShutDown)
    for call in (any_queue.get_nowait, lambda: any_queue.get(False), lambda: any_queue.get(timeout=1)):
        with pytest.raises(queue.Empty):
            call()


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_queue_says_so(kind, clock):
    items = kind(1)
    items.put(1)
    for call in (lambda: items.put_nowait(2), lambda: items.put(2, False), lambda: items.put(2, timeout=1)):
        with pytest.raises(queue.Full):
            call()
    assert (items.qsize(), items.unfinished_tasks) == (1, 1)


@pytest.mark.parametrize("maxsize", [0, -1, float("inf"), -(10**30), False])
def test_a_queue_without_limit(maxsize):
    items = sync.Queue(maxsize)
    for item in range(100):
        items.put_nowait(item)
    assert items.maxsize == maxsize and not items.full()


def test_maxsize_may_change_and_must_be_a_number():
    items = sync.Queue(10)
    items.put(1)
    items.maxsize = 1
    assert items.full()
    for nonsense in ("1", None, 1.5):
        with pytest.raises(TypeError, match=r"maxsize is a whole number of items, 0 or less for no limit, not "):
            items.maxsize = nonsense
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del items.maxsize
    assert items.maxsize == 1


@pytest.mark.parametrize("takes", [False, True])
def test_a_comparison_may_give_a_priority_queue_other_items(takes):
    """As in the standard library: what is under way goes on with the items that there were, which nothing else refers to."""

    class Item:
        def __init__(self, number):
            self.number = number

        def __lt__(self, other):
            if number == 0:
                items.queue = []
                others.append([[] for _ in range(100)])  # in the memory of the list, were that free
            return self.number < other.number

    items, others = sync.PriorityQueue(), []
    for number in range(30, 0, -1):
        items.put(Item(number))
    number = 0
    if takes:
        assert items.get().number == 1
    else:
        items.put(Item(0))
    assert (items.qsize(), bool(others)) == (0, True)
    del items  # to which the class leads, a cycle


def test_items_that_cannot_be_compared_leave_the_queue_usable():
    items = sync.PriorityQueue()
    items.put(1)
    with pytest.raises(TypeError, match="'<' not supported"):
        items.put("one")
    assert items.unfinished_tasks == 1 and not items.mutex.locked()


# ---- what subclasses and programs reach into ----


def test_the_idiom_that_empties_a_queue_through_its_attributes():
    items, log = sync.Queue(2), []
    items.put(1)
    items.put(2)
    noting(log, "put", lambda: items.put(3))
    noting(log, "joined", lambda: items.join() or list(items.queue))
    with items.mutex:
        items.unfinished_tasks -= len(items.queue)
        items.queue.clear()
        items.all_tasks_done.notify_all()
        items.not_full.notify_all()
    run_until_blocked()
    assert sorted(log) == [("joined", []), ("put", None)] or sorted(log) == [("put", None)]
    assert list(items.queue) == [3] and isinstance(items.queue, collections.deque)
    items.get()
    items.task_done()
    run_until_blocked()
    assert len(log) == 2


def test_waiting_through_its_conditions_with_a_time_out(clock):
    items = sync.Queue()
    items.put(1)
    with items.all_tasks_done:
        assert items.all_tasks_done.wait(5) is False
    roamlet.tasklet(lambda: (items.get(), items.task_done()))()
    with items.all_tasks_done:
        assert items.all_tasks_done.wait_for(lambda: not items.unfinished_tasks, 5)


class Unique(sync.Queue):
    """The recipe that programs use: a set where the deque was."""

    def _init(self, maxsize):
        self.queue = set()

    def _put(self, item):
        self.queue.add(item)

    def _get(self):
        roamlet.schedule()  # a hook may even switch: the mutex is held
        return self.queue.pop()


def test_hooks_of_a_subclass_are_used_with_the_mutex_held():
    items, log = Unique(5), []
    for _ in range(3):
        items.put("same")
    assert items.qsize() == 1
    noting(log, "first", items.get)
    noting(log, "second", items.get)
    noting(log, "size", items.qsize)
    run_until_blocked()
    assert sorted(log) == [("first", "same"), ("size", 0)]
    items.put("other")
    run_until_blocked()
    assert ("second", "other") in log


def test_hooks_that_call_those_of_the_class_above_them():
    calls = []

    class Counting(sync.PriorityQueue):
        def _put(self, item):
            calls.append("put")
            super()._put(item)

        def _get(self):
            calls.append("get")
            return super()._get()

        def _qsize(self):
            return super()._qsize()

    items = Counting()
    for item in (3, 1, 2):
        items.put(item)
    assert [items.get() for _ in range(3)] == [1, 2, 3]
    assert calls == ["put"] * 3 + ["get"] * 3


def test_a_queue_that_was_never_initialised_says_so():
    class Forgets(sync.Queue):
        def __init__(self):
            pass

    items = Forgets()
    for call in (items.get_nowait, items.qsize, lambda: items.put(1)):
        with pytest.raises(AttributeError, match="queue is missing: __init__ was not called"):
            call()
    assert not items.mutex.locked()


def test_annotations_and_attributes(any_queue):
    kind = type(any_queue)
    assert str(kind[int]).endswith(f"{kind.__name__}[int]")
    if kind is not sync.SimpleQueue:
        any_queue.more = 1
        assert any_queue.more == 1
    any_queue.put(block=True, timeout=None, item=1)
    any_queue.put_nowait(item=2)
    assert any_queue.qsize() == 2
    for call in (any_queue.put, any_queue.put_nowait):
        with pytest.raises(TypeError, match="missing 1 required argument: 'item'"):
            call()
    with pytest.raises(TypeError, match="takes no arguments: it has no limit"):
        sync.SimpleQueue(3)


# ---- memory ----


def test_a_long_queue_keeps_order_over_the_end_of_its_ring():
    items, expected = sync.SimpleQueue(), collections.deque()
    for step in range(5000):
        for number in range(step % 7):
            items.put((step, number))
            expected.append((step, number))
        for _ in range(step % 5):
            if expected:
                assert items.get() == expected.popleft()
    while expected:
        assert items.get_nowait() == expected.popleft()
    assert items.empty()


def test_items_are_forgotten_as_they_are_taken(any_queue):
    class Item:
        def __lt__(self, other):
            return id(self) < id(other)

    alive = []
    for _ in range(20):
        item = Item()
        alive.append(weakref.ref(item))
        any_queue.put(item)
    del item
    assert all(ref() for ref in alive)
    for _ in range(20):
        any_queue.get()
    assert [ref() for ref in alive] == [None] * 20


def test_a_cycle_through_the_items_is_collected(any_queue):
    kind = type(any_queue)
    items = kind()
    alive = weakref.ref(items)
    items.put(items)
    del items
    assert alive() is not None
    gc.collect()
    assert alive() is None


def test_who_waits_for_a_queue_that_nobody_else_knows_is_collected(any_queue):
    kind = type(any_queue)
    assert noted_when_collected(lambda: kind().get()) == ["ended"]


# ---- threads ----


@pytest.mark.parametrize("kind", ALL)
def test_nothing_is_lost_or_doubled_between_threads_with_tasklets(kind):
    items, got = kind(*([7] if kind is not sync.SimpleQueue else [])), []

    def produces(start):
        for number in range(start, start + 300):
            items.put(number)

    def consumes():
        for _ in range(300):
            got.append(items.get())

    def thread(number):
        roamlet.tasklet(produces)(number * 1000)
        roamlet.tasklet(consumes)()
        roamlet.run()
        while roamlet.core.started():
            roamlet.sleep(0.001)

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(got) == [number * 1000 + step for number in range(4) for step in range(300)]
    assert items.empty()
