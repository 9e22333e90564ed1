"""The area `tls`: what SSLContext.wrap_socket() makes waits as roamlet's sockets do. MemoryBIO needs nothing: it never waits.

OpenSSL works on the descriptor, which never blocks; all waiting is in Socket._until_done. ssl.SSLSocket itself stays what it is, as
its methods call super() by its global name: contexts make sockets of a class below it, which has its methods.

Certificates of authorities are read on worker threads: the system's bundle takes OpenSSL 3 some 30 ms, for each context, and httpx,
PyMySQL and botocore make one for each client. One core is left to this thread, so that 50 clients at once do not hold it up.
"""

import functools
import os
import ssl
from collections.abc import Callable
from typing import Any
from weakref import ref

from roamlet.io import _sockets, call_async
from roamlet.patch.areas.sockets import socket
from roamlet.patch.changes import Changes
from roamlet.sync import Semaphore


class _Protocol:
    """What an SSLSocket has as `_sslobj`: the original's, with waits around the calls that may have to wait."""

    __slots__ = ("_connection", "_original")

    def __init__(self, original: Any, connection: "SSLSocket") -> None:
        object.__setattr__(self, "_original", original)
        object.__setattr__(self, "_connection", ref(connection))  # which has us

    def read(self, *args: Any) -> Any:
        return self._until_done("read", self._original.read, *args)

    def write(self, data: Any) -> Any:
        return self._until_done("write", self._original.write, data)

    def do_handshake(self) -> Any:
        return self._until_done("handshake", self._original.do_handshake)

    def shutdown(self) -> Any:
        return self._until_done("shutdown", self._original.shutdown)

    def _until_done(self, name: str, operation: Callable[..., Any], *args: Any) -> Any:
        connection = self._connection()
        if connection is None:
            return operation(*args)  # says that its socket is gone
        return connection._until_done(name, operation, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._original, name, value)  # context, session


class SSLSocket(ssl.SSLSocket, socket):  # type: ignore[misc] # they type recvmsg() differently
    """ssl.SSLSocket over a socket that blocks one tasklet only."""


SSLSocket.__module__, SSLSocket.__qualname__ = "ssl", "SSLSocket"

_OURS = "_made_cooperative_by_roamlet"  # kept by the class itself, so that it lives no longer

_create: Any = vars(ssl.SSLSocket)["_create"].__func__
_wrap: Any = ssl.SSLContext._wrap_socket  # type: ignore[attr-defined] # not part of its types
_load: Any = ssl.SSLContext.load_verify_locations
_load_default: Any = ssl.SSLContext.set_default_verify_paths


def _cooperative(kind: Any) -> Any:
    """The class of sockets for a context that has `kind` as its sslsocket_class; for a class of its own, made once."""
    if issubclass(kind, SSLSocket):
        return kind
    if kind is ssl.SSLSocket:
        return SSLSocket
    if _OURS not in vars(kind):
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        setattr(kind, _OURS, type(kind.__name__, (kind, SSLSocket), names))
    return vars(kind)[_OURS]


def _never_block(connection: ssl.SSLSocket) -> None:
    """The socket that it was made from has let its descriptor go to an owner that might expect it to block."""
    os.set_blocking(connection.fileno(), False)


def _create_cooperative(cls: type[ssl.SSLSocket], *args: Any, **kwargs: Any) -> ssl.SSLSocket:
    made: ssl.SSLSocket = _create(_cooperative(cls), *args, **kwargs)
    _never_block(made)
    return made


def _wrap_socket(self: ssl.SSLContext, sock: Any, *args: Any, **kwargs: Any) -> Any:
    """Make the protocol of a connection, as _create() and connect() need it."""
    original = _wrap(self, sock, *args, **kwargs)
    if not isinstance(sock, SSLSocket):
        return original
    _never_block(sock)
    return _Protocol(original, sock)


_PATIENCE = 5.0  # seconds to wait for others that read: one that hangs, as a file of a network may, stops no other
_AT_ONCE = max(1, (os.cpu_count() or 1) - 1)
_turns = Semaphore(_AT_ONCE)


def _begin_turns() -> None:
    """Anew in a forked child, where those who had one are not."""
    global _turns  # noqa: PLW0603
    _turns = Semaphore(_AT_ONCE)


os.register_at_fork(after_in_child=_begin_turns)


def _read(load: Callable[[], None]) -> None:
    turns = _turns
    has_turn = turns.acquire(timeout=_PATIENCE)
    try:
        call_async(load)
    finally:
        if has_turn:
            turns.release()


@functools.wraps(ssl.SSLContext.load_verify_locations)
def _load_verify_locations(self: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
    if cafile is None and capath is None:  # of `cadata` alone OpenSSL's caller keeps the GIL
        _load(self, cafile, capath, cadata)
    else:
        _read(lambda: _load(self, cafile, capath, cadata))


@functools.wraps(ssl.SSLContext.set_default_verify_paths)
def _set_default_verify_paths(self: ssl.SSLContext) -> None:
    _read(lambda: _load_default(self))


def apply(changes: Changes) -> None:
    """Let the contexts that exist and those to come make such sockets, also of a class of their own."""
    changes.replace(ssl.SSLSocket, "_create", classmethod(_create_cooperative))
    changes.replace(ssl.SSLContext, "_wrap_socket", _wrap_socket)
    changes.replace(ssl.SSLContext, "load_verify_locations", _load_verify_locations)
    changes.replace(ssl.SSLContext, "set_default_verify_paths", _set_default_verify_paths)
    _sockets.tls_waits_here = True
    changes.on_undo(lambda: setattr(_sockets, "tls_waits_here", False))
