"""Messages between a worker and the broker, over a Unix socket in a folder that only this user can enter.

A message is a header, a JSON object, and any number of byte strings. Both ends run as the same user on the same machine.
"""

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

PREFIX = struct.Struct(">IIQ")  # bytes of the header, number of byte strings, bytes of all that follows
LENGTH = struct.Struct(">Q")
LARGEST_HEADER = 64 * 1024 * 1024  # bytes
JOINED = 64 * 1024  # bytes; what is shorter is sent at once, as each piece may wake the other end

Header = dict[str, Any]


class Ended(ConnectionError):
    """The other end has closed the connection, within a message or before one."""


def send(connection: socket.socket, header: Header, blobs: Sequence[bytes] = ()) -> None:
    """Send one message. Blocks this thread until the system has taken it; raises OSError when the other end has gone."""
    # Strings of the newer cores are subclasses that carry tags; json writes them as the plain text that they are.
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    lengths = b"".join([LENGTH.pack(len(blob)) for blob in blobs])
    size = len(lengths) + len(text) + sum(map(len, blobs))
    begin = PREFIX.pack(len(text), len(blobs), size) + lengths + text
    if size <= JOINED:
        connection.sendall(b"".join([begin, *blobs]))
        return
    connection.sendall(begin)
    for blob in blobs:
        connection.sendall(blob)


def receive(connection: socket.socket) -> tuple[Header, list[bytes]]:
    """Return the next message. Blocks this thread; raises Ended at the end, ValueError for what is not a message."""
    size, count, rest = PREFIX.unpack(_exactly(connection, PREFIX.size))
    end = LENGTH.size * count
    if size > LARGEST_HEADER or rest < end + size:
        raise ValueError(f"a header of {size} bytes is not one of ours")
    data = memoryview(_exactly(connection, rest))
    lengths = [length for (length,) in LENGTH.iter_unpack(data[:end])]
    if end + size + sum(lengths) != rest:
        raise ValueError("the lengths of a message are not those of one of ours")
    header = json.loads(bytes(data[end : end + size]))
    blobs = []
    end += size
    for length in lengths:
        blobs.append(bytes(data[end : end + length]))
        end += length
    return header, blobs


def _exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = connection.recv_into(view[got:])
        if not count:
            raise Ended("the other end of the broker's socket has closed it")
        got += count
    return data
