"""stacklesslib.wait: several things waited for at once."""

import pytest

import roamlet
from roamlet import stackless
from roamlet.stackless._path.stacklesslib import errors, locks, wait
from tests.stacklesslib.running import running


def delayed(seconds):
    """A waitable that is ready in so many seconds."""
    return wait.ValueTasklet(roamlet.sleep)(seconds)


def test_things_are_given_in_the_order_in_which_they_are_ready():
    slow, fast, ready = delayed(3), delayed(1), locks.Event()
    ready.set()
    assert wait.wait([slow, fast, ready]) == [ready, fast, slow]
    assert wait.wait([]) == []


def test_waiting_ends_with_the_time_or_the_count_and_forgets_its_callbacks(monkeypatch):
    never, soon = locks.Event(), delayed(1)
    assert wait.wait([never, soon], count=1) == [soon]
    assert wait.wait([never, soon], timeout=0.001) == [soon]
    assert list(wait.iwait_no_raise([never], 0)) == []
    with pytest.raises(errors.TimeoutError):
        list(wait.iwait([never], 0.001))
    with pytest.raises(errors.TimeoutError):
        wait.swait(never, 0.001)
    assert never._callbacks == []


def test_what_the_caller_does_between_two_things_is_not_limited():
    first, second = locks.Event(), locks.Event()
    first.set()
    second.set()
    seen = []
    for event in wait.iwait([first, second], timeout=0.001):
        seen.append(event)
        roamlet.sleep(3600)
    assert len(seen) == 2


def test_any_is_the_first_and_all_are_all():
    slow, fast = delayed(2), delayed(1)
    assert wait.any([slow, fast]).result() is fast
    assert wait.all([slow, fast]).result() == [fast, slow]
    assert wait.any([]).result() is None
    assert wait.swait(wait.all([])).get() == []


def test_a_waitable_tasklet_can_be_joined_and_keeps_what_came_of_it():
    slow = wait.WaitableTasklet(roamlet.sleep, (2,))
    stackless.run()
    assert slow.join(0.001) is False
    slow.insert()
    assert slow.join() is True
    failed = wait.ValueTasklet(divmod)(1, 0)
    with pytest.raises(ZeroDivisionError):
        failed.get()
    with pytest.raises(errors.TimeoutError):
        wait.ValueTasklet(divmod).get(block=False)
    killed = delayed(2)
    stackless.run()
    killed.kill()
    with pytest.raises(errors.CancelledError):
        killed.result()
    failed._error = killed._error = None  # they keep tracebacks, and with them this test's frames


def test_an_observer_passes_on_what_its_filter_lets_through_and_is_not_kept():
    channel = wait.WaitChannel()
    receivable, sendable = wait.Receivable(channel), wait.Sendable(channel)
    assert not receivable.waitsite_signalled()
    running(lambda: channel.send("value"))
    assert wait.wait([receivable, sendable], timeout=0) == [receivable]
    assert channel.receive() == "value"
    running(lambda: channel.receive())
    assert wait.wait([receivable, sendable], timeout=0) == [sendable]
    channel.send("the last")
    stackless.run()
    assert len(channel._callbacks) <= 2
    receivable.close()
    del receivable, sendable
    assert channel._callbacks == []


def test_an_error_of_a_callback_is_printed_and_the_others_are_called(capsys):
    site, log = wait.WaitSite(), []
    site.add_done_callback(lambda _: 1 / 0)
    site.add_done_callback(log.append)
    site.remove_done_callback(print)
    site.waitsite_signal()
    assert log == [site]
    assert "ZeroDivisionError" in capsys.readouterr().err
