"""The load: N connections at a time, each of which asks, reads until the server closes, and is opened again. Imports no roamlet.

One thread and one epoll. A process of its own, on a core of its own where there is one, so that its CPU time does not
count as the server's.
"""

import gc
import os
import select
import socket
import time
from typing import Any

from answers import serve

clock = time.perf_counter

REQUEST = b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\nUser-Agent: roamlet bench\r\nAccept: */*\r\n\r\n"
STALLED_SECONDS = 20.0


class Connection:
    """One of the connections at once: begins a request, and takes what comes of its response."""

    def __init__(self, port: int, epoll: select.epoll, opened: "dict[int, Connection]") -> None:
        self._address = ("127.0.0.1", port)
        self._epoll = epoll
        self._opened = opened

    def ask(self) -> None:
        """Connect (on loopback that takes no waiting) and send the request."""
        self.begun = clock()
        self.response = b""
        self.socket = socket.socket()
        self.socket.connect(self._address)
        self.socket.send(REQUEST)
        self.socket.setblocking(False)
        self._opened[self.socket.fileno()] = self
        self._epoll.register(self.socket.fileno(), select.EPOLLIN)

    def take(self) -> bool:
        """Take what has come: whether that was the end."""
        while True:
            try:
                received = self.socket.recv(65536)
            except BlockingIOError:
                return False
            if not received:
                self.close()
                return True
            self.response += received

    def close(self) -> None:
        del self._opened[self.socket.fileno()]
        self.socket.close()


def load(port: int, connections: int, seconds: float, warm_up: float) -> dict[str, Any]:
    """Keep so many connections asking: requests answered within `seconds` after `warm_up` seconds, and what each took.

    Raises RuntimeError for a wrong answer, and when nothing has come for 20 seconds.
    """
    with select.epoll() as epoll:
        opened: dict[int, Connection] = {}
        try:
            for _ in range(connections):
                Connection(port, epoll, opened).ask()
            run(epoll, opened, warm_up)
            used, begun = time.process_time(), clock()
            taken = sorted(run(epoll, opened, seconds))
            elapsed, used = clock() - begun, time.process_time() - used
        finally:
            for connection in list(opened.values()):
                connection.close()
    return {
        "value": len(taken) / elapsed,
        "requests": len(taken),
        "seconds": elapsed,
        "busy": used / elapsed,
        "median": taken[len(taken) // 2],
        "p99": taken[len(taken) * 99 // 100],
    }


def run(epoll: select.epoll, opened: dict[int, Connection], seconds: float) -> list[float]:
    """Ask on for so long, and until somebody was answered at all: the seconds that each answered request took."""
    taken: list[float] = []
    until = clock() + seconds
    while clock() < until or not taken:
        events = epoll.poll(STALLED_SECONDS)
        if not events:
            raise RuntimeError(f"the server has answered no connection for {STALLED_SECONDS:.0f} s")
        for fd, _ in events:
            connection = opened[fd]
            if not connection.take():
                continue
            if not connection.response.startswith(b"HTTP/1.0 200 OK\r\n") or not connection.response.endswith(
                b"</html>"
            ):
                raise RuntimeError(f"the server answered {connection.response[:80]!r}")
            now = clock()
            taken.append(now - connection.begun)
            connection.ask()
    return taken


def begin(cores: list[int]) -> None:
    """Run on these cores; none named: on all."""
    if cores:
        os.sched_setaffinity(0, cores)
    gc.disable()


if __name__ == "__main__":
    serve({"begin": begin, "load": load})
