"""Sockets: what one tasklet waits for blocks no other; connections, streams, time-outs, ends, and what is refused."""

import contextlib
import errno
import http.client
import os
import re
import socket as standard
import struct
import threading
from io import BytesIO

import pytest

import weft
from tests.core._scripts import output_of
from tests.io.test_descriptors import attempt
from weft import io
from weft.io import _sockets

LOCALHOST = ("127.0.0.1", 0)


@pytest.fixture
def listener():
    with io.create_server(LOCALHOST) as made:
        yield made


@pytest.fixture
def pair():
    first, second = io.socketpair()
    with first, second:
        yield first, second


def fill(sock):
    """Send until nothing more fits; return how much did."""
    before, sent = sock.gettimeout(), 0
    sock.settimeout(0)
    while True:
        try:
            sent += sock.send(b"x" * 65536)
        except BlockingIOError:
            sock.settimeout(before)
            return sent


def receive_all(sock):
    data = b""
    while part := sock.recv(100_000):
        data += part
    return data


# ---- the class ----


def test_it_is_a_socket_of_the_standard_library(pair):
    assert isinstance(pair[0], standard.socket) and isinstance(pair[0], io.socket)
    assert repr(pair[0]).startswith("<weft.io._sockets.socket fd=")
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


# ---- streams ----


def test_others_run_while_one_receives(pair):
    log = []

    def reader():
        log.append(pair[0].recv(100))

    def writer():
        for number in range(3):
            log.append(number)
            weft.schedule()
        pair[1].send(b"data")

    weft.tasklet(reader)()
    weft.tasklet(writer)()
    weft.run()
    assert log == [0, 1, 2, b"data"]


def test_an_echo_server_with_many_connections(listener):
    log = []

    def serve(count):
        for _ in range(count):
            connection, _ = listener.accept()
            weft.tasklet(echo)(connection)

    def echo(connection):
        with connection:
            while data := connection.recv(1000):
                connection.sendall(data)

    def client(number):
        with io.create_connection(listener.getsockname()) as connection:
            message = b"%d " % number * 20_000
            weft.tasklet(connection.sendall)(message)
            received = b""
            while len(received) < len(message):
                received += connection.recv(777)
            log.append(received == message)

    weft.tasklet(serve)(20)
    for number in range(20):
        weft.tasklet(client)(number)
    weft.run()
    assert log == [True] * 20


def test_a_large_sendall_arrives_complete(pair):
    data = bytes(range(256)) * 20_000
    got = []

    def reader():
        got.append(receive_all(pair[0]))

    weft.tasklet(reader)()
    pair[1].sendall(memoryview(data))
    pair[1].shutdown(standard.SHUT_WR)
    weft.run()
    assert got == [data]


def test_send_and_recv_take_a_limited_part_of_a_stream_at_once(pair):
    assert 0 < pair[0].send(b"x" * 10_000_000) <= 1 << 18
    assert 0 < len(pair[1].recv(10_000_000)) <= 1 << 16


def test_half_a_close_lets_the_other_direction_go_on(pair):
    pair[0].sendall(b"question")
    pair[0].shutdown(standard.SHUT_WR)
    assert receive_all(pair[1]) == b"question"
    pair[1].sendall(b"answer")
    pair[1].close()
    assert receive_all(pair[0]) == b"answer"
    assert pair[0].recv(10) == b""


def test_data_and_the_end_that_come_together_are_both_seen(pair, run_until_blocked):
    """Less than was asked for does not say that nothing more will come."""
    log = []

    def reader():
        while data := pair[0].recv(100):
            log.append(data)
        log.append("end")

    weft.tasklet(reader)()
    run_until_blocked()
    pair[1].send(b"last")
    pair[1].close()
    weft.run()
    assert log == [b"last", "end"]


