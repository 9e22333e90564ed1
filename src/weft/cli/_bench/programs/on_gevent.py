"""The same service on gevent: a greenlet for each connection."""

from typing import Any

import gevent
import gevent.socket
from serving import BACKLOG, END_OF_REQUEST, RESPONSE, announce, options


def answer(connection: Any) -> None:
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
    given = options()
    listening = gevent.socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(BACKLOG)
    announce(listening.getsockname()[1], given)
    while True:
        gevent.spawn(answer, listening.accept()[0])
