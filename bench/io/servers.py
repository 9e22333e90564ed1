"""The servers: `python -m bench.io.servers PEER [--core N] [--compute-on N] [--interval SECONDS] [--responsive]`.

Each answers keep-alive HTTP on a free port of 127.0.0.1 in its usual way: a tasklet or greenlet a connection, or a Protocol. It
prints `PORT PID` and ends with its standard input. A peer's library is imported in its function: a server holds what it measures.
"""

import argparse
import gc
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

END = b"\r\n\r\n"
BODY = b"hello world\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
BACKLOG = 1024


def answer(connection: Any) -> None:
    """One connection, one request after the other; the same for roamlet and gevent."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = b""
    try:
        while received := connection.recv(65536):
            request += received
            if request.endswith(END):
                connection.sendall(ANSWER)
                request = b""
    except OSError:  # the client has gone
        pass
    finally:
        connection.close()


def on_roamlet(announce: Callable[[int], None], responsive: bool) -> None:
    import roamlet
    from roamlet import io

    if responsive:
        roamlet.responsive(True)
    listener = io.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    announce(listener.getsockname()[1])
    while True:
        connection, _ = listener.accept()
        roamlet.tasklet(answer)(connection)


def on_gevent(announce: Callable[[int], None], _: bool) -> None:
    import gevent
    import gevent.socket

    listener = gevent.socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)
    announce(listener.getsockname()[1])
    while True:
        gevent.spawn(answer, listener.accept()[0])


def on_asyncio(announce: Callable[[int], None], _: bool, run: Any = None) -> None:
    import asyncio

    class Answer(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.request = b""

        def data_received(self, data: bytes) -> None:
            self.request += data
            if self.request.endswith(END):
                self.transport.write(ANSWER)
                self.request = b""

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Answer, "127.0.0.1", 0, backlog=BACKLOG)
        announce(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    (run or asyncio.run)(main())


def on_uvloop(announce: Callable[[int], None], _: bool) -> None:
    import uvloop

    on_asyncio(announce, False, uvloop.run)


PEERS: dict[str, Callable[..., None]] = {
    "roamlet": on_roamlet,
    "gevent": on_gevent,
    "asyncio": on_asyncio,
    "uvloop": on_uvloop,
}


def compute(core: int) -> None:
    """Compute in pure Python for ever, on this core."""
    os.sched_setaffinity(0, [core])
    value = 0
    while True:
        value += 1


def end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--compute-on", type=int, help="a thread beside computes on this core")
    parser.add_argument("--interval", type=float, default=0.005)
    parser.add_argument("--core", type=int)
    parser.add_argument("--responsive", action="store_true")
    given = parser.parse_args()
    sys.setswitchinterval(given.interval)
    if given.core is not None:
        os.sched_setaffinity(0, [given.core])

    def announce(port: int) -> None:
        if given.compute_on is not None:
            threading.Thread(target=compute, args=(given.compute_on,), daemon=True).start()
        threading.Thread(target=end_with_input, daemon=True).start()
        gc.freeze()
        print(port, os.getpid(), flush=True)

    PEERS[given.peer](announce, given.responsive)


if __name__ == "__main__":
    main()
