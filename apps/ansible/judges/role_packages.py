"""Debian's packages for hosts of a lab, which has no way outside: a proxy for apt on the lab's internet, with a cache.

Indexes are fetched once for each run of the judges, so that all hosts see the same archive; packages are kept for later runs.
"""

import hashlib
import http.server
import os
import shutil
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from roamlet_lab import Lab

PORT = 3142
TIMEOUT = 120  # seconds that a mirror may be silent

# Runs in the lab: opens a socket in its network, and hands it to this process over the descriptor in argv.
LISTEN = """
import array, socket, sys
listener = socket.create_server(("0.0.0.0", int(sys.argv[2])))
with socket.socket(fileno=int(sys.argv[1])) as channel:
    channel.sendmsg([b"1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])
"""


class _Handler(http.server.BaseHTTPRequestHandler):
    cache: Path
    indexes: Path
    lock: threading.Lock

    def do_GET(self) -> None:
        """Answer from the cache, or from the mirror that the URL names."""
        folder = self.cache if self.path.endswith(".deb") else self.indexes
        path = folder / hashlib.sha256(self.path.encode()).hexdigest()
        try:
            with self.lock:
                if not path.exists():
                    self._fetch(path)
        except urllib.error.HTTPError as error:
            self.send_error(error.code)
            return
        except OSError as error:
            self.send_error(502, str(error))
            return
        self.send_response(200)
        self.send_header("Content-Length", str(path.stat().st_size))
        self.end_headers()
        with path.open("rb") as file:
            shutil.copyfileobj(file, self.wfile)

    def _fetch(self, path: Path) -> None:
        new = path.with_suffix(".new")
        with urllib.request.urlopen(self.path, timeout=TIMEOUT) as answer, new.open("wb") as file:
            shutil.copyfileobj(answer, file)
        os.replace(new, path)

    def log_message(self, *arguments: object) -> None:
        """Say nothing: apt does."""


@contextmanager
def proxy(lab: Lab, cache: Path, indexes: Path) -> Iterator[str]:
    """A proxy for apt, at the URL that the block is given, for all hosts of the lab. Threads serve it until the block ends."""
    cache.mkdir(parents=True, exist_ok=True)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        words = ["python3", "-c", LISTEN, str(theirs.fileno()), str(PORT)]
        with lab.admin.popen(words, pass_fds=[theirs.fileno()]) as process:
            theirs.close()
            _, (descriptor,), _, _ = socket.recv_fds(ours, 1, 1)
        if process.returncode:
            raise RuntimeError(f"no socket could be opened in the lab: {words[0]} ended with {process.returncode}")
    settings = {"cache": cache, "indexes": indexes, "lock": threading.Lock()}
    handler = type("Handler", (_Handler,), settings)
    address = (str(lab.admin.address), PORT)
    with http.server.ThreadingHTTPServer(address, handler, bind_and_activate=False) as server:
        server.socket.close()
        server.socket = socket.socket(fileno=descriptor)
        thread = threading.Thread(target=server.serve_forever, name="proxy for apt")
        thread.start()
        try:
            yield f"http://{lab.admin.address}:{PORT}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def indexes() -> Iterator[Path]:
    """The folder for the indexes of one run."""
    with TemporaryDirectory(prefix="roamlet-apt-") as folder:
        yield Path(folder)
