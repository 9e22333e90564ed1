"""A pool of threads that take the connections of a socketserver's server from a queue.Queue, as people write it."""

import queue
import threading
from socketserver import BaseServer
from typing import Any


class Pool:
    """Its threads answer what the server has accepted. They are daemons: the pool ends with the process."""

    def __init__(self, server: BaseServer, threads: int) -> None:
        self._server = server
        self._accepted: queue.Queue[tuple[Any, Any]] = queue.Queue()
        for _ in range(threads):
            threading.Thread(target=self._work, daemon=True).start()

    def put(self, request: Any, client_address: Any) -> None:
        """Leave a connection to the threads."""
        self._accepted.put((request, client_address))

    def _work(self) -> None:
        server = self._server
        while True:
            request, address = self._accepted.get()
            try:
                server.finish_request(request, address)
            except OSError:  # the client has gone
                pass
            finally:
                server.shutdown_request(request)
