"""Sockets that block one tasklet only: the class, and the functions that make some. The calls are in C."""

import os
import socket as standard
import sys
from types import FrameType
from typing import IO, Any, TypeAlias

from roamlet.io import _native
from roamlet.io._dns import getaddrinfo
from roamlet.io._timeouts import check_timeout

Address: TypeAlias = Any

# As they are now: a program may put the functions of this module in their places.
_standard_create_server = standard.create_server
_standard_socketpair = standard.socketpair

# The one of socket.setdefaulttimeout, which new sockets have. The standard library passes it on where the caller gave none.
_DEFAULT_TIMEOUT: Any = standard._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined]

# os.sendfile may read from a disk with the GIL released; this much at once leaves the others a turn.
_SENDFILE_AT_ONCE = 1 << 20


def look_up(family: int, kind: int, proto: int, address: Address) -> Address:
    """The numeric form of an address with a host's name in it. Every other is returned as it is: the standard class takes it,
    or says what is wrong with it.
    """
    if family not in (standard.AF_INET, standard.AF_INET6) or not isinstance(address, tuple) or len(address) < 2:
        return address
    host, port = address[:2]
    if not isinstance(host, str) or host in ("", "<broadcast>") or not isinstance(port, int) or not 0 <= port <= 65535:
        return address
    found = getaddrinfo(host, port, family, kind, proto)[0][4]
    return (*found[:2], *address[2:])


# roamlet.patch sets it while ssl.SSLContext.wrap_socket() makes sockets that wait as these do.
tls_waits_here = False


def _refuse_blocking_tls(caller: FrameType) -> None:
    """Refuse what ssl.SSLContext.wrap_socket() is about to do with a socket that waits: it would become one that blocks its
    thread, and obeys neither kill nor roamlet.timeout. One that never waits, setblocking(False), is as good there as any.
    """
    if tls_waits_here:
        return
    if caller.f_code.co_name == "_create" and caller.f_globals.get("__name__") == "ssl":
        raise TypeError(
            "wrap_socket() would make a socket of this one that blocks its whole thread: use roamlet.io.tls.wrap(connection, "
            "context, server_hostname=...) or (..., server_side=True), with the same context"
        )


class socket(_native.Socket):
    """A socket whose calls block one tasklet only: a subclass of the standard library's, used in the same way.

    Everything that waits (accept, connect, recv and its kin, send and its kin, sendfile, the files of makefile) blocks the
    calling tasklet, in any thread, and obeys kill, roamlet.timeout and scopes. settimeout and setblocking mean what they mean
    there: TimeoutError after the time, BlockingIOError at once; the descriptor itself is always non-blocking. Thread-safe:
    several tasklets of several threads may use one socket, and closing it makes those that wait raise OSError (EBADF).

    A stream gives and takes at most 64 and 256 kB per call, as the GIL is kept meanwhile. A tasklet whose socket always has
    something for it lets others run in between.
    """

    __slots__ = ()

    def getsockopt(self, level: int, optname: int, *buflen: int) -> Any:
        # With this question, before it has made anything, ssl.SSLSocket begins to take over a socket.
        if optname == standard.SO_TYPE and level == standard.SOL_SOCKET and self.gettimeout() != 0:
            _refuse_blocking_tls(sys._getframe(1))
        return super().getsockopt(level, optname, *buflen)

    def bind(self, address: Address, /) -> None:
        super().bind(look_up(self.family, self.type, self.proto, address))

    def _sendfile_use_sendfile(self, file: IO[bytes], offset: int = 0, count: int | None = None) -> int:
        """What sendfile() calls first; it falls back to send() when this raises _GiveupOnSendfile. Of the standard class."""
        give_up: type[Exception] = standard._GiveupOnSendfile  # type: ignore[attr-defined]
        self._check_sendfile_params(file, offset, count)  # type: ignore[attr-defined]
        if self.gettimeout() == 0:
            raise ValueError("non-blocking sockets are not supported")
        try:
            source = file.fileno()
            size = os.fstat(source).st_size
        except (AttributeError, OSError) as error:  # no regular file: io.UnsupportedOperation is an OSError
            raise give_up(error) from None
        end = size if count is None else min(size, offset + count)
        place = offset
        try:
            while place < end:
                try:
                    sent = os.sendfile(self.fileno(), source, place, min(end - place, _SENDFILE_AT_ONCE))
                except BlockingIOError:
                    _native.wait_writable(self.fileno(), self.gettimeout())
                    continue
                except OSError as error:
                    if place == offset:  # not a kind of file or socket that the kernel can do it with
                        raise give_up(error) from None
                    raise
                if sent == 0:  # the file has become shorter
                    break
                place += sent
            return place - offset
        finally:
            if place > offset and hasattr(file, "seek"):
                file.seek(place)


