"""The areas `sockets` and `dns`: what waits blocks its tasklet only, by the standard library's own names."""

import errno
import pickle
import socket
import threading

import pytest

import roamlet
from roamlet.patch.areas import names, sockets
from roamlet.patch.changes import Changes

STANDARD = socket.socket


@pytest.fixture(autouse=True)
def in_place():
    changes = Changes()
    for area in (names, sockets):
        area.apply(changes)
    yield
    changes.undo()


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_accept_connect_and_recv_wait_beside_each_other(listener):
    def serve():
        accepted, _ = listener.accept()
        with accepted:
            accepted.sendall(accepted.recv(100).upper())

    roamlet.tasklet(serve)()
    with socket.create_connection(listener.getsockname()) as client:
        roamlet.schedule()
        client.sendall(b"hello")
        assert client.recv(100) == b"HELLO"
        assert client.recv(100) == b""
    roamlet.run()


def test_everything_that_makes_a_socket_makes_one_of_the_class(listener):
    class Mine(socket.socket):
        pass

    left, right = socket.socketpair()
    with (
        left,
        right,
        socket.fromfd(left.fileno(), left.family, left.type) as copy,
        Mine() as mine,
        left.dup() as second,
    ):
        with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as accepted:
            for each in (left, copy, mine, second, client, accepted, listener):
                assert isinstance(each, socket.socket) and isinstance(each, STANDARD)
            assert type(accepted) is socket.socket
            assert repr(accepted).startswith("<socket.socket fd=")
    assert issubclass(Mine, STANDARD)


def test_makefile_waits_as_well():
    left, right = socket.socketpair()
    with left, right, left.makefile("rb") as file:
        roamlet.tasklet(lambda: right.sendall(b"line\n"))()
        assert file.readline() == b"line\n"


@pytest.mark.parametrize(("timeout", "error"), [(0, BlockingIOError), (0.001, TimeoutError), (0.0, BlockingIOError)])
def test_time_outs_are_the_standard_librarys(timeout, error):
    left, right = socket.socketpair()
    with left, right:
        left.settimeout(timeout)
        with pytest.raises(error):
            left.recv(1)
        with pytest.raises(ValueError, match="-1"):
            left.settimeout(-1)


def test_kill_and_time_outs_of_roamlets_end_a_wait():
    left, right = socket.socketpair()
    with left, right:
        waiting = roamlet.tasklet(left.recv)(1)
        roamlet.schedule()
        waiting.kill()
        assert not waiting.alive
        with pytest.raises(TimeoutError), roamlet.timeout(0.001):
            left.recv(1)


def test_close_ends_a_wait_with_an_error():
    left, right = socket.socketpair()
    said = []

    def waits():
        try:
            left.recv(1)
        except OSError as error:
            said.append(error.errno)

    with right:
        roamlet.tasklet(waits)()
        roamlet.schedule()
        left.close()
        roamlet.run()
    assert said == [errno.EBADF]


def test_shutdown_ends_the_waits_of_others():
    left, right = socket.socketpair()
    said = []
    with left, right:
        for _ in range(3):
            roamlet.tasklet(lambda: said.append(left.recv(1)))()
        roamlet.schedule()
        left.shutdown(socket.SHUT_RD)
        roamlet.run()
    assert said == [b""] * 3


def test_tasklets_of_several_threads_share_one_socket():
    left, right = socket.socketpair()
    said = []
    with left, right:
        threads = [threading.Thread(target=lambda: said.append(left.recv(1))) for _ in range(4)]
        for each in threads:
            each.start()
        roamlet.tasklet(lambda: said.append(left.recv(1)))()
        roamlet.schedule()
        right.sendall(b"xxxxx")
        roamlet.run()
        for each in threads:
            each.join()
    assert said == [b"x"] * 5


def test_names_are_the_standard_librarys_answers():
    assert socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)[0][4] == ("127.0.0.1", 80)
    assert socket.gethostbyname("127.0.0.1") == "127.0.0.1"
    assert socket.getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV) == ("127.0.0.1", "80")
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("127.0.0.1", "no such service")
    for wrong in (
        lambda: socket.getaddrinfo(1, 2),
        lambda: socket.gethostbyname(None),
        lambda: socket.gethostbyaddr(7),
    ):
        with pytest.raises(TypeError):
            wrong()
    assert pickle.loads(pickle.dumps(socket.gethostbyname)) is socket.gethostbyname


def test_what_was_put_back_is_made_again(listener):
    changes = Changes()
    sockets.apply(changes)
    changes.undo()
    with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as accepted:
        assert isinstance(client, socket.socket) and isinstance(accepted, STANDARD)
