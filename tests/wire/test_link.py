"""The target's end of the link, here in the parent's Python: writes that do not fit, reads in turns, interruptions."""

import errno
import os
import select
import threading
import time
from collections.abc import Iterator

import pytest

from roamlet.wire import protocol
from roamlet.wire.link import link


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def read_all(fd: int, size: int, found: list[bytes]) -> None:
    while size:
        found.append(os.read(fd, min(size, 4096)))
        size -= len(found[-1])


@pytest.mark.parametrize("blocking", [True, False])
def test_a_frame_larger_than_the_pipe_arrives_whole(pipe, blocking):
    source, target = pipe
    os.set_blocking(target, blocking)
    body = os.urandom(1 << 20)
    found: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(source, protocol.HEADER_SIZE + len(body), found))
    reader.start()
    end = link.Link(source, target)
    end.context = 9
    end.send(protocol.RESULT, 3, body)
    reader.join(10)
    assert protocol.FrameReader().feed(b"".join(found)) == [(0, 9, 3, protocol.RESULT, body)]


@pytest.mark.parametrize("sizes", [(10, 1000), (10, 1 << 20), (1 << 17, 1 << 17), (1 << 17, 0)])
def test_a_body_in_two_parts_is_one_frame(pipe, sizes):
    source, target = pipe
    os.set_blocking(target, True)
    body, tail = map(os.urandom, sizes)
    found: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(source, protocol.HEADER_SIZE + sum(sizes), found))
    reader.start()
    link.Link(source, target).send(protocol.RESULT, 3, body, 0, tail)
    reader.join(10)
    assert protocol.FrameReader().feed(b"".join(found)) == [(0, 0, 3, protocol.RESULT, body + tail)]


