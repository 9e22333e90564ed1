"""Messages between workers and the broker: what arrives is what was sent, and an end within one is an end."""

import socket
import threading

import pytest

from roamlet import io
from roamlet_ansible.broker import protocol, server
from roamlet_ansible.broker.hosts import Hosts
from roamlet_ansible.cores.packed import Keeper


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def test_a_message_arrives_as_it_was_sent(pair):
    left, right = pair
    blobs = [b"", b"\x00\xff", b"x" * 3_000_000]
    sender = threading.Thread(
        target=protocol.send, args=(left, {"do": "exec", "text": "ä\n'\"", "list": [1, None]}, blobs)
    )
    sender.start()
    header, parts = protocol.receive(right)
    sender.join()
    assert header == {"do": "exec", "text": "ä\n'\"", "list": [1, None]}
    assert parts == blobs


def test_an_end_before_a_message_and_within_one_is_told(pair):
    left, right = pair
    left.sendall(protocol.PREFIX.pack(40, 1, 100) + b"short")
    left.close()
    with pytest.raises(protocol.Ended):
        protocol.receive(right)
    with pytest.raises(protocol.Ended):
        protocol.receive(right)


def test_what_is_no_message_is_refused_before_memory_is_taken(pair):
    left, right = pair
    left.sendall(b"GET / HTTP/1.1\r\n")
    with pytest.raises(ValueError, match="not one of ours"):
        protocol.receive(right)


def test_lengths_that_contradict_each_other_are_refused(pair):
    left, right = pair
    for prefix, rest in (((40, 1, 20), b""), ((2, 1, 12), protocol.LENGTH.pack(9) + b"{}zz")):
        left.sendall(protocol.PREFIX.pack(*prefix) + rest)
        with pytest.raises(ValueError, match="of ours"):
            protocol.receive(right)


def test_a_short_message_is_sent_at_once():
    sent = []

    class Connection:
        def sendall(self, data):
            sent.append(bytes(data))

    protocol.send(Connection(), {"do": "module"}, [b"12", b"345"])
    assert len(sent) == 1
    protocol.send(Connection(), {"do": "put"}, [b"x" * protocol.JOINED])
    assert len(sent) == 3


def test_an_answer_that_cannot_be_sent_ends_one_connection_and_not_the_broker(monkeypatch):
    monkeypatch.setattr(server.Session, "answer", lambda *given: ({}, ["no bytes"]))
    hosts = Hosts(Keeper("/nonexistent"))
    ours, theirs = io.socketpair()
    with ours:
        protocol.send(ours, {"do": "exec"})
        with theirs:  # as io.serve() does it
            server._served(theirs, hosts)
        with pytest.raises(protocol.Ended):
            protocol.receive(ours)
