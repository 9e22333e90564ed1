"""TLS over any stream: OpenSSL's protocol in memory, its bytes over an object that has recv() and sendall().

Knows nothing of sockets. Contexts, certificates and errors are those of the standard library's ssl.
"""

import errno
import io
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Protocol, Self, TypeVar

from roamlet.core import CancelScope
from roamlet.sync import Lock

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["TLSSocket", "Transport", "wrap"]

T = TypeVar("T")

_CHUNK = 64 * 1024  # bytes that are encrypted or received in one go
_GOODBYE_SECONDS = 1.0  # how long close() waits for room for its 31 bytes


class Transport(Protocol):
    """What carries the encrypted bytes, roamlet's sockets among others. Its calls block their tasklet only."""

    def recv(self, size: int, /) -> bytes:
        """Return 1 to `size` bytes, waiting for the first; b"" at the end."""

    def sendall(self, data: Any, /) -> object:
        """Send all of `data`. If there is a send() too, which returns how much it took, that is used instead."""

    def close(self) -> object:
        """Close it."""


class TLSSocket:
    """An encrypted connection, used like a socket. Made by wrap().

    Each call blocks its tasklet only. One tasklet may read while another writes; those that do the same take turns. Not
    for several threads at once. A tasklet that is killed, cancelled or timed out while it waits breaks nothing, if the transport
    has send(): what it had begun to send is sent before whatever is sent next.
    Errors are the transport's OSError, and ssl.SSLError.
    """

    def __init__(
        self,
        transport: Transport,
        context: ssl.SSLContext,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        session: ssl.SSLSession | None = None,
        suppress_ragged_eofs: bool = True,
    ) -> None:
        """Like wrap(), without the handshake, which do_handshake() or the first call that reads or writes makes."""
        if context.check_hostname and not server_hostname and not server_side:  # which OpenSSL in memory lets pass
            raise ValueError("this context checks for whom the certificate is: pass server_hostname")
        self._transport = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side, server_hostname, session)
        self._suppress_ragged_eofs = suppress_ragged_eofs
        self._unsent: deque[memoryview] = deque()
        self._sending, self._receiving = Lock(), Lock()
        self._send: Callable[[memoryview], int] | None = getattr(transport, "send", None)
        self._received = 0  # how often something was received
        self._broken = self._closed = False

    # ---- the connection ----

    def do_handshake(self, timeout: float | None = None) -> None:
        """Agree on keys and check the certificate. TimeoutError after `timeout` seconds; otherwise as wrap()."""
        done = False
        with CancelScope(timeout):
            self._do(self._tls.do_handshake)
            done = True
        if not done:
            raise TimeoutError(
                f"the TLS handshake{self._with()} was not done after {timeout} seconds: does it speak TLS?"
            )

    def unwrap(self) -> tuple[Transport, bytes]:
        """End TLS and go on in the clear: exchange close_notify with the other side.

        Returns the transport and what was received after the other side's close_notify. SSLError when data come instead.
        """
        self._do(self._tls.unwrap)
        self._closed = True
        return self._transport, self._incoming.read()

    def close(self) -> None:
        """Tell the other side that this is the end, without waiting for its answer, and close the transport."""
        if self._closed:
            return
        self._closed = True
        try:
            with CancelScope(_GOODBYE_SECONDS, shield=True), suppress(OSError):  # it may be gone, or not listen
                with suppress(ssl.SSLWantReadError):
                    self._tls.unwrap()
                self._take_outgoing()
                self._send_pending()
        finally:
            self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- data ----

    def recv(self, size: int) -> bytes:
        """Return 1 to `size` bytes, waiting for the first; b"" when the other side has said that this is the end.

        When the connection ends without that, somebody may have cut it: b"" too, or ssl.SSLEOFError with
        suppress_ragged_eofs=False, unless the context has ssl.OP_IGNORE_UNEXPECTED_EOF, as some Pythons set it.
        """
        return self._receive(lambda: self._tls.read(min(size, _CHUNK)), b"") if size else b""

    def recv_into(self, buffer: "WriteableBuffer", nbytes: int = 0) -> int:
        """Receive into a buffer, at most `nbytes` bytes if that is not 0; return how many, 0 at the end."""
        view = memoryview(buffer).cast("B")
        view = view[: nbytes or len(view)]
        read: Callable[[int, Any], Any] = self._tls.read  # with a buffer it returns how many bytes it has put there
        return int(self._receive(partial(read, len(view), view), 0)) if view else 0

    def send(self, data: "ReadableBuffer") -> int:
        """Send all of `data`, like sendall; return its length in bytes."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _CHUNK):
            part = view[start : start + _CHUNK]
            self._do(partial(self._tls.write, part))
        return len(view)

    def sendall(self, data: "ReadableBuffer") -> None:
        """Send all of `data`. When it raises, it is not known how much has arrived."""
        self.send(data)

    def makefile(
        self,
        mode: str = "r",
        buffering: int | None = None,
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Return a file of Python's io that reads and writes here, as socket.makefile does; closing it closes no more than it.

        mode is made of r, w and b. Each file serves one tasklet at a time.
        """
        if not set(mode) <= set("rwb") or not set(mode) & set("rw"):
            raise ValueError(f"a TLS connection's file has a mode of r, w and b, not {mode!r}")
        raw = _File(self, "r" in mode, "w" in mode)
        size = io.DEFAULT_BUFFER_SIZE if buffering is None or buffering < 0 else buffering
        if size == 0:
            if "b" not in mode:
                raise ValueError("a file of text cannot be unbuffered: leave buffering out")
            return raw  # type: ignore[return-value] # an IO[bytes], but not by name
        file: Any
        if "r" in mode and "w" in mode:
            file = io.BufferedRWPair(raw, raw, size)
        else:
            file = io.BufferedReader(raw, size) if "r" in mode else io.BufferedWriter(raw, size)
        if "b" in mode:
            return file  # type: ignore[no-any-return]
        return io.TextIOWrapper(file, encoding, errors, newline)

    # ---- what is known of the connection ----

    @property
    def transport(self) -> Transport:
        """What carries the encrypted bytes."""
        return self._transport

    @property
    def context(self) -> ssl.SSLContext:
        """The context; set by the server's sni_callback, it may be another one than wrap() was given."""
        return self._tls.context

    @property
    def server_hostname(self) -> str | None:
        """Whom the certificate was checked for."""
        return self._tls.server_hostname

    @property
    def session(self) -> ssl.SSLSession | None:
        """What a later connection may be given to agree faster."""
        return self._tls.session

    @property
    def session_reused(self) -> bool | None:
        """Whether an earlier session was taken up."""
        return self._tls.session_reused

    def getpeercert(self, binary_form: bool = False) -> Any:
        """Return the other side's certificate, as ssl.SSLSocket.getpeercert does."""
        return self._tls.getpeercert(binary_form)

    def cipher(self) -> tuple[str, str, int] | None:
        """Return the cipher in use: its name, the protocol's version, the bits of its key."""
        return self._tls.cipher()

    def version(self) -> str | None:
        """Return the protocol in use, "TLSv1.3" for example; None before the handshake."""
        return self._tls.version()

    def selected_alpn_protocol(self) -> str | None:
        """Return what both sides have agreed to speak (ALPN), None without an agreement."""
        return self._tls.selected_alpn_protocol()

    def get_channel_binding(self, cb_type: str = "tls-unique") -> bytes | None:
        """Return what identifies this connection, as ssl.SSLSocket.get_channel_binding does."""
        return self._tls.get_channel_binding(cb_type)

    def pending(self) -> int:
        """Return how many bytes are decrypted and can be read without waiting."""
        return self._tls.pending()

    def fileno(self) -> int:
        """Return the transport's descriptor. That it is readable does not say that there is something to read here."""
        number: int = self._of_the_transport("fileno")()
        return number

    def getsockname(self) -> Any:
        """Return the transport's own address."""
        return self._of_the_transport("getsockname")()

    def getpeername(self) -> Any:
        """Return the address of the other side of the transport."""
        return self._of_the_transport("getpeername")()

    # ---- the transport's settings ----

    def settimeout(self, seconds: float | None) -> None:
        """Set the transport's time-out: TimeoutError when nothing could be received, or sent, for so long. None: never.

        It limits each wait. For a whole exchange use roamlet.timeout. The connection is usable afterwards.
        """
        self._of_the_transport("settimeout")(seconds)

    def gettimeout(self) -> float | None:
        """Return the transport's time-out in seconds, or None."""
        seconds: float | None = self._of_the_transport("gettimeout")()
        return seconds

    def shutdown(self, how: int) -> None:
        """End one direction of the transport, or both, without telling the other side in TLS; a tasklet that waits
        there goes on.
        """
        self._of_the_transport("shutdown")(how)

    def __repr__(self) -> str:
        return f"<roamlet.io.tls.TLSSocket{self._with()} {self.version() or 'before its handshake'} over {self._transport!r}>"

    # ---- inside ----

    def _with(self) -> str:
        return f" with '{self.server_hostname}'" if self.server_hostname else ""

    def _of_the_transport(self, name: str) -> Callable[..., Any]:
        """A method that a socket has, and other transports may have; AttributeError names the transport."""
        method: Callable[..., Any] = getattr(self._transport, name)
        return method

    def _receive(self, read: Callable[[], T], end: T) -> T:
        try:
            return self._do(read)
        except ssl.SSLZeroReturnError:
            return end
        except ssl.SSLEOFError:
            if self._suppress_ragged_eofs:
                return end
            raise

    def _do(self, operation: Callable[[], T]) -> T:
        """Let OpenSSL do something, and carry its bytes for as long as it wants more."""
        while True:
            if self._closed:
                raise OSError(errno.EBADF, "this TLS connection is closed")
            received = self._received
            try:
                result = operation()
            except ssl.SSLWantReadError:
                if self._take_outgoing():
                    self._send_pending(wait=False)
                self._receive_more(received)
            except ssl.SSLError as error:
                # An alert, or our part of the end: the other side hears of it if it still listens.
                if self._take_outgoing():
                    with suppress(OSError):
                        self._send_pending(wait=False)
                if error.reason == "UNEXPECTED_EOF_WHILE_READING" and not isinstance(error, ssl.SSLEOFError):
                    # Early releases of 3.11 call it so when OpenSSL 3 reads; later ones as they always did elsewhere.
                    raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol") from None
                raise
            else:
                if self._take_outgoing():
                    self._send_pending()
                return result

    def _receive_more(self, received: int) -> None:
        """Give OpenSSL what comes next, unless somebody has since `received` was so many."""
        with self._receiving:
            if self._received == received:
                data = self._transport.recv(_CHUNK)
                self._received += 1
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()

    def _take_outgoing(self) -> bool:
        """Queue what OpenSSL has to send, at once: what another tasklet's call adds comes after it. Whether there was any."""
        data = self._outgoing.read()
        if data:
            self._unsent.append(memoryview(data))
        return bool(data)

    def _send_pending(self, wait: bool = True) -> None:
        """Send what is queued. Without `wait`, leave it to the tasklet that sends at the moment, if one does."""
        if not wait and self._sending.locked():
            return
        with self._sending:
            while self._unsent:
                part = self._unsent[0]
                sent = (
                    self._send_all(part) if self._send is None else self._send(part)
                )  # if it raises, nothing was sent
                if sent == len(part):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = part[sent:]

    def _send_all(self, part: memoryview) -> int:
        """For a transport without send(): when its sendall() raises, the amount sent is unknown, and nothing can follow."""
        if self._broken:
            raise BrokenPipeError("this TLS connection was broken off in the middle of sending: open another one")
        self._broken = True
        self._transport.sendall(part)
        self._broken = False
        return len(part)


