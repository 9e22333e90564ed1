"""Names and addresses: what is an address is answered at once, the rest on a worker thread."""

import socket
import threading

import pytest

import roamlet
from roamlet import io
from roamlet.io import _originals, workers
from tests.io._workers import Gate, started, wait_until

pytestmark = pytest.mark.usefixtures("workers_at_first")


@pytest.mark.parametrize(
    "question",
    [
        ("127.0.0.1", 80),
        ("::1", "80", socket.AF_INET6),
        (None, 80, 0, socket.SOCK_STREAM, 0, socket.AI_PASSIVE),
        (b"192.0.2.1", None),
    ],
)
def test_an_address_is_answered_at_once_and_as_socket_does(question):
    assert io.getaddrinfo(*question) == socket.getaddrinfo(*question)
    assert workers.status().threads == 0


def test_other_addresses_need_no_worker_either():
    assert io.gethostbyname("127.0.0.1") == "127.0.0.1"
    flags = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    assert io.getnameinfo(("127.0.0.1", 80), flags) == ("127.0.0.1", "80")
    assert workers.status().threads == 0


def test_names_are_asked_for_on_a_worker(monkeypatch):
    asked = []

    def note(name):
        original = getattr(_originals, name)

        def asks(*arguments):
            asked.append((name, threading.current_thread() is threading.main_thread()))
            return original(*arguments)

        monkeypatch.setattr(_originals, name, asks)

    for name in ("getaddrinfo", "getnameinfo", "gethostbyname"):
        note(name)
    assert any(entry[4][0] == "127.0.0.1" for entry in io.getaddrinfo("localhost", 80, socket.AF_INET))
    assert io.gethostbyname("localhost") == "127.0.0.1"
    assert io.getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST)[0] == "127.0.0.1"
    assert asked == [
        ("getaddrinfo", True),
        ("getaddrinfo", False),
        ("getaddrinfo", True),
        ("gethostbyname", False),
        ("getnameinfo", False),
    ]


def test_only_the_tasklet_waits_for_a_slow_resolver(monkeypatch):
    gate, order = Gate(), []
    original = socket.getaddrinfo

    def slow(host, port, family=0, type=0, proto=0, flags=0):
        if not flags & socket.AI_NUMERICHOST:
            gate()
            return []
        return original(host, port, family, type, proto, flags)

    monkeypatch.setattr(_originals, "getaddrinfo", slow)
    tasklet = started(lambda: order.append(io.getaddrinfo("roamlet.invalid", 80)))
    gate.wait_for()
    order.append("another tasklet")
    gate.open()
    io.call_async(lambda: None)
    wait_until(lambda: workers.status().threads == workers.status().idle)
    roamlet.run()
    assert (order, tasklet.alive) == (["another tasklet", []], False)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda module: module.getaddrinfo("127.0.0.1", 80, socket.AF_INET6), socket.gaierror),
        (lambda module: module.getaddrinfo("127.0.0.1", "no-such-service"), socket.gaierror),
        (lambda module: module.getaddrinfo("x" * 64, 80), UnicodeError),
        (lambda module: module.getaddrinfo(5, 80), TypeError),
        (lambda module: module.gethostbyname("no such host!"), socket.gaierror),
        (lambda module: module.getnameinfo(("not an address", 80), 0), socket.gaierror),
    ],
)
def test_what_makes_no_sense_is_refused_as_socket_does(call, error):
    assert refusal(call, io) == refusal(call, socket)
    assert issubclass(refusal(call, io)[0], error)


def refusal(call, module):
    try:
        call(module)
    except Exception as error:
        return type(error), error.args
    return None
