"""The same service on gevent: a greenlet for each connection."""

import gevent
import gevent.socket
from serving import BACKLOG, announce, answer, options


if __name__ == "__main__":
    given = options()
    listening = gevent.socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(BACKLOG)
    announce(listening.getsockname()[1], given)
    while True:
        gevent.spawn(answer, listening.accept()[0])
