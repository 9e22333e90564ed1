"""What is done again and again leaves nothing behind, errors and kills included."""

import gc
import sys
import threading

import pytest

import roamlet
from roamlet import core, sync
from tests.sync._noting import noting

TIMES = 200
ROUNDS = 6


def settle():
    while roamlet.getruncount() > 1:
        roamlet.schedule()


def waits_and_kills():
    for lock in (sync.Lock(), sync.Lock(fair=True), sync.RLock(), sync.Semaphore(1)):
        lock.acquire()
        log = []
        first, second = noting(log, 1, lock.acquire), noting(log, 2, lock.acquire)
        lock.release()
        first.kill(pending=True)
        settle()
        assert log == [(1, "TaskletExit"), (2, True)]
        del first, second


def conditions():
    for lock in (sync.Lock(), sync.RLock(), sync.Condition()):
        condition, log, scope = sync.Condition(lock), [], core.CancelScope()

        def waits(condition=condition):
            with condition:
                condition.wait()

        def cancelled(waits=waits, scope=scope):
            with scope:
                waits()

        first = noting(log, 1, waits)
        noting(log, 2, waits)
        noting(log, 3, cancelled)
        with condition:
            condition.notify()
            first.kill(pending=True)
            scope.cancel()
        settle()
        assert len(log) == 3
        with condition:
            condition.wait(0)
        repr(condition)
        del first


def queues():
    for kind in (sync.Queue, sync.LifoQueue, sync.PriorityQueue, sync.SimpleQueue):
        items, log = kind(), []
        killed = noting(log, 1, items.get)
        noting(log, 2, items.get)
        items.put((1, "item"))
        killed.kill(pending=True)
        settle()
        assert log == [(1, "TaskletExit"), (2, (1, "item"))]
        items.put(1)
        if kind is not sync.SimpleQueue:
            items.shutdown(immediate=True)
        del killed


def events_barriers_and_sections():
    event, barrier, log = sync.Event(), sync.Barrier(2), []
    noting(log, 1, event.wait)
    noting(log, 2, barrier.wait)
    event.set()
    barrier.wait()
    settle()
    noting(log, 3, barrier.wait)
    barrier.abort()
    settle()
    with sync.critical_section(), sync.critical_section("named"):
        repr((event, barrier))
    assert log == [(1, True), (2, 0), (3, "BrokenBarrierError")]


def errors():
    calls = [
        lambda: sync.Lock().release(),
        lambda: sync.RLock().release(),
        lambda: sync.Lock().acquire(timeout=float("nan")),
        lambda: sync.Lock().acquire(nonsense=1),
        lambda: sync.Semaphore(-1),
        lambda: sync.BoundedSemaphore().release(),
        lambda: sync.Condition(3),
        lambda: sync.Condition().wait(),
        lambda: sync.Queue().get_nowait(),
        lambda: sync.Queue("x"),
        lambda: sync.Queue().task_done(),
        lambda: sync.SimpleQueue().get(timeout=-1),
    ]
    for call in calls:
        with pytest.raises(Exception):  # noqa: B017, PT011 - each its own; that they are raised is tested elsewhere
            call()


def threads():
    lock, event = sync.RLock(), sync.Event()
    thread = threading.Thread(target=lambda: (lock.acquire(), event.set(), lock.release()))
    thread.start()
    event.wait()
    thread.join()


@pytest.mark.parametrize(
    ("does", "times"),
    [
        (waits_and_kills, TIMES),
        (conditions, TIMES),
        (queues, TIMES),
        (events_barriers_and_sections, TIMES),
        (errors, TIMES),
        (threads, 20),
    ],
)
def test_no_memory_is_left(does, times):
    # Caches and pools fill in some rounds; what leaks does so in each of them, once each time it is done.
    left = []
    for _ in range(ROUNDS):
        before = sys.getallocatedblocks()
        for _ in range(times):
            does()
        gc.collect()
        roamlet.trim()
        left.append(sys.getallocatedblocks() - before)
    assert min(left) < times / 4, left