def test_data_that_comes_between_two_receives_is_not_missed(pair, run_until_blocked):
    log = []

    def reader():
        for _ in range(3):
            log.append(pair[0].recv(100))

    weft.tasklet(reader)()
    for number in range(3):
        run_until_blocked()
        pair[1].send(b"%d" % number)
        while len(log) <= number:
            weft.sleep(0.0001)
    assert log == [b"0", b"1", b"2"]


def test_a_reset_is_an_error_for_who_receives(listener, run_until_blocked):
    log = []
    with io.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        weft.tasklet(attempt)(log, "recv", client.recv, 10)
        run_until_blocked()
        accepted.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        weft.run()
        assert log == [("recv", "ConnectionResetError")]


def test_who_waits_for_room_learns_that_nobody_reads_any_more(pair, run_until_blocked):
    log = []
    fill(pair[0])
    weft.tasklet(attempt)(log, "send", pair[0].sendall, b"more")
    run_until_blocked()
    pair[1].close()
    weft.run()
    assert log == [("send", "BrokenPipeError")]


def test_a_full_buffer_blocks_the_sender_until_it_is_read(pair, run_until_blocked):
    log = []
    filled = fill(pair[0])
    weft.tasklet(attempt)(log, "send", pair[0].sendall, b"more")
    run_until_blocked()
    weft.sleep(0)
    assert log == []
    data = b""
    while len(data) < filled + 4:
        data += pair[1].recv(1 << 20)
    weft.run()
    assert (log, data[-4:]) == ([("send", None)], b"more")


def test_waiting_for_all_of_a_size(pair):
    weft.tasklet(lambda: [(pair[1].send(b"x" * 70_000), weft.schedule()) for _ in range(3)])()
    assert pair[0].recv(200_000, standard.MSG_WAITALL) == b"x" * 200_000
    assert pair[0].recv(50_000) == b"x" * 10_000
    pair[1].send(b"rest")
    pair[1].close()
    assert pair[0].recv(100, standard.MSG_WAITALL) == b"rest"


def test_peeking_takes_nothing(pair):
    pair[1].send(b"data")
    assert [pair[0].recv(2, standard.MSG_PEEK), pair[0].recv(9, standard.MSG_PEEK), pair[0].recv(9)] == [
        b"da",
        b"data",
        b"data",
    ]


def test_urgent_data_does_not_hide_what_follows(listener):
    with io.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        with accepted:
            log = []

            def reader():
                while data := accepted.recv(100):
                    log.append(data)

            tasklet = weft.tasklet(reader)()
            weft.schedule()
            client.send(b"one")
            client.send(b"!", standard.MSG_OOB)
            client.send(b"two")
            client.shutdown(standard.SHUT_WR)
            while tasklet.alive:
                weft.sleep(0.001)
            assert b"".join(log) == b"onetwo"


def test_receiving_into_a_buffer(pair):
    buffer = bytearray(10)
    pair[1].send(b"abcdef")
    assert pair[0].recv_into(buffer, 2) == 2
    assert pair[0].recv_into(memoryview(buffer)[2:]) == 4
    assert buffer[:6] == b"abcdef"
    with pytest.raises(ValueError, match="nbytes is greater than the length of the buffer"):
        pair[0].recv_into(buffer, 11)
    with pytest.raises(TypeError):
        pair[0].recv_into(b"constant")


def test_files_on_a_socket(pair):
    log = []

    def reader():
        with pair[0].makefile("rb") as file:
            log.extend(file)

    weft.tasklet(reader)()
    with pair[1].makefile("w") as file:
        file.write("first\nsecond\n")
        file.flush()
        weft.schedule()
        file.write("third\n")
    pair[1].close()
    weft.run()
    assert log == [b"first\n", b"second\n", b"third\n"]


def test_sendfile_sends_a_file_and_what_is_no_file(pair, tmp_path):
    content = bytes(range(256)) * 10_000
    path = tmp_path / "file"
    path.write_bytes(content)
    got = []
    weft.tasklet(lambda: got.append(receive_all(pair[0])))()
    with open(path, "rb") as file:
        assert pair[1].sendfile(file, offset=10, count=2_000_000) == 2_000_000
        assert file.tell() == 2_000_010
        assert pair[1].sendfile(file, offset=2_000_010) == len(content) - 2_000_010
    assert pair[1].sendfile(BytesIO(b"from memory")) == 11
    pair[1].close()
    weft.run()
    assert got == [content[10:] + b"from memory"]


