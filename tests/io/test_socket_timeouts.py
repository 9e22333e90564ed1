"""Time-outs of sockets, calls that shall not wait, and scopes that expire."""

import array
import os
import re
import socket as standard
import time

import pytest

import roamlet
from roamlet import io
from tests.io._sockets import fill


@pytest.mark.parametrize("timeout", [0.001, 0.01, 1e-9])
def test_a_time_out_is_raised_and_the_socket_goes_on(pair, timeout):
    pair[0].settimeout(timeout)
    for _ in range(2):
        with pytest.raises(TimeoutError, match=re.escape(f"nothing could be received within {timeout!r} seconds")):
            pair[0].recv(10)
    fill(pair[0])
    with pytest.raises(TimeoutError, match="nothing could be sent within"):
        pair[0].sendall(b"x")
    pair[0].settimeout(30)
    pair[1].send(b"data")
    assert pair[0].recv(10) == b"data"


def test_the_time_out_of_sendall_limits_the_whole_call(pair):
    """A reader that takes a little now and then does not prolong it."""
    pair[0].settimeout(0.05)
    end = []

    def reader():
        while not end:
            pair[1].recv(4096)
            roamlet.sleep(0.001)

    roamlet.tasklet(reader)()
    with pytest.raises(TimeoutError):
        pair[0].sendall(b"x" * 100_000_000)
    end.append(True)
    roamlet.run()


def test_without_waiting_there_is_an_error_at_once(pair, listener):
    for sock in (*pair, listener):
        sock.setblocking(False)
        assert (sock.gettimeout(), sock.getblocking(), sock.timeout) == (0.0, False, 0.0)
    for call in (
        lambda: pair[0].recv(1),
        lambda: pair[0].recv_into(bytearray(1)),
        lambda: pair[0].recvfrom(1),
        lambda: pair[0].recvmsg(1),
        listener.accept,
    ):
        with pytest.raises(BlockingIOError):
            call()
    fill(pair[0])
    for call in (lambda: pair[0].send(b"x"), lambda: pair[0].sendall(b"x"), lambda: pair[0].sendmsg([b"x"])):
        with pytest.raises(BlockingIOError):
            call()


def test_one_call_can_be_made_without_waiting(pair):
    for call in (pair[0].recv, pair[0].recvfrom, lambda size, flags: pair[0].recvmsg(size, 0, flags)):
        with pytest.raises(BlockingIOError):
            call(10, standard.MSG_DONTWAIT)
    fill(pair[0])
    for call in (pair[0].send, pair[0].sendall, lambda data, flags: pair[0].sendmsg([data], [], flags)):
        with pytest.raises(BlockingIOError):
            call(b"x", standard.MSG_DONTWAIT)


def test_accept_and_messages_time_out_too(pair, listener):
    for sock in (pair[0], listener):
        sock.settimeout(0.005)
    with pytest.raises(TimeoutError):
        listener.accept()
    with pytest.raises(TimeoutError):
        pair[0].recvmsg(10)


@pytest.mark.parametrize("bad", [-1, -0.001, float("nan")])
def test_nonsense_time_outs_are_refused(pair, bad):
    pair[0].settimeout(5)
    with pytest.raises(ValueError, match="takes a number of seconds from 0 on, or None, not"):
        pair[0].settimeout(bad)
    with pytest.raises(TypeError):
        pair[0].settimeout("soon")
    assert pair[0].gettimeout() == 5


def test_a_scope_that_expires_ends_a_call(pair):
    with roamlet.core.CancelScope(timeout=0.005) as scope:
        pair[0].recv(10)
    assert scope.expired
    pair[1].send(b"later")
    assert pair[0].recv(10) == b"later"


def watched(ours, theirs):
    """A socket that has waited once, so that the hub watches it."""
    roamlet.tasklet(theirs.send)(b"first")
    assert ours.recv(100) == b"first"


def test_what_does_not_wait_finds_what_has_come_since_the_hub_was_asked(pair):
    ours, theirs = pair
    watched(ours, theirs)
    ours.setblocking(False)
    for _ in range(20):
        theirs.send(b"data")
        assert ours.recv(100) == b"data"
        with pytest.raises(BlockingIOError):
            ours.recv(100)


def test_a_message_with_descriptors_does_not_hide_what_follows_it(pair):
    ours, theirs = pair
    watched(ours, theirs)
    with open(os.devnull, "rb") as null:
        theirs.sendmsg([b"a"], [(standard.SOL_SOCKET, standard.SCM_RIGHTS, array.array("i", [null.fileno()]))])
    theirs.send(b"b")
    ours.settimeout(10)
    assert (ours.recv(100), ours.recv(100)) == (b"a", b"b")


def test_what_another_process_sent_does_not_hide_what_follows_it(pair):
    ours, theirs = pair
    ours.setsockopt(standard.SOL_SOCKET, standard.SO_PASSCRED, 1)
    watched(ours, theirs)
    child = os.fork()
    if child == 0:
        os.write(theirs.fileno(), b"a")
        os._exit(0)
    os.waitpid(child, 0)
    theirs.send(b"b")
    ours.settimeout(10)
    assert (ours.recv(100), ours.recv(100)) == (b"a", b"b")


@pytest.mark.parametrize("call", ["recv", "accept", "wait_readable", "read"])
def test_what_came_in_time_is_found_by_a_tasklet_that_runs_too_late(listener, call):
    with io.create_connection(listener.getsockname()) as theirs, listener.accept()[0] as ours:
        watched(ours, theirs)
        for each in (ours, listener):
            each.settimeout(0.01)
        calls = {
            "recv": lambda: ours.recv(100),
            "accept": lambda: listener.accept()[0].close(),
            "wait_readable": lambda: io.wait_readable(ours.fileno(), 0.01),
            "read": lambda: io.read(ours.fileno(), 100, timeout=0.01),
        }
        found = b"data" if call in ("recv", "read") else None
        waiting = roamlet.spawn(calls[call])
        roamlet.schedule()
        with standard.create_connection(listener.getsockname()) as client:
            theirs.send(b"data")
            time.sleep(0.05)  # no other tasklet runs meanwhile
            assert waiting.join(10) == found
            del client
