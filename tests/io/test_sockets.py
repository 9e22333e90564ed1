"""Sockets as objects: the class, the families of addresses, how connections come about, and what is refused."""

import contextlib
import errno
import http.client
import os
import socket as standard
import struct

import pytest

import roamlet
from roamlet import io
from roamlet.io import _sockets
from tests.io._sockets import LOCALHOST
from tests.io.test_descriptors import attempt


def test_it_is_a_socket_of_the_standard_library(pair):
    assert isinstance(pair[0], standard.socket) and isinstance(pair[0], io.socket)
    assert repr(pair[0]).startswith("<roamlet.io._sockets.socket fd=")
    with io.socket() as made:
        assert (made.family, made.type, made.proto) == (standard.AF_INET, standard.SOCK_STREAM, 0)
        assert isinstance(made.family, standard.AddressFamily)
        assert (made.gettimeout(), made.timeout, made.getblocking()) == (None, None, True)
        assert not os.get_inheritable(made.fileno()) and not os.get_blocking(made.fileno())


def test_the_default_time_out_of_the_standard_module_counts(listener):
    standard.setdefaulttimeout(7)
    try:
        with io.socket() as made, io.create_connection(listener.getsockname()) as client:
            accepted, _ = listener.accept()
            with accepted:
                assert (made.gettimeout(), accepted.gettimeout(), client.gettimeout()) == (7, 7, 7)
    finally:
        standard.setdefaulttimeout(None)


def test_a_socket_that_is_made_non_blocking_has_the_time_out_zero():
    with io.socket(standard.AF_INET, standard.SOCK_STREAM | standard.SOCK_NONBLOCK) as made:
        assert (made.gettimeout(), made.type) == (0.0, standard.SOCK_STREAM)


def test_one_around_an_open_descriptor():
    first, second = standard.socketpair()
    with io.socket(fileno=first.detach()) as ours, second:
        assert (ours.family, ours.type) == (second.family, second.type)
        second.send(b"hello")
        assert ours.recv(10) == b"hello"


def test_a_duplicate_and_one_from_a_number(pair):
    with pair[0].dup() as duplicate, io.fromfd(pair[0].fileno(), pair[0].family, pair[0].type) as other:
        assert type(duplicate) is type(other) is io.socket
        duplicate.send(b"a")
        other.send(b"b")
        assert pair[1].recv(10) == b"ab"


def test_initialising_an_open_one_again_is_refused(pair):
    with pytest.raises(RuntimeError, match="this socket is open: close it, and make a new one"):
        pair[0].__init__()


def test_a_subclass_with_a_constructor_of_its_own(listener):
    class Named(io.socket):
        def __init__(self, name):
            super().__init__()
            self.name = name

    with Named("client") as client:
        client.connect(listener.getsockname())
        accepted, address = listener.accept()
        with accepted:
            assert (client.name, type(accepted), address) == ("client", io.socket, client.getsockname())


def test_one_that_was_never_set_up_is_closed():
    made = io.socket.__new__(io.socket)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        made.recv(1)
    made.detach()


def test_one_that_is_forgotten_warns_and_closes_its_descriptor():
    made = io.socket()
    fd = made.fileno()
    with pytest.warns(ResourceWarning, match="unclosed"):
        del made
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(fd)


def test_detach_leaves_the_descriptor_open_and_as_blocking_as_it_seemed():
    for timeout, blocks in ((None, True), (5, False), (0, False)):
        made = io.socket()
        made.settimeout(timeout)
        fd = made.detach()
        assert (made.fileno(), os.get_blocking(fd)) == (-1, blocks)
        os.close(fd)


def test_datagrams_keep_their_bounds_and_come_with_addresses():
    with (
        io.socket(standard.AF_INET, standard.SOCK_DGRAM) as server,
        io.socket(standard.AF_INET, standard.SOCK_DGRAM) as client,
    ):
        server.bind(LOCALHOST)
        client.bind(LOCALHOST)
        log = []
        roamlet.tasklet(lambda: log.extend(server.recvfrom(100) for _ in range(3)))()
        roamlet.schedule()
        for data in (b"one", b"", b"three"):
            assert client.sendto(data, server.getsockname()) == len(data)
        roamlet.run()
        assert log == [(data, client.getsockname()) for data in (b"one", b"", b"three")]
        buffer = bytearray(2)
        client.sendto(b"long", 0, server.getsockname())
        assert server.recvfrom_into(buffer) == (2, client.getsockname())