def test_messages_with_descriptors(pair, run_until_blocked):
    log = []
    weft.tasklet(lambda: log.append(standard.recv_fds(pair[0], 10, 1)))()
    run_until_blocked()
    read_end, write_end = os.pipe()
    standard.send_fds(pair[1], [b"here"], [write_end])
    weft.run()
    (data, fds, _, _) = log[0]
    os.write(fds[0], b"through")
    assert (data, os.read(read_end, 10)) == (b"here", b"through")
    for fd in (*fds, read_end, write_end):
        os.close(fd)


# ---- datagrams and families ----


def test_datagrams_keep_their_bounds_and_come_with_addresses():
    with (
        io.socket(standard.AF_INET, standard.SOCK_DGRAM) as server,
        io.socket(standard.AF_INET, standard.SOCK_DGRAM) as client,
    ):
        server.bind(LOCALHOST)
        client.bind(LOCALHOST)
        log = []
        weft.tasklet(lambda: log.extend(server.recvfrom(100) for _ in range(3)))()
        weft.schedule()
        for data in (b"one", b"", b"three"):
            assert client.sendto(data, server.getsockname()) == len(data)
        weft.run()
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
    for name in (str(tmp_path / "socket"), b"\0weft test %d" % os.getpid()):
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


def test_connecting_to_a_unix_listener_with_a_full_queue_waits(tmp_path, run_until_blocked):
    path, log = str(tmp_path / "socket"), []
    with io.create_server(path, family=standard.AF_UNIX, backlog=0) as server:
        clients = [io.socket(standard.AF_UNIX) for _ in range(4)]
        clients[3].settimeout(0.005)
        for number, client in enumerate(clients):
            weft.tasklet(attempt)(log, number, client.connect, path)
        while (3, "TimeoutError") not in log:
            weft.sleep(0.001)
        for _ in range(3):
            server.accept()[0].close()
        weft.run()
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


# ---- connecting ----


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
    with weft.scope() as s, contextlib.closing(client):
        s.service(io.serve, (listener, answer))
        client.request("GET", "/hello")
        assert type(client.sock) is io.socket and client.sock.gettimeout() is None
        with client.getresponse() as response:
            assert response.read() == b"/hello"


def test_a_connection_that_nobody_answers_times_out():
    """The queue of a listener that accepts nobody is full after a few, and further ones are not answered."""
    made, caught = [], []
    with io.create_server(LOCALHOST, backlog=0) as server:
        while not caught:
            made.append(io.socket())
            made[-1].settimeout(0.02)
            try:
                made[-1].connect(server.getsockname())
            except TimeoutError as error:
                caught.append(str(error))
        assert caught == ["timed out: the connection was not made within 0.02 seconds (settimeout)"]
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


# ---- time-outs ----


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
            weft.sleep(0.001)

    weft.tasklet(reader)()
    with pytest.raises(TimeoutError):
        pair[0].sendall(b"x" * 100_000_000)
    end.append(True)
    weft.run()


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
    with weft.core.CancelScope(timeout=0.005) as scope:
        pair[0].recv(10)
    assert scope.expired
    pair[1].send(b"later")
    assert pair[0].recv(10) == b"later"


# ---- closing, killing, several who wait ----


