"""TLS: handshakes, data both ways, the end, and what may go wrong; over a socket pair and over transports that fail."""

import io as standard_io
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import roamlet
from roamlet import core, io
from roamlet.io import tls
from tests.io._errors import error_of
from tests.io._workers import started


class Stream:
    """A transport over a connected socket: recv(), send() and sendall() that block their tasklet only."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self.socket = connected

    def recv(self, size: int) -> bytes:
        return io.read(self.socket.fileno(), size)

    def send(self, data) -> int:
        while True:
            try:
                return self.socket.send(data)
            except BlockingIOError:
                io.wait_writable(self.socket.fileno())

    def sendall(self, data) -> None:
        view = memoryview(data)
        while view:
            view = view[self.send(view) :]

    def close(self) -> None:
        if self.socket.fileno() >= 0:
            io.close(self.socket.detach())

    def fileno(self) -> int:
        return self.socket.fileno()


class WithoutSend:
    """A transport that has no more than it must."""

    def __init__(self, stream: Stream) -> None:
        self.recv, self.sendall, self.close = stream.recv, stream.sendall, stream.close


@pytest.fixture(params=["a stream", "a socket of roamlet's"])
def streams(request: pytest.FixtureRequest) -> Iterator[tuple[Stream, Stream]]:
    """Two connected transports."""
    first, second = map(Stream, socket.socketpair()) if request.param == "a stream" else io.socketpair()
    yield first, second
    first.close()
    second.close()


@pytest.fixture
def server_context(certificates: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    return context


@pytest.fixture
def client_context(certificates: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    # Debian's 3.11 sets it: then OpenSSL itself takes a connection that is cut for one that was closed.
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    return context


@pytest.fixture
def both(streams, server_context, client_context) -> Callable[..., tuple[tls.TLSSocket, tls.TLSSocket]]:
    """Make a connection: (client, server), once the handshake is done. Both are closed after the test."""
    made: list[tls.TLSSocket] = []

    def connect(client_transport=None, server_transport=None, **options) -> tuple[tls.TLSSocket, tls.TLSSocket]:
        servers = []
        accepting = started(
            lambda: servers.append(tls.wrap(server_transport or streams[1], server_context, server_side=True))
        )
        client = tls.wrap(client_transport or streams[0], client_context, server_hostname="roamlet.test", **options)
        roamlet.run()
        assert not accepting.alive
        made.extend([client, servers[0]])
        return client, servers[0]

    yield connect
    for each in made:
        each.close()
    made.clear()


# ---- it works ----


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_data_go_both_ways(both, client_context, version):
    client_context.maximum_version = version
    client, server = both()
    assert client.version() == server.version() == version.name.replace("_", ".")
    client.sendall(b"question")
    assert server.recv(100) == b"question"
    assert server.send(bytearray(b"answer")) == 6
    assert (client.recv(3), client.pending(), client.recv(100)) == (b"ans", 3, b"wer")
    assert client.recv(0) == b""


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_other_side_may_be_the_standard_librarys(server_context, client_context, version):
    client_context.maximum_version = version
    near, far = socket.socketpair()

    def serves() -> None:
        with server_context.wrap_socket(far, server_side=True) as connection:
            connection.sendall(connection.recv(100).upper())
            connection.unwrap().close()

    server = threading.Thread(target=serves)
    server.start()
    client = tls.wrap(Stream(near), client_context, server_hostname="roamlet.test")
    client.sendall(b"question")
    assert (client.recv(100), client.recv(100)) == (b"QUESTION", b"")
    transport, rest = client.unwrap()
    transport.close()
    server.join()
    assert rest == b""


@pytest.mark.parametrize("seconds", [None, 5])
def test_the_standard_wrap_socket_would_block_the_thread_and_is_refused(server_context, client_context, seconds):
    first, second = io.socketpair()
    with first, second:
        first.settimeout(seconds)
        message = (
            r"wrap_socket\(\) would make .* blocks its whole thread: use roamlet\.io\.tls\.wrap\(connection, context, "
        )
        with pytest.raises(TypeError, match=message):
            client_context.wrap_socket(first, server_hostname="roamlet.test")
        with pytest.raises(TypeError, match=message):
            server_context.wrap_socket(first, server_side=True)
        assert first.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
        first.sendall(b"still usable")
        assert second.recv(100) == b"still usable"


def test_the_standard_wrap_socket_takes_one_that_never_waits(client_context):
    first, second = io.socketpair()
    first.setblocking(False)
    with (
        second,
        client_context.wrap_socket(first, server_hostname="roamlet.test", do_handshake_on_connect=False) as wrapped,
    ):
        with pytest.raises(ssl.SSLWantReadError):
            wrapped.do_handshake()
        assert second.recv(1) == b"\x16"


def test_what_is_sent_is_encrypted(streams, server_context, client_context):
    seen = []

    class Watched(WithoutSend):
        def send(self, data) -> int:
            seen.append(bytes(data))
            return streams[0].send(data)

    accepting = started(lambda: tls.wrap(streams[1], server_context, server_side=True).recv(100))
    client = tls.wrap(Watched(streams[0]), client_context, server_hostname="roamlet.test")
    client.sendall(b"secret words")
    roamlet.run()
    assert not accepting.alive
    assert b"secret" not in b"".join(seen)
    client.close()


def test_much_goes_both_ways_at_once_through_full_buffers(both):
    client, server = both()
    data = os.urandom(3_000_000)
    got: dict[str, bytearray] = {"client": bytearray(), "server": bytearray()}

    def reads(name: str, side: tls.TLSSocket) -> None:
        while len(got[name]) < len(data):
            got[name] += side.recv(65536)

    for name, side in (("client", client), ("server", server)):
        roamlet.tasklet(side.sendall)(data)
        roamlet.tasklet(reads)(name, side)
    roamlet.run()
    assert (got["client"] == data, got["server"] == data) == (True, True)


def test_several_tasklets_may_send_and_each_call_arrives_whole(both):
    client, server = both()
    parts = [bytes([number]) * 300_000 for number in range(5)]
    for part in parts:
        roamlet.tasklet(client.sendall)(part)
    got = bytearray()
    while len(got) < 1_500_000:
        got += server.recv(65536)
    assert sorted(got) == sorted(b"".join(parts))  # every record decrypts: none was torn apart


def test_several_tasklets_may_receive_and_nothing_is_lost(both):
    client, server = both()
    got = []
    for _ in range(3):
        roamlet.tasklet(lambda: got.append(client.recv(1)))()
    roamlet.schedule()
    server.sendall(b"abc")
    roamlet.run()
    assert sorted(got) == [b"a", b"b", b"c"]


def test_receiving_into_a_buffer(both):
    client, server = both()
    server.sendall(b"0123456789")
    buffer = bytearray(b"........")
    assert client.recv_into(memoryview(buffer)[1:], 4) == 4
    assert client.recv_into(buffer, 1) == 1
    assert (bytes(buffer), client.recv_into(bytearray())) == (b"4" + b"0123...", 0)


def test_files_over_a_connection(both):
    client, server = both()
    with server.makefile("rw", encoding="utf-8", newline="\n") as text, client.makefile("rwb") as binary:
        text.write("zwölf\nelf\n")
        text.flush()
        assert (binary.readline(), binary.readline()) == ("zwölf\n".encode(), b"elf\n")
        binary.write(b"back\n")
        binary.flush()
        assert text.readline() == "back\n"
    with client.makefile("rb", buffering=0) as raw:
        server.sendall(b"raw")
        assert raw.read(10) == b"raw"
        with pytest.raises(standard_io.UnsupportedOperation):
            raw.write(b"x")
    server.sendall(b"still open")
    assert client.recv(100) == b"still open"
    for mode in ("a", "b", "", "rx"):
        with pytest.raises(ValueError, match="has a mode of r, w and b, not"):
            client.makefile(mode)
    with pytest.raises(ValueError, match="cannot be unbuffered"):
        client.makefile("r", buffering=0)


def test_what_is_known_of_a_connection(both, streams, client_context, server_context):
    client_context.set_alpn_protocols(["roamlet/2", "roamlet/1"])
    server_context.set_alpn_protocols(["roamlet/1"])
    assert "before its handshake over" in repr(
        tls.TLSSocket(streams[0], client_context, server_hostname="roamlet.test")
    )
    client, server = both()
    assert client.selected_alpn_protocol() == server.selected_alpn_protocol() == "roamlet/1"
    assert client.getpeercert()["subjectAltName"] == (("DNS", "roamlet.test"),)
    assert server.getpeercert() is None
    assert client.cipher() == server.cipher()
    assert client.server_hostname == "roamlet.test"
    assert (client.context, client.transport, client.fileno()) == (client_context, streams[0], streams[0].fileno())
    assert client.get_channel_binding("tls-unique") is not None
    assert repr(client).startswith("<roamlet.io.tls.TLSSocket with 'roamlet.test' TLSv1.3 over <")


def test_the_transports_settings_and_addresses_are_at_hand(both):
    first, second = io.socketpair()
    with first, second:
        client, server = both(first, second)
        assert (client.gettimeout(), client.getsockname(), client.getpeername()) == (None, "", "")
        client.settimeout(0.001)
        assert client.gettimeout() == first.gettimeout() == 0.001
        with pytest.raises(TimeoutError, match=r"nothing could be received within 0\.001 seconds"):
            client.recv(1)
        server.sendall(b"late")
        assert client.recv(100) == b"late"
        server.shutdown(socket.SHUT_RDWR)
        assert client.recv(100) == b""


def test_a_transport_without_settings_says_so(both, streams):
    client, _ = both(WithoutSend(streams[0]))
    with pytest.raises(AttributeError, match="'WithoutSend' object has no attribute 'settimeout'"):
        client.settimeout(1)


def test_a_session_is_taken_up_again(both, client_context):
    client_context.maximum_version = ssl.TLSVersion.TLSv1_2
    client, _ = both()
    session = client.session
    assert client.session_reused is False
    again = tuple(map(Stream, socket.socketpair()))
    second, _ = both(*again, session=session)
    assert second.session_reused is True


def test_a_client_may_have_to_show_a_certificate(both, server_context, client_context, certificates):
    server_context.load_verify_locations(certificates / "ca.pem")
    server_context.verify_mode = ssl.CERT_REQUIRED
    client_context.load_cert_chain(certificates / "client.pem", certificates / "client.key")
    _, server = both()
    assert server.getpeercert()["subject"] == ((("commonName", "client"),),)


# ---- the end ----


def test_the_end_is_seen_and_closing_twice_is_nothing(both):
    client, server = both()
    with client:
        client.sendall(b"last words")
    client.close()
    assert (server.recv(100), server.recv(100), server.recv(100)) == (b"last words", b"", b"")
    server.close()
    for operation in (lambda: client.recv(1), lambda: client.sendall(b"x"), client.unwrap):
        with pytest.raises(OSError, match="this TLS connection is closed"):
            operation()


def test_unwrap_goes_on_in_the_clear(both, streams):
    client, server = both()
    results = []

    def serves() -> None:
        assert server.recv(1) == b""
        transport, rest = server.unwrap()
        transport.sendall(b"clear")
        results.append(rest)

    serving = started(serves)
    transport, rest = client.unwrap()
    roamlet.run()
    assert not serving.alive
    while len(rest) < 5:
        rest += transport.recv(100)
    assert (transport, rest, results) == (streams[0], b"clear", [b""])


def test_a_connection_that_is_cut_looks_like_its_end_unless_one_wants_to_know(both, streams):
    client, server = both(suppress_ragged_eofs=False)
    server.transport.close()
    with pytest.raises(ssl.SSLEOFError, match="EOF occurred in violation of protocol"):
        client.recv(1)


def test_a_connection_that_is_cut_is_at_its_end_by_default(both):
    client, server = both()
    server.transport.close()
    assert client.recv(1) == b""


def test_closing_does_not_wait_for_a_peer_that_takes_nothing(both, streams, monkeypatch):
    monkeypatch.setattr(tls, "_GOODBYE_SECONDS", 0.01)
    client, _server = both()
    errors = []
    sending = started(lambda: errors.append(error_of(lambda: client.sendall(b"x" * 3_000_000))))
    assert sending.alive
    client.close()
    roamlet.run()
    assert (sending.alive, streams[0].fileno()) == (False, -1)
    assert isinstance(errors[0], OSError)
    assert "closed" in str(errors[0])


# ---- what goes wrong ----


def test_a_certificate_for_somebody_else_is_refused(streams, server_context, client_context):
    accepting = started(lambda: error_of(lambda: tls.wrap(streams[1], server_context, server_side=True)))
    error = error_of(lambda: tls.wrap(streams[0], client_context, server_hostname="other.test"))
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert "certificate is not valid for 'other.test'" in str(error)
    roamlet.run()
    assert not accepting.alive


@pytest.mark.parametrize("hostname", [None, ""])
def test_a_name_to_check_is_not_forgotten(streams, client_context, hostname):
    with pytest.raises(ValueError, match="checks for whom the certificate is: pass server_hostname"):
        tls.wrap(streams[0], client_context, server_hostname=hostname)


def test_an_authority_that_nobody_knows_is_refused_and_the_server_learns_why(streams, server_context):
    errors = []
    accepting = started(
        lambda: errors.append(error_of(lambda: tls.wrap(streams[1], server_context, server_side=True).recv(1)))
    )
    error = error_of(lambda: tls.wrap(streams[0], ssl.create_default_context(), server_hostname="roamlet.test"))
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert "unable to get local issuer certificate" in str(error)
    roamlet.run()
    assert not accepting.alive
    assert "unknown ca" in str(errors[0]).lower()


def test_who_speaks_something_else_is_refused(streams, client_context):
    streams[1].sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
    error = error_of(lambda: tls.wrap(streams[0], client_context, server_hostname="roamlet.test"))
    assert isinstance(error, ssl.SSLError)
    assert "WRONG_VERSION_NUMBER" in str(error)


def test_a_handshake_has_a_limit_and_leaves_the_transport_open(streams, client_context):
    error = error_of(
        lambda: tls.wrap(streams[0], client_context, server_hostname="roamlet.test", handshake_timeout=0.01)
    )
    assert isinstance(error, TimeoutError)
    assert str(error) == "the TLS handshake with 'roamlet.test' was not done after 0.01 seconds: does it speak TLS?"
    streams[1].sendall(b"in the clear")
    assert streams[0].recv(100) == b"in the clear"


def test_a_peer_that_leaves_in_the_handshake_is_an_error(streams, client_context):
    streams[1].close()
    error = error_of(lambda: tls.wrap(streams[0], client_context, server_hostname="roamlet.test"))
    assert isinstance(error, OSError)  # EPIPE, or the end of the stream


def test_a_reset_is_the_transports_error(both):
    class Reset(Stream):
        broken = False

        def recv(self, size: int) -> bytes:
            data = super().recv(size)
            if self.broken:
                raise ConnectionResetError(104, "Connection reset by peer")
            return data

    first, second = map(Stream, socket.socketpair())
    transport = Reset(first.socket)
    client, server = both(transport, second)
    transport.broken = True
    server.sendall(b"never seen")
    with pytest.raises(ConnectionResetError, match="reset by peer"):
        client.recv(1)


def test_bytes_that_were_tampered_with_are_noticed(both):
    client, server = both()
    server.transport.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
    with pytest.raises(ssl.SSLError, match="DECRYPTION_FAILED|BAD_RECORD_MAC|bad record mac|RECORD_LAYER_FAILURE"):
        client.recv(1)


def test_no_message_and_no_repr_shows_a_key_or_the_data(both, certificates, server_context):
    client, server = both()
    client.sendall(b"secret words")
    key = (certificates / "server.key").read_text().splitlines()[1]
    shown = [repr(client), repr(server), repr(server_context)]
    shown.append(str(error_of(lambda: server_context.load_cert_chain(certificates / "server.key"))))
    server.transport.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
    shown.append(repr(error_of(lambda: client.recv(1))))
    assert not any(key in text or "secret" in text for text in shown)


# ---- tasklets that are killed ----


def test_a_tasklet_that_is_killed_while_it_receives_breaks_nothing(both):
    client, server = both()
    tasklet = started(lambda: client.recv(100))
    tasklet.kill()
    server.sendall(b"for the next")
    assert client.recv(100) == b"for the next"


def test_what_a_killed_tasklet_was_sending_is_sent_before_what_follows(both):
    client, server = both()
    sending = started(lambda: client.sendall(b"x" * 3_000_000))
    assert sending.alive
    sending.kill()
    roamlet.tasklet(client.sendall)(b"behind it")
    got = bytearray()
    while not got.endswith(b"behind it"):
        got += server.recv(65536)
    assert set(got.removesuffix(b"behind it")) == set(b"x")


def test_without_send_a_connection_is_broken_by_a_kill_and_says_so(both, streams):
    client, server = both(WithoutSend(streams[0]))
    client.sendall(b"whole")
    assert server.recv(100) == b"whole"
    sending = started(lambda: client.sendall(b"x" * 3_000_000))
    sending.kill()
    with pytest.raises(BrokenPipeError, match="broken off in the middle of sending: open another one"):
        client.sendall(b"behind it")


def test_a_scope_that_is_over_ends_the_wait_and_the_connection_is_closed(both, streams):
    client, server = both()
    with core.CancelScope(timeout=0.001) as scope, client:
        client.recv(1)
    assert scope.expired
    assert streams[0].fileno() == -1
    assert server.recv(1) == b""
