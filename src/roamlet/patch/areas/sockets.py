"""The area `sockets`: socket.socket is roamlet's, and so is what the functions of the module make and what is accepted."""

import os
import socket as standard
from typing import Any

from roamlet.io import _native, _sockets
from roamlet.patch.changes import Changes


class socket(_sockets.socket):
    """roamlet.io.socket in the place of socket.socket: ssl may wrap it."""

    __slots__ = ()

    def getsockopt(self, level: int, optname: int, *buflen: int) -> Any:
        return _native.Socket.getsockopt(self, level, optname, *buflen)

    def setblocking(self, flag: bool, /) -> None:
        os.get_blocking(self.fileno())  # OSError where the descriptor was closed by its number
        super().setblocking(flag)


# As repr() says it, and pickles.
socket.__module__, socket.__qualname__ = standard.__name__, "socket"


def apply(changes: Changes) -> None:
    """Replace socket.socket, which create_connection, create_server, socketpair and fromfd look up in their module."""
    changes.replace(standard, "socket", socket)
    _native.configure(socket, _sockets.look_up)
    changes.on_undo(lambda: _native.configure(_sockets.socket, _sockets.look_up))