class _File(io.RawIOBase):
    """One or both directions of a connection as a raw file."""

    def __init__(self, tls: TLSSocket, readable: bool, writable: bool) -> None:
        self._tls = tls
        self._directions = readable, writable

    def readable(self) -> bool:
        return self._directions[0]

    def writable(self) -> bool:
        return self._directions[1]

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        self._require(self.readable())
        return self._tls.recv_into(buffer)

    def write(self, data: "ReadableBuffer", /) -> int:
        self._require(self.writable())
        return self._tls.send(data)

    def _require(self, capable: bool) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not capable:
            raise io.UnsupportedOperation(f"this file was made for {'reading' if self.readable() else 'writing'} only")


def wrap(
    transport: Transport,
    context: ssl.SSLContext,
    *,
    server_side: bool = False,
    server_hostname: str | None = None,
    session: ssl.SSLSession | None = None,
    suppress_ragged_eofs: bool = True,
    handshake_timeout: float | None = 60.0,
) -> TLSSocket:
    """Begin TLS over a connected transport; return the TLSSocket when both sides have agreed. Blocks this tasklet only.

    `context` is an ssl.SSLContext: ssl.create_default_context() for a client, which checks the certificate and that it is
    `server_hostname`'s; one with load_cert_chain() for a server (server_side=True). Its settings for ALPN and SNI apply.
    Raises ssl.SSLCertVerificationError, other ssl.SSLError, TimeoutError after `handshake_timeout` seconds, and the transport's
    errors. The transport then stays the caller's, to be closed; otherwise it is closed with the TLSSocket.
    """
    tls = TLSSocket(
        transport,
        context,
        server_side=server_side,
        server_hostname=server_hostname,
        session=session,
        suppress_ragged_eofs=suppress_ragged_eofs,
    )
    tls.do_handshake(handshake_timeout)
    return tls