_native.configure(socket, look_up)


def socketpair(family: int | None = None, type: int = standard.SOCK_STREAM, proto: int = 0) -> tuple[socket, socket]:
    """Return two connected sockets; of the family AF_UNIX where the platform has it. Does not block."""
    first, second = _standard_socketpair(family, type, proto)
    return _converted(first), _converted(second)


def fromfd(fd: int, family: int, type: int, proto: int = 0) -> socket:
    """Return a socket around a duplicate of `fd`, which becomes non-blocking for all of its users."""
    return socket(family, type, proto, fileno=os.dup(fd))


def create_connection(
    address: tuple[str, int],
    timeout: float | None = _DEFAULT_TIMEOUT,
    source_address: tuple[str, int] | None = None,
    *,
    all_errors: bool = False,
) -> socket:
    """Connect to (host, port), trying each address that the host has, and return the socket.

    `timeout` in seconds limits each try, and becomes the socket's time-out; without it that is socket.getdefaulttimeout().
    The arguments are socket.create_connection's: a library that lets its own be replaced, as http.client does, can have this.
    Blocks this tasklet only. Raises the last error, or with `all_errors` an ExceptionGroup of all; socket.gaierror for an
    unknown name.
    """
    if timeout is not _DEFAULT_TIMEOUT:
        check_timeout(timeout, "create_connection(timeout)")
    host, port = address
    errors: list[OSError] = []
    try:
        for family, kind, proto, _, target in getaddrinfo(host, port, 0, standard.SOCK_STREAM, 0):
            made = None
            try:
                made = socket(family, kind, proto)
                if timeout is not _DEFAULT_TIMEOUT:
                    made.settimeout(timeout)
                if source_address is not None:
                    made.bind(source_address)
                made.connect(target)
                errors.clear()
                return made
            except OSError as error:
                errors.append(error)
                if made is not None:
                    made.close()
            except BaseException:
                if made is not None:
                    made.close()
                raise
        if not errors:
            raise OSError(f"{host!r} has no address to connect to")
        raise ExceptionGroup("create_connection failed", errors) if all_errors else errors[-1]
    finally:
        errors.clear()  # they have this frame in their tracebacks


def create_server(
    address: tuple[str, int] | str,
    *,
    family: int = standard.AF_INET,
    backlog: int | None = None,
    reuse_port: bool = False,
    dualstack_ipv6: bool = False,
) -> socket:
    """Return a listening socket; the arguments are those of socket.create_server, and AF_UNIX with a path is taken too."""
    if family == getattr(standard, "AF_UNIX", None):
        made = socket(family, standard.SOCK_STREAM)
        try:
            made.bind(address)
            made.listen() if backlog is None else made.listen(backlog)
        except BaseException:
            made.close()
            raise
        return made
    return _converted(
        _standard_create_server(
            look_up(family, standard.SOCK_STREAM, 0, address),
            family=family,
            backlog=backlog,
            reuse_port=reuse_port,
            dualstack_ipv6=dualstack_ipv6,
        )
    )


def _converted(made: standard.socket) -> socket:
    """The same descriptor in a socket of ours."""
    family, kind, proto = made.family, made.type, made.proto
    fd = made.detach()
    try:
        return socket(family, kind, proto, fileno=fd)
    except BaseException:
        os.close(fd)
        raise
