"""The areas `select` and `sleep`: what is waited for comes from another tasklet of the same thread."""

import errno
import os
import pickle
import select
import selectors
import socket
import threading
import time
from functools import partial
from typing import Any

import pytest

import roamlet
from roamlet.io import _originals
from roamlet.patch.areas import selecting, sleeping
from roamlet.patch.changes import Changes
from tests.io._errors import error_of


@pytest.fixture(autouse=True)
def in_place():
    changes = Changes()
    selecting.apply(changes)
    sleeping.apply(changes)
    yield
    changes.undo()


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.fixture
def file(tmp_path):
    with open(tmp_path / "file", "w+b") as made:
        yield made


@pytest.mark.parametrize("count", [1, 3])
def test_select_waits_for_one_of_several(pair, count):
    left, right = pair
    others = [socket.socketpair() for _ in range(count - 1)]
    roamlet.tasklet(lambda: right.send(b"x"))()
    read, write, other = select.select([left, *(each[0] for each in others)], [], [left], None)
    assert (read, write, other) == ([left], [], [])
    for each in others:
        each[0].close(), each[1].close()


def _ends_of_pipes():
    """A pipe's read end that has no writer, and a write end that has no reader."""
    hung_up, writer = os.pipe()
    os.close(writer)
    reader, broken = os.pipe()
    os.close(reader)
    return hung_up, broken


def test_select_ends_in_time_where_the_kernel_reports_what_was_not_asked_for(pair):
    left, right = pair
    right.close()
    hung_up, broken = _ends_of_pipes()
    unconnected = socket.socket()
    computed = time.process_time()
    with roamlet.timeout(10):
        for write, other in (([], [left]), ([hung_up], []), ([], [hung_up]), ([], [broken]), ([], [unconnected, left])):
            assert select.select([], write, other, 0.2) == ([], [], [])
    assert time.process_time() - computed < 0.8  # of a second: it does not ask without a pause
    os.close(hung_up), os.close(broken), unconnected.close()


def test_select_finds_one_beside_a_peer_that_has_gone(pair):
    left, right = pair
    gone, peer = socket.socketpair()
    peer.close()
    roamlet.tasklet(lambda: (roamlet.sleep(0.02), right.send(b"x")))()
    with roamlet.timeout(10):
        assert select.select([left], [], [gone], None) == ([left], [], [])
    gone.close()


def test_select_takes_lists_of_any_kind(pair):
    left, right = pair
    roamlet.tasklet(lambda: right.send(b"x"))()
    assert select.select(iter([left.fileno()]), (), {right}, 0) == ([], [], [])
    assert select.select(iter([left.fileno()]), (), {right}) == ([left.fileno()], [], [])
    assert select.select([], [left], [], 5) == ([], [left], [])


def test_select_with_a_time_out_lets_others_run(pair):
    ran = []
    roamlet.tasklet(lambda: ran.append(1))()
    assert select.select([pair[0]], [], [], 0.001) == ([], [], [])
    assert select.select([], [], [], 0.001) == ([], [], [])
    assert ran == [1]


def test_a_loop_that_asks_without_waiting_lets_others_run(pair):
    left, right = pair
    roamlet.tasklet(lambda: right.send(b"x"))()
    poll, epoll = select.poll(), select.epoll()
    poll.register(left, select.POLLIN)
    with epoll:
        epoll.register(left, select.EPOLLIN)
        while not select.select([left], [], [], 0)[0]:
            pass
        left.recv(1)
        roamlet.tasklet(lambda: right.send(b"x"))()
        while not poll.poll(0):
            pass
        left.recv(1)
        roamlet.tasklet(lambda: right.send(b"x"))()
        while not epoll.poll(0):
            pass
        assert left.recv(10) == b"x"


WRONG = ["soon", [], float("nan"), 1e300]


@pytest.mark.parametrize("timeout", [*WRONG, -1])
def test_select_refuses_what_the_original_refuses(pair, timeout):
    theirs = error_of(lambda: _originals.select([], [], [], timeout))
    ours = error_of(lambda: select.select([], [], [], timeout))
    assert (type(ours), str(ours)) == (type(theirs), str(theirs))