def test_frames_of_many_threads_do_not_mix(pipe):
    source, target = pipe
    os.set_blocking(target, False)
    end = link.Link(source, target)
    bodies = [bytes([number]) * (number * 3000) for number in range(20)]
    size = sum(protocol.HEADER_SIZE + len(body) for body in bodies)
    found: list[bytes] = []
    threads = [threading.Thread(target=end.send, args=(protocol.RESULT, n, body)) for n, body in enumerate(bodies)]
    threads.append(threading.Thread(target=read_all, args=(source, size, found)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    frames = protocol.FrameReader().feed(b"".join(found))
    assert sorted((frame[2], frame[4]) for frame in frames) == list(enumerate(bodies))


class Interrupted:
    """A lock; before it is given back for the first time, something else happens in another thread."""

    def __init__(self, happens):
        self._lock = threading.Lock()
        self._happens = [happens]
        self.acquire = self._lock.acquire

    def release(self):
        if self._happens:
            thread = threading.Thread(target=self._happens.pop())
            thread.start()
            thread.join(10)
        self._lock.release()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *args):
        self.release()


@pytest.mark.parametrize("first", ["send", "send_in_turn"])
def test_a_frame_left_to_who_is_writing_is_written_also_when_he_has_just_ended(pipe, first):
    end = link.Link(*pipe)
    end._lock = Interrupted(lambda: end.send_in_turn(protocol.frame(0, 0, 2, protocol.PONG, b"")))
    if first == "send":
        end.send(protocol.RESULT, 1, b"")
    else:
        end.send_in_turn(protocol.frame(0, 0, 1, protocol.RESULT, b""))
    os.set_blocking(pipe[0], False)
    assert end.read() == [(0, 0, 1, protocol.RESULT, b""), (0, 0, 2, protocol.PONG, b"")]


def test_writing_to_nobody_is_link_lost():
    source, target = os.pipe()
    os.close(source)
    with pytest.raises(link.LinkLost, match="the link to the parent is lost"):
        link.Link(source, target).send(protocol.RESULT, 1, b"")
    os.close(target)


def test_a_body_that_is_too_long_is_refused_before_anything_is_written(pipe, monkeypatch):
    monkeypatch.setattr(protocol, "MAX_BODY", 1 << 17)
    end = link.Link(*pipe)
    with pytest.raises(protocol.ProtocolError, match="a RESULT message of 131073 bytes"):
        end.send(protocol.RESULT, 1, b"x" * ((1 << 17) + 1))
    with pytest.raises(protocol.ProtocolError, match="a RESULT message of 131073 bytes"):
        end.send(protocol.RESULT, 1, b"x" * (1 << 16), 0, b"x" * ((1 << 16) + 1))
    end.send(protocol.RESULT, 2, b"")
    assert end.read() == [(0, 0, 2, protocol.RESULT, b"")]


def test_reading_says_when_the_parent_is_gone_or_sends_no_frames():
    source, target = os.pipe()
    end = link.Link(source, target)
    os.write(target, b"\xff" * 20)
    assert end.read() is None
    os.close(target)
    assert end.read() is None
    os.close(source)


@pytest.mark.parametrize("make", [link.EpollTurns, link.LockTurns])
def test_one_waiting_thread_gets_each_event(pipe, make):
    source, target = pipe
    turns = make(source)
    got: list[tuple[int, bytes]] = []

    def take_one() -> None:
        turn = turns.wait()
        got.append((turn, os.read(source, 100) if turn == link.READ else b""))
        if turn == link.READ:
            turns.give_back()

    threads = [threading.Thread(target=take_one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in [turns.wake, lambda: os.write(target, b"data"), turns.wake]:
        have = len(got)
        thread()
        while len(got) == have:
            threads[0].join(0.001)
    for thread in threads:
        thread.join(10)
    assert sorted(got) == [(link.READ, b"data"), (link.WAKE, b""), (link.WAKE, b"")]
    turns.close()


def test_who_looks_gets_what_comes_and_leaves_the_others_asleep(pipe, monkeypatch):
    source, target = pipe
    turns = link.EpollTurns(source)
    ready = turns._ready

    class WritesOnceSomebodyLooks:
        def poll(self, timeout: int) -> list[tuple[int, int]]:
            found = ready.poll(timeout)
            if not found:
                os.write(target, b"data")
            return found

    turns._ready = WritesOnceSomebodyLooks()
    monkeypatch.setattr(link, "_LOOK", 600)
    turns._looks = 1
    assert turns.wait() == link.READ
    assert turns._epoll.poll(0) == []  # which is what would wake the others
    assert os.read(source, 100) == b"data"
    assert turns._looks == link._LOOKS
    turns.give_back()
    os.write(target, b"more")
    assert turns._epoll.poll(0) == [(source, select.EPOLLIN)]
    turns.close()


def test_who_was_woken_for_what_another_has_read_waits_on(pipe):
    source, target = pipe
    turns = link.EpollTurns(source)
    got: list[int] = []
    os.write(target, b"data")
    turns._turn.acquire()
    other = threading.Thread(target=lambda: got.append(turns.wait()))
    other.start()
    while turns._epoll.poll(0):  # until the other one has had the event
        turns._epoll.modify(source, select.EPOLLIN | select.EPOLLONESHOT)
    assert os.read(source, 100) == b"data"
    turns.give_back()
    turns.wake()
    other.join(10)
    assert got == [link.WAKE]
    turns.close()


def test_who_looks_in_vain_sleeps_and_looks_no_more_than_some_times(pipe, monkeypatch):
    source, target = pipe
    turns = link.EpollTurns(source)
    monkeypatch.setattr(link, "_LOOK", 0)
    monkeypatch.setattr(link, "_SOON", 0)
    turns._looks = 2
    for left in (1, 0, 0):
        turns.wake()
        assert turns.wait() == link.WAKE
        assert turns._looks == left
    os.write(target, b"data")
    assert turns.wait() == link.READ
    assert os.read(source, 100) == b"data"
    turns.give_back()
    turns.close()


@pytest.mark.parametrize("looks", [0, 1])
def test_who_is_interrupted_by_a_signal_looks_again(pipe, monkeypatch, looks):
    """With no time to wait, too, where a signal has come and nothing else: 2.7 raises then."""
    source, target = pipe
    turns = link.EpollTurns(source)
    ready, interruptions = turns._ready, [InterruptedError(errno.EINTR, "a signal")]

    class Interrupted:
        def poll(self, timeout: int) -> list[tuple[int, int]]:
            if interruptions:
                raise interruptions.pop()
            return ready.poll(timeout)

    turns._ready = Interrupted()
    monkeypatch.setattr(link, "_LOOK", 600)
    turns._looks = looks
    os.write(target, b"data")
    assert turns.wait() == link.READ
    assert not interruptions
    turns.give_back()
    turns.close()


def test_who_looks_goes_to_sleep_although_a_program_has_stopped_the_clock(pipe, monkeypatch):
    turns = link.EpollTurns(pipe[0])
    ready, looks = turns._ready, []

    class Counts:
        def poll(self, timeout: int) -> list[tuple[int, int]]:
            looks.append(timeout)
            assert len(looks) < 100_000
            return ready.poll(timeout)

    turns._ready = Counts()
    turns._looks = 1
    turns.wake()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert turns.wait() == link.WAKE
    turns.close()


def test_what_comes_soon_lets_the_next_one_look(pipe, monkeypatch):
    source, target = pipe
    turns = link.EpollTurns(source)
    monkeypatch.setattr(link, "_SOON", 600)
    os.write(target, b"data")
    assert turns.wait() == link.READ
    turns.give_back()
    assert turns._looks == link._LOOKS
    turns.close()


@pytest.mark.parametrize("make", [link.EpollTurns, link.LockTurns])
def test_a_wake_up_that_comes_early_is_kept(pipe, make):
    turns = make(pipe[0])
    turns.wake()
    assert turns.wait() == link.WAKE
    turns.close()


def test_a_duplicate_lies_above_the_standard_descriptors_and_is_not_inherited(pipe):
    copy = link.keep_aside(pipe[0])
    assert copy >= 10
    assert not os.get_inheritable(copy)
    os.close(copy)
