"""A threaded web server as people write it: socketserver, and a pool of threads that take connections from a queue.Queue.

`python -m roamlet.threads` runs it unchanged. With --alone there is no pool, and the thread that accepts also answers: what is left
is what no other lock or queue could make faster.
"""

import queue
import socket
import socketserver
import threading
from typing import Any

from serving import BACKLOG, RESPONSE, announce, options

THREADS = 10


class Handler(socketserver.StreamRequestHandler):
    """One connection, one request."""

    def handle(self) -> None:
        """Read the request's lines and answer."""
        if not self.rfile.readline():
            return
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        self.wfile.write(RESPONSE)


class Server(socketserver.TCPServer):
    """Accepts in the main thread, answers in the pool's."""

    request_queue_size = BACKLOG

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._accepted: queue.Queue[tuple[socket.socket, Any]] = queue.Queue()
        if not given.alone:
            for _ in range(THREADS):
                threading.Thread(target=self._work, daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Leave it to the pool, if there is one."""
        if given.alone:
            super().process_request(request, client_address)
        else:
            self._accepted.put((request, client_address))

    def _work(self) -> None:
        while True:
            request, address = self._accepted.get()
            try:
                self.finish_request(request, address)
            except OSError:  # the client has gone
                pass
            finally:
                self.shutdown_request(request)


if __name__ == "__main__":
    given = options("alone")
    server = Server()
    announce(server.server_address[1], given)
    while True:
        server.handle_request()
