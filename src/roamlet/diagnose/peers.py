"""The other end of a descriptor, in words, as the system tells it: a socket's peer, a file's path, the process of a pidfd.

Never blocks, changes nothing of the descriptor.
"""

import _socket
import os
import stat


def peer(descriptor: int) -> tuple[str | None, int | None]:
    """The other end of an open descriptor, and the process whose end it tells; None for what is not known."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return None, None
    if stat.S_ISSOCK(mode):
        return _of_socket(descriptor), None
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # no /proc, on macOS
        return ("pipe" if stat.S_ISFIFO(mode) else None), None
    if path == "anon_inode:[pidfd]":
        return path, _process(descriptor)
    if path.startswith("pipe:"):
        return path.replace(":[", " ").rstrip("]"), None
    return path, None


def _of_socket(descriptor: int) -> str | None:
    # Not socket.socket: a patch may have replaced it. detach() leaves the descriptor open.
    try:
        socket = _socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ACCEPTCONN):
            return f"connections to {_text(socket.getsockname())}"
        return _text(socket.getpeername())
    except OSError:  # connected no longer, or not yet
        return None
    finally:
        socket.detach()


def _text(address: object) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        return f"{host}:{address[1]}"
    if isinstance(address, bytes):
        return "@" + address.lstrip(b"\0").decode("utf-8", "replace")
    return str(address) or "a socket without a name"


def _process(descriptor: int) -> int | None:
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("Pid:"):
                    number = int(line.split()[1])
                    return number if number > 0 else None
    except (OSError, ValueError, IndexError):
        pass
    return None
