"""The loop of a server: one tasklet a connection, what one connection cannot do to the others, and how it ends."""

import errno
import logging
import os
import re
import resource
import socket as standard
import struct

import pytest

import roamlet
from roamlet import io
from roamlet.io import _serve
from tests.io._errors import error_of
from tests.io._workers import started


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "roamlet.io.serve")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def shout(connection, address):
    while data := connection.recv(100):
        connection.sendall(data.upper())


def connect(listener):
    return io.create_connection(listener.getsockname())


def asks(client, question):
    client.sendall(question)
    return client.recv(100)


def reset(client):
    client.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def failing_with(*errors):
    """A listener whose accept() raises each of `errors` first."""
    left = list(errors)

    class Listener(io.socket):
        def accept(self):
            if left:
                raise left.pop(0)
            return super().accept()

    made = Listener()
    made.bind(("127.0.0.1", 0))
    made.listen()
    return made


# ---- connections ----


def test_each_connection_is_handled_by_a_tasklet_of_its_own(listener):
    with roamlet.scope() as s:
        s.service(io.serve, (listener, shout))
        with connect(listener) as first, connect(listener) as second:
            assert asks(second, b"second") == b"SECOND"
            assert asks(first, b"first") == b"FIRST"


def test_the_handler_gets_the_connection_and_its_address_and_the_connection_is_closed_afterwards(listener):
    seen = []

    def handle(connection, address):
        seen.append((connection, address))

    with roamlet.scope() as s:
        s.service(io.serve, (listener, handle))
        with connect(listener) as client:
            assert client.recv(1) == b""
            [(connection, address)] = seen
            assert type(connection) is io.socket and connection.fileno() == -1
            assert address == client.getsockname()


def test_a_handler_that_has_every_attribute_is_called_like_any_other(listener):
    class Proxy:
        def __getattr__(self, name):
            return self

        def __call__(self, connection, address):
            connection.sendall(b"hello")

    with roamlet.scope() as s:
        s.service(io.serve, (listener, Proxy()))
        with connect(listener) as client:
            assert client.recv(100) == b"hello"


# ---- what one connection cannot do to the others ----


def test_a_client_that_resets_its_connection_ends_no_other(listener, log):
    with roamlet.scope() as s:
        s.service(io.serve, (listener, shout))
        with connect(listener) as polite:
            rude = connect(listener)
            assert asks(rude, b"x") == b"X"
            rude_address = rude.getsockname()
            reset(rude)
            while not log():
                assert asks(polite, b"hello") == b"HELLO"
    [(level, message)] = log()
    assert level == "INFO"
    assert message.startswith(f"the connection from {rude_address!r} was lost: ")


def test_another_oserror_of_a_handler_is_logged_with_its_traceback(listener, caplog):
    def handle(connection, address):
        open(connection.recv(100).decode())  # noqa: SIM115 - it is not there

    with roamlet.scope() as s:
        s.service(io.serve, (listener, handle))
        for _ in range(2):
            with connect(listener) as client:
                assert asks(client, b"/no/such/file") == b""
    first, second = caplog.records
    assert first.levelname == second.levelname == "WARNING"
    assert "the connection from ('127.0.0.1', " in first.getMessage() and " has failed" in first.getMessage()
    assert first.exc_info[0] is FileNotFoundError and first.exc_info[2] is not None
    caplog.clear()


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (ConnectionResetError("one of two directions"), "INFO the connection from * was lost: one of two directions"),
        (FileNotFoundError("one of two files"), "WARNING the connection from * has failed"),
    ],
)
def test_a_group_of_oserrors_counts_as_one(listener, log, error, logged):
    def handle(connection, address):
        with roamlet.scope() as s:
            s.spawn(connection.recv, (100,))
            raise error

    with roamlet.scope() as s:
        s.service(io.serve, (listener, handle))
        for _ in range(2):
            with connect(listener) as client:
                assert client.recv(1) == b""
    said = [f"{level} {re.sub(r'[(].*?[)]', '*', message)}" for level, message in log()]
    assert said == [logged, logged]


@pytest.mark.parametrize(
    "error", [ValueError("a mistake"), ExceptionGroup("two", [OSError(), ValueError("a mistake")])]
)
def test_any_other_error_of_a_handler_cancels_the_others_and_is_raised(listener, error):
    ended = []

    def handle(connection, address):
        try:
            if connection.recv(1) == b"!":
                raise error
        except roamlet.Cancelled:
            ended.append("cancelled")
            raise

    server = roamlet.spawn(io.serve, (listener, handle))
    with connect(listener) as waiting, connect(listener) as wrong:
        roamlet.sleep(0)
        wrong.sendall(b"!")
        raised = error_of(server.join)
        assert isinstance(raised, ExceptionGroup) and raised.exceptions == (error,)
        assert (waiting.recv(1), ended) == (b"", ["cancelled"])
    error.__traceback__ = error.__context__ = None
    listener.getsockname()  # it is still open