@pytest.mark.parametrize("call", ["recv", "recv_into", "recvfrom", "recvmsg", "sendall", "accept", "connect"])
def test_closing_wakes_who_waits_with_an_error(call, listener, tmp_path, run_until_blocked):
    log, first, second = [], *io.socketpair()
    fill(first)
    sock, arguments = first, (10,)
    if call == "sendall":
        arguments = (b"x",)
    elif call == "recv_into":
        arguments = (bytearray(5),)
    elif call == "accept":
        sock, arguments = listener, ()
    elif call == "connect":
        path = str(tmp_path / "socket")
        full = io.create_server(path, family=standard.AF_UNIX, backlog=0)
        others = [io.socket(standard.AF_UNIX) for _ in range(1)]
        for other in others:
            other.connect(path)
        sock, arguments = io.socket(standard.AF_UNIX), (path,)
    for name in "ab":
        weft.tasklet(attempt)(log, name, getattr(sock, call), *arguments)
    run_until_blocked()
    assert log == []
    sock.close()
    weft.run()
    assert sorted(log) == [("a", "OSError"), ("b", "OSError")]
    first.close()
    second.close()
    if call == "connect":
        for other in (*others, full):
            other.close()


def test_the_error_of_closing_names_the_descriptor(pair, run_until_blocked):
    caught = []

    def reader():
        try:
            pair[0].recv(10)
        except OSError as error:
            caught.append((error.errno, str(error)))

    weft.tasklet(reader)()
    run_until_blocked()
    fd = pair[0].fileno()
    pair[0].close()
    weft.run()
    assert caught == [(errno.EBADF, f"[Errno 9] descriptor {fd} was closed while a tasklet waited for it")]


