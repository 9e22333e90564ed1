"""stacklesslib.locks: who gets in, who waits and how long, and who is woken."""

import pytest

import roamlet
from roamlet import stackless
from roamlet.stackless._path.stacklesslib import errors, locks, wait
from tests.stacklesslib.running import running


@pytest.mark.parametrize("kind", [locks.Lock, locks.RLock, locks.Semaphore, locks.BoundedSemaphore, locks.Condition])
def test_a_lock_excludes_other_tasklets_and_lets_them_in_again(kind):
    lock, log = kind(), []

    def other():
        with lock:
            log.append("other")

    with lock:
        waiting = running(other)
        assert waiting.blocked
        log.append("we")
    stackless.run()
    assert log == ["we", "other"]


@pytest.mark.parametrize("kind", [locks.Lock, locks.RLock, locks.Semaphore, locks.BoundedSemaphore])
@pytest.mark.parametrize(
    ("arguments", "acquired"),
    [((False,), False), ((False, None), False), ((True, 0), False), ((True, 0.5), False), ((False, 5), False)],
)
def test_a_lock_is_not_taken_twice_however_one_asks(kind, arguments, acquired):
    lock = kind()
    assert lock.acquire()
    answers = []
    running(lambda: answers.append(lock.acquire(*arguments)))
    roamlet.run()
    assert answers == [acquired]
    lock.release()
    assert lock.acquire(True, None) is True
    lock.release()


@pytest.mark.parametrize("forever", [None, -1, -0.5])
def test_none_and_negative_time_outs_are_no_limit(forever):
    lock, answers = locks.Lock(), []
    lock.acquire()
    event, condition = locks.Event(), locks.Condition(locks.Lock())

    def wait_for_condition():
        with condition:
            answers.append(("condition", condition.wait(forever)))

    running(lambda: answers.append(("lock", lock.acquire(True, forever))))
    running(lambda: answers.append(("event", event.wait(forever))))
    running(wait_for_condition)
    roamlet.sleep(3600)
    assert answers == []
    lock.release()
    event.set()
    with condition:
        condition.notify_all()
    stackless.run()
    assert sorted(answers) == [("condition", True), ("event", True), ("lock", True)]


def test_the_wake_up_of_a_killed_waiter_is_passed_on():
    lock, log = locks.Lock(), []
    lock.acquire()
    first = running(lambda: lock.acquire() and log.append("first"))
    running(lambda: lock.acquire() and log.append("second"))
    lock.release()
    first.kill()
    stackless.run()
    assert log == ["second"]


def test_a_semaphore_gives_back_many_and_a_bounded_one_not_too_many():
    semaphore, log = locks.Semaphore(0), []
    for name in "abc":
        running(lambda name=name: semaphore.acquire() and log.append(name))
    semaphore.release(count=2)
    stackless.run()
    assert log == ["a", "b"]
    semaphore.release()
    stackless.run()
    with pytest.raises(ValueError, match="too many"):
        locks.BoundedSemaphore(1).release(1)
    with pytest.raises(ValueError, match=">= 0"):
        locks.Semaphore(-1)


def test_released_gives_the_lock_back_meanwhile_whatever_happens():
    lock = locks.Lock()
    lock.acquire()
    with locks.released(lock):
        assert not lock.locked()
    assert lock.locked()
    with pytest.raises(ZeroDivisionError), locks.released(lock):
        _ = 1 // (1 if lock.locked() else 0)
    assert lock.locked()


@pytest.mark.parametrize("condition", [lambda: locks.Condition(locks.Lock()), locks.Condition, locks.NLCondition])
def test_a_condition_wakes_as_many_as_it_is_told(condition):
    condition, log = condition(), []

    def waiting(name):
        with condition:
            condition.wait()
            log.append(name)

    for name in "abc":
        running(waiting, name)
    with condition:
        condition.notify()
    stackless.run()
    assert log == ["a"]
    with condition:
        condition.notifyAll()
    stackless.run()
    assert log == ["a", "b", "c"]
    with condition:
        assert condition.wait(0.01) is False
        assert condition.wait_for(lambda: len(log), 0.01) == 3
        assert condition.wait_for(list, 0) == []


def test_an_event_can_be_waited_for_as_a_lock_and_as_a_waitable():
    event, log = locks.Event(), []
    running(lambda: log.append(event.wait()))
    running(lambda: log.append(wait.swait(event) is event))
    assert event.wait(0.01) is False
    event.set()
    stackless.run()
    assert log == [True, True]
    assert event.is_set()
    assert event.wait(0)
    assert wait.wait([event]) == [event]
    event.clear()
    assert not event.isSet()


def test_a_value_event_gives_its_value_to_all_who_wait_and_is_set_once():
    event, log = locks.ValueEvent(), []
    for _ in range(2):
        running(lambda: log.append(event.wait()))
    event.set("value")
    stackless.run()
    assert log == ["value", "value"]
    with pytest.raises(RuntimeError, match="already signaled"):
        event.set("again")
    with pytest.raises(RuntimeError, match="already signaled"):
        event.abort()
    with pytest.raises(RuntimeError, match="Already resumed"):
        event.wait()


def test_a_value_event_that_is_aborted_raises_that_now_and_later():
    event, log = locks.ValueEvent(), []

    def waiting():
        try:
            event.wait()
        except LookupError as error:
            log.append(error.args)

    running(waiting)
    event.abort(LookupError, "one", "two")
    running(waiting)
    assert log == [("one", "two")] * 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [((0.01,), errors.TimeoutError, "Event timed out"), ((0.01, KeyError, "late"), KeyError, "late")],
)
def test_a_value_event_aborts_itself_when_its_time_is_over(arguments, error, message):
    event, log = locks.ValueEvent(*arguments), []

    def waiting():
        try:
            event.wait()
        except error as caught:
            log.append(caught.args)

    running(waiting)
    with pytest.raises(error, match=message):
        event.wait()
    stackless.run()
    assert log == [(message,)]
    with pytest.raises(RuntimeError, match="already signaled"):
        event.set()