# ---- what accept() may raise ----


def test_without_descriptors_it_waits_until_there_are_some(listener, log, monkeypatch):
    pauses, taken = [], []

    def make_room(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            while taken:
                os.close(taken.pop())

    monkeypatch.setattr(_serve, "sleep", make_room)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with connect(listener) as client:
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 10, before[1]))
        try:
            while True:
                try:
                    taken.append(os.dup(client.fileno()))
                except OSError:
                    break
            with roamlet.scope() as s:
                s.service(io.serve, (listener, shout))
                assert asks(client, b"hello") == b"HELLO"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for fd in taken:
                os.close(fd)
    assert pauses == [0.1, 0.1]
    message = f"no more connections are accepted for the moment: [Errno {errno.EMFILE}] {os.strerror(errno.EMFILE)}"
    assert log() == [("WARNING", message)]


@pytest.mark.parametrize("name", ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"])
def test_where_there_is_no_room_it_pauses_and_can_be_cancelled(name, log):
    with failing_with(*(OSError(getattr(errno, name), "no room") for _ in range(1000))) as listener:
        server = started(lambda: io.serve(listener, shout))
        assert server.alive
        server.kill()
        assert not server.alive
    assert [level for level, _ in log()] == ["WARNING"]


def test_connections_that_are_gone_before_they_are_accepted_are_passed_over(log):
    gone = [ConnectionAbortedError(errno.ECONNABORTED, "gone"), OSError(errno.EPROTO, "gone"), TimeoutError("nobody")]
    with failing_with(*gone) as listener, roamlet.scope() as s:
        s.service(io.serve, (listener, shout))
        with connect(listener) as client:
            assert asks(client, b"hello") == b"HELLO"
    assert log() == []


def test_another_error_of_accept_is_raised():
    with failing_with(OSError(errno.EINVAL, "does not listen")) as listener:
        raised = error_of(lambda: io.serve(listener, shout))
    assert isinstance(raised, ExceptionGroup)
    [inner] = raised.exceptions
    assert str(inner) == f"[Errno {errno.EINVAL}] does not listen"
    inner.__traceback__ = None  # it leads to this frame


def test_a_time_out_of_the_listener_ends_nothing(listener):
    listener.settimeout(0.001)
    with roamlet.scope() as s:
        s.service(io.serve, (listener, shout))
        roamlet.sleep(0.01)
        with connect(listener) as client:
            assert asks(client, b"hello") == b"HELLO"


# ---- the end ----


def test_when_the_listener_is_closed_it_waits_for_the_handlers_and_returns(listener):
    server = roamlet.spawn(io.serve, (listener, shout))
    with connect(listener) as client:
        assert asks(client, b"one") == b"ONE"
        listener.close()
        assert asks(client, b"two") == b"TWO"
        assert server.alive
    assert server.join() is None


def test_over_a_closed_listener_it_returns_at_once(listener):
    listener.close()
    assert io.serve(listener, shout) is None


@pytest.mark.parametrize("way", ["killed", "cancelled"])
def test_when_it_is_ended_the_handlers_are_too(listener, way):
    ended = []

    def handle(connection, address):
        connection.sendall(b"hello")
        try:
            connection.recv(1)
        except roamlet.Cancelled:
            ended.append(True)
            raise

    with roamlet.scope() as s:
        server = s.spawn(io.serve, (listener, handle))
        with connect(listener) as client:
            assert client.recv(100) == b"hello"
            s.cancel() if way == "cancelled" else server.kill()
            with roamlet.shield():
                assert client.recv(1) == b""
    assert ended == [True]
    listener.getsockname()  # it is still open


# ---- what is refused ----


def test_a_standard_socket_is_refused():
    with standard.create_server(("127.0.0.1", 0)) as blocking:
        with pytest.raises(TypeError, match=r"would block the whole thread: make it with roamlet\.io\.create_server"):
            io.serve(blocking, shout)


def test_a_listener_that_does_not_wait_is_refused(listener):
    listener.setblocking(False)
    with pytest.raises(ValueError, match=r"does not wait for connections: listener\.setblocking\(True\)"):
        io.serve(listener, shout)


async def asynchronous(connection, address):
    pass


@pytest.mark.parametrize("bad", [None, "shout", asynchronous])
def test_what_cannot_handle_a_connection_is_refused(listener, bad):
    with pytest.raises(
        TypeError, match=r"takes a plain function, handler\(connection, address\), which may block, not "
    ):
        io.serve(listener, bad)
