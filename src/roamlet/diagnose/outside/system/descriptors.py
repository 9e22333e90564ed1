"""The other end of a descriptor of another process, in words, as /proc shows it."""

import os
import socket
import struct
from collections.abc import Iterator

from roamlet.diagnose.outside.system.proc import opened

LISTENS = "0A"  # a TCP socket's state


class Descriptors:
    """Those of one process. The lists of sockets are read when the first socket is asked for."""

    def __init__(self, pid: int) -> None:
        self._folder = f"/proc/{pid}"
        self._sockets: dict[str, str] | None = None

    def peer(self, descriptor: int) -> tuple[str | None, int | None]:
        """What is at its other end, and the process whose end it waits for; None for what is not known."""
        try:
            path = os.readlink(f"{self._folder}/fd/{descriptor}")
        except OSError:
            return None, None
        if path == "anon_inode:[pidfd]":
            return path, self._process(descriptor)
        kind, _, number = path.partition(":")
        if kind == "pipe":
            return f"pipe {number.strip('[]')}", None
        if kind != "socket":
            return path, None
        if self._sockets is None:
            self._sockets = dict(self._all_sockets())
        return self._sockets.get(number.strip("[]")), None

    def _process(self, descriptor: int) -> int | None:
        try:
            with opened(f"{self._folder}/fdinfo/{descriptor}") as lines:
                number = next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), -1)
        except (OSError, ValueError, IndexError):
            return None
        return number if number > 0 else None

    def _all_sockets(self) -> Iterator[tuple[str, str]]:
        """(number of its inode, peer in words) of each socket in the process's network."""
        for name in ("tcp", "tcp6", "udp", "udp6"):
            for fields in self._lines(name):
                if len(fields) < 10:
                    continue
                if fields[3] == LISTENS and name.startswith("tcp"):
                    yield fields[9], f"connections to {_address(fields[1])}"
                elif not fields[2].endswith(":0000"):
                    yield fields[9], _address(fields[2])
        for fields in self._lines("unix"):
            if len(fields) >= 7:
                yield fields[6], fields[7] if len(fields) > 7 else "a socket without a name"

    def _lines(self, name: str) -> Iterator[list[str]]:
        try:
            with opened(f"{self._folder}/net/{name}") as lines:
                next(lines, None)  # the titles
                for line in lines:
                    yield line.split()
        except OSError:
            return


def _address(text: str) -> str:
    """An address and port as /proc/net has them: words of 32 bits in the machine's order, in hexadecimal."""
    host, _, port = text.partition(":")
    words = struct.unpack(f">{len(host) // 8}I", bytes.fromhex(host))
    packed = struct.pack(f"={len(words)}I", *words)
    if len(packed) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, packed)}:{int(port, 16)}"
    shown = socket.inet_ntop(socket.AF_INET6, packed)
    return (
        f"{shown[7:]}:{int(port, 16)}" if shown.startswith("::ffff:") and "." in shown else f"[{shown}]:{int(port, 16)}"
    )