def test_a_large_datagram_is_whole():
    first, second = io.socketpair(standard.AF_UNIX, standard.SOCK_DGRAM)
    with first, second:
        first.setsockopt(standard.SOL_SOCKET, standard.SO_SNDBUF, 400_000)
        assert first.send(b"x" * 150_000) == 150_000
        assert second.recv(200_000) == b"x" * 150_000


def test_a_datagram_to_nobody_is_an_error_for_who_is_connected():
    with io.socket(standard.AF_INET, standard.SOCK_DGRAM) as server:
        server.bind(LOCALHOST)
        address = server.getsockname()
    with io.socket(standard.AF_INET, standard.SOCK_DGRAM) as client:
        client.connect(address)
        client.send(b"x")
        with pytest.raises(ConnectionRefusedError):
            client.recv(10)


@pytest.mark.skipif(not standard.has_ipv6, reason="this Python knows no IPv6")
def test_ipv6():
    try:
        server = io.create_server(("::1", 0), family=standard.AF_INET6)
    except OSError as error:
        pytest.skip(f"no IPv6 on the loopback interface: {error}")
    with server, io.create_connection(server.getsockname()[:2]) as client:
        accepted, address = server.accept()
        with accepted:
            assert address == client.getsockname() and len(address) == 4
    with (
        io.socket(standard.AF_INET6, standard.SOCK_DGRAM) as first,
        io.socket(standard.AF_INET6, standard.SOCK_DGRAM) as second,
    ):
        first.bind(("::1", 0))
        second.sendto(b"x", first.getsockname())
        assert first.recvfrom(10)[0] == b"x"


def test_unix_sockets_by_path_and_by_abstract_name(tmp_path):
    for name in (str(tmp_path / "socket"), b"\0roamlet test %d" % os.getpid()):
        with io.create_server(name, family=standard.AF_UNIX) as server:
            with io.socket(standard.AF_UNIX) as client:
                client.connect(name)
                accepted, address = server.accept()
                with accepted:
                    assert address in ("", b"") and client.getpeername() == name
                    accepted.sendall(b"hello")
                    assert client.recv(10) == b"hello"


def test_unix_datagrams(tmp_path):
    with (
        io.socket(standard.AF_UNIX, standard.SOCK_DGRAM) as server,
        io.socket(standard.AF_UNIX, standard.SOCK_DGRAM) as client,
    ):
        server.bind(str(tmp_path / "server"))
        client.sendto(b"anonymous", str(tmp_path / "server"))
        assert server.recvfrom(20) == (b"anonymous", None)
        client.bind(str(tmp_path / "client"))
        client.sendto(b"named", str(tmp_path / "server"))
        assert server.recvfrom(20) == (b"named", str(tmp_path / "client"))


def test_connecting_to_a_unix_listener_with_a_full_queue_waits(tmp_path):
    path, log = str(tmp_path / "socket"), []
    with io.create_server(path, family=standard.AF_UNIX, backlog=0) as server:
        clients = [io.socket(standard.AF_UNIX) for _ in range(4)]
        clients[3].settimeout(0.005)
        for number, client in enumerate(clients):
            roamlet.tasklet(attempt)(log, number, client.connect, path)
        while (3, "TimeoutError") not in log:
            roamlet.sleep(0.001)
        for _ in range(3):
            server.accept()[0].close()
        roamlet.run()
        assert sorted(log) == [(0, None), (1, None), (2, None), (3, "TimeoutError")]
        for client in clients:
            client.close()


def test_a_family_that_has_no_code_of_its_own():
    """Netlink: the kernel tells its links."""
    try:
        made = io.socket(standard.AF_NETLINK, standard.SOCK_RAW, 0)
    except (AttributeError, OSError) as error:
        pytest.skip(f"no netlink here: {error}")
    with made:
        made.bind((0, 0))
        request = struct.pack("IHHII", 20, 18, 0x301, 1, 0) + b"\0" * 4  # RTM_GETLINK, all of them
        assert made.sendto(request, (0, 0)) == 20
        data, address = made.recvfrom(65536)
        assert len(data) > 16 and address == (0, 0)


