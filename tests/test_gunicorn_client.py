"""The sockets of roamlet.gunicorn.Worker: which calls go out in one piece. Sockets of packets show what one call has sent."""

import os
import socket

import pytest

pytest.importorskip("gunicorn")

from gunicorn import util

from roamlet.gunicorn import _JOINED_BYTES, _Client

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"


@pytest.fixture
def pair():
    """A client of the worker, and a function that returns what has been sent to it, by calls."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client = _Client.of(ours)

    def sent():
        found = []
        while True:
            try:
                found.append(theirs.recv(1 << 20, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return found

    with client, theirs:
        yield client, sent


def test_a_head_goes_with_the_first_piece_of_the_body(pair):
    client, sent = pair
    util.write(client, HEAD)
    assert sent() == []
    util.write(client, b"body")
    assert sent() == [HEAD + b"body"]
    util.write(client, b"more")
    assert sent() == [b"more"]


def test_a_head_goes_with_the_first_chunk(pair):
    client, sent = pair
    util.write(client, HEAD)
    util.write(client, b"body", chunked=True)
    assert sent() == [HEAD + b"4\r\nbody\r\n"]
    util.write_chunk(client, b"")
    assert sent() == [b"0\r\n\r\n"]


def test_a_head_without_a_body_goes_when_the_response_ends(pair):
    client, sent = pair
    util.write(client, HEAD)
    client.send_head()
    client.send_head()
    assert sent() == [HEAD]


def test_a_long_body_is_not_copied(pair):
    client, sent = pair
    body = b"x" * (_JOINED_BYTES + 1)
    util.write(client, HEAD)
    util.write(client, body)
    assert sent() == [HEAD, body]


@pytest.mark.parametrize(
    "interim", [b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"]
)
def test_what_comes_before_a_response_goes_at_once(pair, interim):
    client, sent = pair
    util.write(client, interim)
    assert sent() == [interim]


def test_what_the_application_sends_by_itself_goes_at_once(pair):
    client, sent = pair
    client.sendall(HEAD)
    assert sent() == [HEAD]
    client.sendall(memoryview(HEAD))
    assert sent() == [HEAD]


def test_a_file_goes_after_its_head(tmp_path):
    (tmp_path / "file").write_bytes(b"body")
    ours, theirs = socket.socketpair()
    with _Client.of(ours) as client, theirs, open(tmp_path / "file", "rb") as file:
        theirs.settimeout(10)
        util.write(client, HEAD)
        client.sendfile(file)
        assert theirs.recv(len(HEAD) + 4, socket.MSG_WAITALL) == HEAD + b"body"


def test_a_head_that_waits_is_dropped_with_a_closed_connection(pair):
    client, _ = pair
    util.write(client, HEAD)
    client.close()
    client.send_head()


def test_the_descriptor_is_the_accepted_one():
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    with _Client.of(ours) as client, theirs:
        assert client.fileno() == number and ours.fileno() == -1
        assert not os.get_inheritable(number)
