"""A Flask application on twenty threads, as people write it: no word of roamlet, which `python -m roamlet.patch` puts beneath it.

The server is wsgiref's, its threads those of a pool that takes connections from a queue.Queue.
"""

from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from flask import Flask, Response
from pooled import Pool
from serving import BACKLOG, BODY, announce, options

THREADS = 20

app = Flask(__name__)


@app.route("/")
def index() -> Response:
    """What every server of this benchmark says."""
    return Response(BODY)


class Handler(WSGIRequestHandler):
    """Keeps no log: the standard error output is for what goes wrong."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Server(WSGIServer):
    """Accepts in the main thread, answers in the pool's."""

    request_queue_size = BACKLOG

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.set_app(app)
        self._pool = Pool(self, THREADS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Leave it to the pool."""
        self._pool.put(request, client_address)


if __name__ == "__main__":
    given = options()
    server = Server()
    announce(server.server_address[1], given)
    while True:
        server.handle_request()
