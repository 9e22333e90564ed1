"""Messages between a worker and the broker, over a Unix socket in a folder that only this user can enter.

A message is a header, a JSON object, and any number of byte strings. Both ends run as the same user on the same machine.
"""

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

PREFIX = struct.Struct(">II")  # bytes of the header, number of byte strings
LENGTH = struct.Struct(">Q")
LARGEST_HEADER = 64 * 1024 * 1024  # bytes

Header = dict[str, Any]


class Ended(ConnectionError):
    """The other end has closed the connection, within a message or before one."""


def send(connection: socket.socket, header: Header, blobs: Sequence[bytes] = ()) -> None:
    """Send one message. Blocks this thread until the system has taken it; raises OSError when the other end has gone."""
    # Strings of the newer cores are subclasses that carry tags; json writes them as the plain text that they are.
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    connection.sendall(PREFIX.pack(len(text), len(blobs)) + b"".join(LENGTH.pack(len(blob)) for blob in blobs) + text)
    for blob in blobs:
        connection.sendall(blob)


def receive(connection: socket.socket) -> tuple[Header, list[bytes]]:
    """Return the next message. Blocks this thread; raises Ended at the end, ValueError for what is not a message."""
    size, count = PREFIX.unpack(_exactly(connection, PREFIX.size))
    if size > LARGEST_HEADER:
        raise ValueError(f"a header of {size} bytes is not one of ours")
    lengths = [LENGTH.unpack(_exactly(connection, LENGTH.size))[0] for _ in range(count)]
    header = json.loads(_exactly(connection, size))
    return header, [_exactly(connection, length) for length in lengths]


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = connection.recv_into(view[got:])
        if not count:
            raise Ended("the other end of the broker's socket has closed it")
        got += count
    return bytes(data)