@pytest.mark.parametrize("timeout", WRONG)
def test_poll_and_epoll_refuse_what_the_originals_refuse(timeout):
    with select.epoll() as ours_epoll, _originals.epoll() as their_epoll:
        for ours, theirs in ((select.poll(), _originals.poll()), (ours_epoll, their_epoll)):
            error = error_of(partial(theirs.poll, timeout))
            found = error_of(partial(ours.poll, timeout))
            assert (type(found), str(found)) == (type(error), str(error))


def test_a_closed_descriptor_is_what_it_is(pair):
    read_fd, write_fd = os.pipe()
    poll = select.poll()
    poll.register(read_fd, select.POLLIN)
    os.close(read_fd), os.close(write_fd)
    assert poll.poll() == [(read_fd, select.POLLNVAL)]
    error = error_of(lambda: select.select([read_fd], [], []))
    assert isinstance(error, OSError) and error.errno == errno.EBADF
    pair[0].close()
    with pytest.raises(ValueError, match="negative"):
        select.select([pair[0]], [], [])


@pytest.mark.parametrize("how", ["original", "patched"])
def test_one_of_several_that_is_closed_meanwhile_is_found_with_the_next(how):
    """By another thread where it is the original, which holds up this one."""
    select_, poll_ = (_originals.select, _originals.poll) if how == "original" else (select.select, select.poll)

    def close_and_send():
        time.sleep(0.02) if how == "patched" else waited.wait(0.1)
        closed.close()
        right.send(b"x")

    def begin():
        if how == "patched":
            return roamlet.spawn(close_and_send)
        thread = threading.Thread(target=close_and_send)
        thread.start()
        return thread

    waited, (left, right) = threading.Event(), socket.socketpair()
    with left, right:
        for call in ("select", "poll"):
            closed, other = socket.socketpair()
            number = closed.fileno()
            with other:
                ending = begin()
                if call == "select":
                    assert select_([closed, left], [], [closed], 10) == ([closed, left], [], [closed])
                else:
                    poll = poll_()
                    poll.register(closed, select.POLLIN), poll.register(left, select.POLLIN)
                    found = dict(poll.poll(10_000))
                    assert found == {number: select.POLLNVAL, left.fileno(): select.POLLIN}
                ending.join()
                left.recv(1)


def test_files_are_always_ready(file, pair):
    assert select.select([file, pair[0]], [file], []) == ([file], [file], [])
    poll = select.poll()
    poll.register(file, select.POLLIN)
    assert poll.poll() == [(file.fileno(), select.POLLIN)]
    poll.modify(file, 0)
    poll.register(pair[0], select.POLLIN)
    assert poll.poll(1) == []


def test_poll_waits_in_milliseconds_and_once_at_a_time(pair):
    left, right = pair
    poll = select.poll()
    poll.register(left, select.POLLIN | select.POLLPRI)
    assert poll.poll(1) == []
    refused = []

    def polls_too():
        with pytest.raises(RuntimeError, match="concurrent"):
            poll.poll()
        refused.append(True)
        right.send(b"x")

    roamlet.tasklet(polls_too)()
    assert poll.poll(-1) == [(left.fileno(), select.POLLIN)] and refused == [True]
    poll.unregister(left)
    with pytest.raises(KeyError):
        poll.unregister(left)
    with pytest.raises(TypeError, match=r"cannot create 'select\.poll' instances"):
        type(poll)()


def test_epoll_waits_and_its_end_ends_the_wait(pair):
    left, right = pair
    epoll = select.epoll()
    epoll.register(left, select.EPOLLIN | select.EPOLLET)
    roamlet.tasklet(lambda: right.send(b"x"))()
    assert epoll.poll(maxevents=1) == [(left.fileno(), select.EPOLLIN)]
    assert epoll.poll(0.001) == [] and epoll.poll(0) == []
    roamlet.tasklet(epoll.close)()
    with pytest.raises(ValueError, match="closed epoll"):
        epoll.poll()
    assert epoll.closed
    epoll.close()


