"""The same service on weft: a tasklet for each connection. --responsive shortens the switch interval while threads compete."""

import contextlib
import socket

import weft
from serving import BACKLOG, END_OF_REQUEST, RESPONSE, announce, options
from weft import io


def answer(connection: socket.socket) -> None:
    """One connection, one request."""
    try:
        request = b""
        while END_OF_REQUEST not in request:
            received = connection.recv(65536)
            if not received:
                return
            request += received
        connection.sendall(RESPONSE)
    except OSError:  # the client has gone
        pass
    finally:
        connection.close()


if __name__ == "__main__":
    given = options("responsive")
    listening = io.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    announce(listening.getsockname()[1], given)
    with weft.responsive() if given.responsive else contextlib.nullcontext():
        while True:
            weft.tasklet(answer)(listening.accept()[0])
