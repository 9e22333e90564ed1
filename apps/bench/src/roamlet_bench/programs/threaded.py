"""A threaded web server as people write it: socketserver, and a pool of threads that take connections from a queue.Queue.

`python -m roamlet.threads` runs it unchanged. With --alone there is no pool, and the thread that accepts also answers: what is left
is what no other lock or queue could make faster.
"""

import socketserver
from typing import Any

from pooled import Pool
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
    """Accepts in the main thread, answers in the pool's, if there is one."""

    request_queue_size = BACKLOG

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        if not given.alone:
            self._pool = Pool(self, THREADS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Leave it to the pool, or answer."""
        if given.alone:
            super().process_request(request, client_address)
        else:
            self._pool.put(request, client_address)


if __name__ == "__main__":
    given = options("alone")
    server = Server()
    announce(server.server_address[1], given)
    while True:
        server.handle_request()