def test_several_tasklets_wait_for_one_epoll(pair):
    left, right = pair
    said = []
    with select.epoll() as epoll:
        epoll.register(left, select.EPOLLIN | select.EPOLLONESHOT)
        for _ in range(3):
            roamlet.tasklet(lambda: said.append(epoll.poll(0.01)))()
        roamlet.schedule()
        right.send(b"x")
        roamlet.run()
    assert sorted(map(len, said)) == [0, 0, 1]


@pytest.mark.parametrize("kind", [selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector])
def test_selectors_wait(pair, kind):
    left, right = pair
    with kind() as selector:
        selector.register(left, selectors.EVENT_READ, "data")
        assert selector.select(0.001) == [] and selector.select(-1) == []
        roamlet.tasklet(lambda: right.send(b"x"))()
        ((key, events),) = selector.select()
        assert (key.data, events) == ("data", selectors.EVENT_READ)


def test_kill_ends_each_wait(pair):
    poll, epoll = select.poll(), select.epoll()
    poll.register(pair[0], select.POLLIN)
    with epoll:
        waits = [roamlet.tasklet(wait)() for wait in (poll.poll, epoll.poll, lambda: select.select([pair[0]], [], []))]
        waits.append(roamlet.tasklet(time.sleep)(1000))
        roamlet.schedule()
        for each in waits:
            each.kill()
        assert not any(each.alive for each in waits)
    assert poll.poll(0) == []  # it is free again


def test_an_error_that_is_raised_in_a_waiting_tasklet_is_its_own(pair):
    said = []

    def waits():
        try:
            select.select([pair[0]], [], [], 1000)
        except TimeoutError as error:
            said.append(str(error))

    waiting = roamlet.tasklet(waits)()
    roamlet.schedule()
    waiting.raise_exception(TimeoutError("mine"))
    assert said == ["mine"]


def test_without_a_descriptor_to_spare_select_looks_again(pair, monkeypatch):
    def none_left(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(_originals, "epoll", none_left)
    left, right = pair
    roamlet.tasklet(lambda: right.send(b"x"))()
    assert select.select([left, right], [], [])[0] == [left]
    left.recv(1)
    assert select.select([left, right], [], [], 0.005) == ([], [], [])


def test_sleep_lets_others_run_and_refuses_what_the_original_refuses():
    ran = []
    roamlet.tasklet(lambda: ran.append(1))()
    time.sleep(0)
    assert ran == [1]
    for wrong in ("1", None, -1, float("nan"), 1e300, float("inf")):
        theirs, ours = error_of(partial(_originals.sleep, wrong)), error_of(partial(time.sleep, wrong))
        assert (type(ours), str(ours)) == (type(theirs), str(theirs))


class Holder:
    pass


def test_functions_stay_functions_as_attributes_and_in_pickles(pair, monkeypatch):
    monkeypatch.setattr(Holder, "sleep", time.sleep, raising=False)
    monkeypatch.setattr(Holder, "select", select.select, raising=False)
    monkeypatch.setattr(Holder, "poll", select.poll, raising=False)
    holder: Any = Holder()
    holder.sleep(0)
    assert holder.select([], [pair[0]], [], 0)[1] == [pair[0]] and holder.poll().poll(0) == []
    assert pickle.loads(pickle.dumps(time.sleep)) is time.sleep
    assert time.sleep.__name__ == "sleep" and time.sleep.__doc__ == _originals.sleep.__doc__
    assert repr(time.sleep) == "<function time.sleep of roamlet.patch>"


def test_threads_without_tasklets_wait_as_before(pair):
    left, right = pair
    said = []
    thread = threading.Thread(target=lambda: said.append(select.select([left], [], [])[0]))
    thread.start()
    right.send(b"x")
    thread.join()
    assert said == [[left]]
