"""The area `tls`: both ends of a connection are tasklets of one thread, by the standard library's own classes."""

import gc
import os
import socket
import ssl
import weakref

import pytest

import roamlet
from roamlet import io
from roamlet.patch.areas import sockets, tls
from roamlet.patch.changes import Changes
from tests.io._sockets import LOCALHOST

BIG = b"0123456789abcdef" * 65536


@pytest.fixture(autouse=True)
def in_place():
    changes = Changes()
    for area in (sockets, tls):
        area.apply(changes)
    yield
    changes.undo()
    assert not vars(ssl.SSLContext).keys() & {"_wrap_socket", "load_verify_locations", "set_default_verify_paths"}


@pytest.fixture
def server_context(certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    return context


@pytest.fixture
def client_context(certificates):
    return ssl.create_default_context(cafile=str(certificates / "ca.pem"))


def connected(client_context, server_context, **options):
    """Both ends, after the handshake."""
    left, right = socket.socketpair()
    ends = []
    roamlet.tasklet(lambda: ends.append(server_context.wrap_socket(right, server_side=True)))()
    client = client_context.wrap_socket(left, server_hostname="roamlet.test", **options)
    roamlet.run()
    return client, ends[0]


def test_sockets_of_roamlet_io_are_wrapped_as_any(client_context, server_context):
    """Without the patch wrap_socket() refuses them: what it makes of them would block the thread."""
    with io.create_server(LOCALHOST) as listener:
        serving = roamlet.spawn(lambda: server_context.wrap_socket(listener.accept()[0], server_side=True))
        plain = io.create_connection(listener.getsockname())
        assert type(plain) is io.socket
        with client_context.wrap_socket(plain, server_hostname="roamlet.test") as client, serving.join() as server:
            answering = roamlet.spawn(lambda: server.sendall(server.recv(100).upper()))
            client.sendall(b"hello")
            assert client.recv(100) == b"HELLO"
            answering.join()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_data_go_both_ways_and_the_end_is_exchanged(client_context, server_context, version):
    client_context.maximum_version = version
    client, server = connected(client_context, server_context)
    with client, server:
        assert isinstance(client, ssl.SSLSocket) and isinstance(client, socket.socket)
        assert client.version() == version.name.replace("_", ".")
        roamlet.tasklet(lambda: server.sendall(BIG))()
        received = bytearray()
        while len(received) < len(BIG):
            received += client.recv(100_000)
        assert received == BIG
        roamlet.tasklet(lambda: client.sendall(b"hello"))()
        buffer = bytearray(10)
        assert server.recv_into(buffer) == 5 and buffer[:5] == b"hello"
        ended = []
        roamlet.tasklet(lambda: ended.append(server.unwrap()))()
        assert client.recv(1) == b""
        plain = client.unwrap()
        roamlet.run()
        roamlet.tasklet(lambda: ended[0].sendall(b"plain"))()
        assert plain.recv(5) == b"plain"


def test_a_listener_and_a_client_that_are_wrapped_first(client_context, server_context):
    with socket.create_server(LOCALHOST) as plain, server_context.wrap_socket(plain, server_side=True) as listener:
        said = []

        def serve():
            accepted, _ = listener.accept()
            with accepted:
                said.append(accepted.recv(5))
                accepted.sendall(b"there")

        roamlet.tasklet(serve)()
        with client_context.wrap_socket(socket.socket(), server_hostname="roamlet.test") as client:
            client.settimeout(60)
            client.connect(listener.getsockname())
            client.sendall(b"hello")
            with client.makefile("rb") as file:
                assert file.read(5) == b"there"
        roamlet.run()
        assert said == [b"hello"]


def test_time_outs_and_non_blocking_are_the_standard_librarys(client_context, server_context):
    client, server = connected(client_context, server_context)
    with client, server:
        client.settimeout(0.001)
        with pytest.raises(TimeoutError, match="The read operation timed out"):
            client.recv(1)
        client.setblocking(False)
        with pytest.raises(ssl.SSLWantReadError):
            client.recv(1)
        client.settimeout(None)
        with pytest.raises(TimeoutError), roamlet.timeout(0.001):
            client.recv(1)
        roamlet.tasklet(lambda: server.sendall(b"x"))()
        assert client.recv(1) == b"x"


def test_a_handshake_that_nobody_answers_ends_with_its_time_out(client_context):
    left, right = socket.socketpair()
    with right:
        left.settimeout(0.001)
        with pytest.raises(TimeoutError, match="The handshake operation timed out"):
            client_context.wrap_socket(left, server_hostname="roamlet.test")
        assert left.fileno() == -1


def test_a_certificate_for_another_name_is_refused_as_ever(client_context, server_context):
    left, right = socket.socketpair()

    def serve():
        with pytest.raises(ssl.SSLError):
            server_context.wrap_socket(right, server_side=True)

    roamlet.tasklet(serve)()
    with pytest.raises(ssl.SSLCertVerificationError):
        client_context.wrap_socket(left, server_hostname="roamlet.other")
    roamlet.run()


def test_close_and_kill_end_a_wait(client_context, server_context):
    client, server = connected(client_context, server_context)
    said = []

    def waits():
        try:
            client.recv(1)
        except OSError as error:
            said.append(type(error))

    with server:
        killed = roamlet.tasklet(client.recv)(1)
        roamlet.tasklet(waits)()
        roamlet.schedule()
        killed.kill()
        client.close()
        roamlet.run()
    assert said == [OSError] and not killed.alive


def test_a_class_of_the_contexts_own_is_made_cooperative(client_context, server_context):
    client_context.sslsocket_class = Own
    client, server = connected(client_context, server_context)
    with client, server:
        assert isinstance(client, Own) and type(client).__name__ == "Own"
        roamlet.tasklet(lambda: server.sendall(b"x"))()
        assert client.recv(1) == b"own x"
        client.context = client.context
        assert client.context is client_context
    again, server = connected(client_context, server_context)
    with again, server:
        assert type(again) is type(client)


class Own(ssl.SSLSocket):
    def recv(self, *arguments):
        return b"own " + super().recv(*arguments)


def test_a_connection_that_is_dropped_is_freed_at_once(client_context, server_context):
    client, server = connected(client_context, server_context)
    seen = weakref.ref(client)
    assert not gc.isenabled()
    with server:
        with pytest.warns(ResourceWarning, match="unclosed"):
            del client
        assert seen() is None


def test_a_socket_that_was_made_before_is_wrapped_too(client_context, server_context):
    before = socket.socket.__mro__[3]
    assert before.__module__ == "socket"
    left, right = socket.socketpair()
    old = before(left.family, left.type, left.proto, fileno=left.detach())
    ends = []
    roamlet.tasklet(lambda: ends.append(server_context.wrap_socket(right, server_side=True)))()
    with client_context.wrap_socket(old, server_hostname="roamlet.test") as client:
        roamlet.run()
        with ends.pop() as server:
            roamlet.tasklet(lambda: server.sendall(b"x"))()
            assert client.recv(1) == b"x"


@pytest.mark.parametrize("way", ["file", "default"])
def test_authorities_are_read_while_other_tasklets_go_on(certificates, tmp_path, monkeypatch, way):
    """The file is a pipe, into which another tasklet of this thread writes."""
    pipe = tmp_path / "authorities"
    os.mkfifo(pipe)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setenv("SSL_CERT_FILE", str(pipe))
    if way == "file":
        reader = roamlet.spawn(context.load_verify_locations, (pipe,))
    else:
        reader = roamlet.spawn(context.load_default_certs)
    roamlet.schedule()
    with open(pipe, "wb") as end:
        end.write((certificates / "ca.pem").read_bytes())
    reader.join()
    assert len(context.get_ca_certs()) == 1


def test_what_is_wrong_with_authorities_is_the_standard_librarys_error(tmp_path, certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(FileNotFoundError):
        context.load_verify_locations(tmp_path / "nowhere.pem")
    with pytest.raises(TypeError, match="cafile, capath and cadata cannot be all omitted"):
        context.load_verify_locations()
    with pytest.raises(ssl.SSLError):
        context.load_verify_locations(cafile=certificates / "server.key")
    context.load_verify_locations(cadata=(certificates / "ca.pem").read_text())
    assert len(context.get_ca_certs()) == 1