def test_a_refused_connection_is_an_error():
    with io.socket() as unused:
        unused.bind(LOCALHOST)
        address = unused.getsockname()
        with io.socket() as client:
            with pytest.raises(ConnectionRefusedError):
                client.connect(address)
        with io.socket() as client:
            assert client.connect_ex(address) == errno.ECONNREFUSED
        with pytest.raises(ConnectionRefusedError):
            io.create_connection(address)
        with pytest.raises(ExceptionGroup, match="create_connection failed"):
            io.create_connection(address, all_errors=True)


@pytest.mark.parametrize("bad", [-1, float("nan")])
def test_a_wrong_time_out_of_a_connection_is_refused_in_its_own_name(bad):
    with pytest.raises(
        ValueError, match=r"create_connection\(timeout\) takes a number of seconds from 0 on, or None, not "
    ):
        io.create_connection(("127.0.0.1", 1), timeout=bad)
    with pytest.raises(TypeError, match=r"create_connection\(timeout\) takes a number of seconds, not object"):
        io.create_connection(("127.0.0.1", 1), timeout=object())


def test_connections_of_the_standard_http_client_can_be_ours(listener):
    def answer(connection, _):
        request = b""
        while not request.endswith(b"\r\n\r\n"):
            request += connection.recv(1000)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + request.split()[1])

    client = http.client.HTTPConnection(*listener.getsockname())
    client._create_connection = io.create_connection
    with roamlet.scope() as s, contextlib.closing(client):
        s.service(io.serve, (listener, answer))
        client.request("GET", "/hello")
        assert type(client.sock) is io.socket and client.sock.gettimeout() is None
        with client.getresponse() as response:
            assert response.read() == b"/hello"


def test_a_connection_that_nobody_answers_times_out():
    """The queue of a listener that never accepts is full after a few, and further ones are not answered."""
    made, caught = [], []
    with io.create_server(LOCALHOST, backlog=0) as server:
        while not caught:
            made.append(io.socket())
            made[-1].settimeout(0.02)
            try:
                made[-1].connect(server.getsockname())
            except TimeoutError as error:
                caught.append((error.args, error.__notes__))
        assert caught == [(("timed out",), ["the connection was not made within 0.02 seconds (settimeout)"])]
        made.append(io.socket())
        made[-1].settimeout(0.01)
        assert made[-1].connect_ex(server.getsockname()) == errno.EAGAIN
    for client in made:
        client.close()


def test_connecting_without_waiting():
    with io.create_server(LOCALHOST) as server, io.socket() as client:
        client.setblocking(False)
        assert client.connect_ex(server.getsockname()) in (0, errno.EINPROGRESS)
        io.wait_writable(client.fileno())
        assert client.getsockopt(standard.SOL_SOCKET, standard.SO_ERROR) == 0


def test_names_are_looked_up(listener, monkeypatch):
    asked = []

    def look_up(host, port, family, kind, proto=0):
        asked.append(host)
        return [(family or standard.AF_INET, kind, proto, "", ("127.0.0.1", port))]

    monkeypatch.setattr(_sockets, "getaddrinfo", look_up)
    port = listener.getsockname()[1]
    with io.socket() as client:
        client.connect(("some.name", port))
    with io.create_connection(("other.name", port)) as client:
        assert client.getpeername() == ("127.0.0.1", port)
    with io.socket(standard.AF_INET, standard.SOCK_DGRAM) as client:
        assert client.sendto(b"x", ("third.name", port)) == 1
    with io.socket() as client:
        client.bind(("fourth.name", 0))
    assert asked == ["some.name", "other.name", "third.name", "fourth.name"]


@pytest.mark.parametrize(
    ("address", "error"),
    [
        (None, TypeError),
        ("127.0.0.1", TypeError),
        (("127.0.0.1",), TypeError),
        (("127.0.0.1", "80"), TypeError),
        (("127.0.0.1", 70_000), OverflowError),
        (("127.0.0.1", -1), OverflowError),
        ((5, 80), TypeError),
    ],
)
def test_what_is_no_address_is_refused_as_the_standard_class_does(address, error):
    for kind in (standard.SOCK_STREAM, standard.SOCK_DGRAM):
        with io.socket(standard.AF_INET, kind) as ours:
            with pytest.raises(error):
                ours.connect(address)
            with pytest.raises(error):
                ours.sendto(b"x", address)


@pytest.mark.parametrize("path", ["x" * 200, "in\0side", 5])
def test_what_is_no_path_is_refused(path):
    with io.socket(standard.AF_UNIX) as ours:
        with pytest.raises((OSError, TypeError, ValueError)):
            ours.connect(path)