def test_closing_in_another_thread_wakes_who_waits_in_every_thread(pair):
    log, ready = [], threading.Barrier(4)

    def waits(name):
        def inside():
            attempt(log, name, pair[0].recv, 10)

        weft.tasklet(inside)()
        weft.schedule()
        ready.wait()
        weft.run()

    threads = [threading.Thread(target=waits, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    ready.wait()
    pair[0].close()
    for thread in threads:
        thread.join(30)
    assert sorted(log) == [(number, "OSError") for number in range(3)]


def test_a_closed_socket_says_so_in_every_call(pair):
    pair[0].close()
    pair[0].close()
    assert pair[0].fileno() == -1
    for call in (
        lambda: pair[0].recv(1),
        lambda: pair[0].send(b"x"),
        lambda: pair[0].sendall(b"x"),
        lambda: pair[0].recvfrom(1),
        lambda: pair[0].recvmsg(1),
        lambda: pair[0].accept(),
        lambda: pair[0].connect("/nowhere"),
        lambda: pair[0].shutdown(2),
        lambda: pair[0].sendto(b"x", "/nowhere"),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            call()


def test_detach_wakes_who_waits(pair, run_until_blocked):
    log = []
    weft.tasklet(attempt)(log, "recv", pair[0].recv, 10)
    run_until_blocked()
    fd = pair[0].detach()
    weft.run()
    assert log == [("recv", "OSError")]
    os.close(fd)


def test_a_number_that_is_used_again_belongs_to_the_new_socket():
    for _ in range(3):
        first, second = io.socketpair()
        with first, second:
            weft.tasklet(second.send)(b"data")
            assert first.recv(10) == b"data"


def test_a_number_that_was_closed_behind_our_back_serves_a_new_socket():
    first, second = io.socketpair()
    number = first.fileno()
    weft.tasklet(second.send)(b"data")
    assert first.recv(10) == b"data"
    os.close(number)
    others = [io.socketpair() for _ in range(2)]
    reused = [sock for pair in others for sock in pair if sock.fileno() == number]
    assert len(reused) == 1
    partner = next(pair for pair in others if reused[0] in pair)
    partner = partner[0] if partner[1] is reused[0] else partner[1]
    weft.tasklet(partner.send)(b"new")
    reused[0].settimeout(10)
    assert reused[0].recv(10) == b"new"
    first.detach()
    for sock in (second, *(sock for pair in others for sock in pair)):
        sock.close()


def test_killed_while_it_waits(pair, listener, run_until_blocked):
    log = []
    fill(pair[0])
    tasklets = [
        weft.tasklet(attempt)(log, "recv", pair[0].recv, 10),
        weft.tasklet(attempt)(log, "send", pair[0].sendall, b"x"),
        weft.tasklet(attempt)(log, "accept", listener.accept),
    ]
    run_until_blocked()
    for tasklet in tasklets:
        tasklet.kill()
    assert log == [("recv", "killed"), ("send", "killed"), ("accept", "killed")]
    pair[1].send(b"still works")
    assert pair[0].recv(100) == b"still works"


def test_several_receivers_of_one_socket_each_get_a_part(pair, run_until_blocked):
    log = []
    for name in "abc":
        weft.tasklet(attempt)(log, name, pair[0].recv, 1)
    run_until_blocked()
    pair[1].send(b"123")
    weft.run()
    assert sorted(data for _, data in log) == [b"1", b"2", b"3"]


def test_several_acceptors_of_one_listener(listener):
    log, clients = [], []

    def acceptor():
        connection, _ = listener.accept()
        log.append(connection.recv(10))
        connection.close()

    for _ in range(5):
        weft.tasklet(acceptor)()
    weft.schedule()
    for number in range(5):
        clients.append(io.create_connection(listener.getsockname()))
        clients[-1].send(b"%d" % number)
    weft.run()
    assert sorted(log) == [b"0", b"1", b"2", b"3", b"4"]
    for client in clients:
        client.close()


def test_a_socket_that_goes_from_thread_to_thread(pair):
    log = []

    def other():
        for _ in range(3):
            data = pair[0].recv(10)
            pair[0].sendall(data.upper())
        weft.run()

    def ask(number):
        pair[1].send(b"abc")
        log.append(pair[1].recv(10))

    for number in range(3):
        thread = threading.Thread(target=other)
        thread.start()
        for _ in range(3):
            ask(number)
        thread.join()
        weft.tasklet(pair[1].send)(b"here")
        assert pair[0].recv(10) == b"here"
    assert log == [b"ABC"] * 9


def test_tasklets_of_two_threads_wait_for_one_socket_at_once(pair, run_until_blocked):
    log, waits, go_on = [], threading.Event(), threading.Event()

    def other():
        tasklet = weft.tasklet(lambda: log.append(("other", pair[0].recv(1))))()
        weft.schedule()
        waits.set()
        weft.run()
        assert not tasklet.alive

    mine = weft.tasklet(lambda: log.append(("mine", pair[0].recv(1))))()
    run_until_blocked()
    thread = threading.Thread(target=other)
    thread.start()
    waits.wait()
    pair[1].send(b"1")
    while not log:
        weft.sleep(0.001)
    pair[1].send(b"2")
    weft.run()
    thread.join(30)
    go_on.set()
    assert sorted(name for name, _ in log) == ["mine", "other"]
    assert not mine.alive


def test_a_number_is_waited_for_while_the_socket_is_received_from(pair, run_until_blocked):
    log = []
    weft.tasklet(attempt)(log, "recv", pair[0].recv, 10)
    weft.tasklet(attempt)(log, "wait", io.wait_readable, pair[0].fileno())
    weft.tasklet(attempt)(log, "writable", io.wait_writable, pair[0].fileno())
    run_until_blocked()
    assert log == [("writable", None)]
    pair[1].send(b"one")
    while len(log) < 2:
        weft.sleep(0.001)
    pair[1].send(b"two")
    weft.run()
    assert min(log) == ("recv", b"one")


# ---- fairness, run ----


@pytest.mark.parametrize("call", ["recv", "send", "read", "wait_readable"])
def test_who_always_finds_something_to_do_starves_nobody(pair, call):
    seen, calls = [], 0

    def other():
        while len(seen) < 3:
            seen.append(calls)
            weft.schedule()

    weft.tasklet(other)()
    pair[1].send(b"x")
    with io.socket(standard.AF_INET, standard.SOCK_DGRAM) as sink, io.socket(sink.family, sink.type) as source:
        sink.bind(LOCALHOST)
        source.connect(sink.getsockname())
        once = {
            "recv": lambda: pair[0].recv(10, standard.MSG_PEEK),
            "send": lambda: source.send(b"x"),
            "read": lambda: (pair[1].send(b"x"), io.read(pair[0].fileno(), 1)),
            "wait_readable": lambda: io.wait_readable(pair[0].fileno()),
        }[call]
        while len(seen) < 3:
            calls += 1
            once()
    weft.run()
    assert seen[0] < seen[1] < seen[2] == calls  # the other one ran in between, again and again


def test_run_waits_for_sockets(pair):
    log = []
    weft.tasklet(attempt)(log, "recv", pair[0].recv, 10)
    threading.Timer(0.02, standard.socket.send, (pair[1], b"x")).start()
    weft.run()
    assert log == [("recv", b"x")]


# ---- signals ----


def test_a_signal_interrupts_a_call_only_if_its_handler_raises():
    printed = output_of("""
        import os, signal, threading, weft
        from weft import io
        first, second = io.socketpair()

        def note(number, frame):
            print("noted", flush=True)
            threading.Timer(0.02, second.send, (b"data",)).start()

        def fail(number, frame):
            raise KeyError("from the handler")

        def soon():
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1)).start()

        signal.signal(signal.SIGUSR1, note)
        soon()
        print(first.recv(10))
        signal.signal(signal.SIGUSR1, fail)
        soon()
        try:
            first.recv(10)
        except KeyError as error:
            print(error)
        weft.tasklet(second.send)(b"still there")
        print(first.recv(20))
        first.close()
        second.close()
    """)
    assert printed.splitlines() == ["noted", "b'data'", "'from the handler'", "b'still there'"]


def test_both_sides_of_a_fork_go_on_with_their_sockets():
    printed = output_of("""
        import os, weft
        from weft import io
        pairs = {name: io.socketpair() for name in ("parent", "child")}
        log = []
        tasklets = {name: weft.tasklet(lambda name=name: log.append((name, pairs[name][0].recv(10))))() for name in pairs}
        weft.schedule()
        pid = os.fork()
        name, other = ("parent", "child") if pid else ("child", "parent")
        tasklets[other].kill()
        pairs[name][1].send(name.encode())
        while not log:
            weft.sleep(0.001)
        weft.tasklet(pairs[name][1].send)(b"again")
        print(log, pairs[name][0].recv(10), *([io.wait_process(pid)] if pid else []), flush=True)
        os._exit(0)
    """)
    assert printed.splitlines() == ["[('child', b'child')] b'again'", "[('parent', b'parent')] b'again' 0"]


# ---- descriptors run out ----


def test_accept_says_that_descriptors_have_run_out_and_goes_on_later():
    printed = output_of("""
        import errno, os, resource, weft
        from weft import io
        with io.create_server(("127.0.0.1", 0)) as server:
            client = io.create_connection(server.getsockname())
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, limit))
            kept = []
            try:
                while True:
                    kept.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                pass
            for call in (server.accept, io.socket, io.socketpair):
                try:
                    call()
                except OSError as error:
                    print(errno.errorcode[error.errno])
            for fd in kept:
                os.close(fd)
            accepted, _ = server.accept()
            weft.tasklet(client.send)(b"hello")
            print(accepted.recv(10))
            accepted.close()
            client.close()
    """)
    assert printed.split() == ["EMFILE", "EMFILE", "EMFILE", "b'hello'"]


def test_a_hub_that_cannot_be_made_says_why():
    printed = output_of("""
        import errno, os, resource, weft
        from weft import io
        first, second = io.socketpair()
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        kept = []
        try:
            while True:
                kept.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for _ in range(2):
            try:
                first.recv(10)
            except OSError as error:
                print(errno.errorcode[error.errno])
        os.close(kept.pop())
        os.close(kept.pop())
        weft.tasklet(second.send)(b"hello")
        print(first.recv(10))
        first.close()
        second.close()
    """)
    assert printed.split() == ["EMFILE", "EMFILE", "b'hello'"]
