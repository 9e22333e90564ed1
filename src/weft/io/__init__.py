"""Waiting for the world outside: sockets, descriptors, child processes, calls on worker threads. Each call blocks its tasklet only.

The calls work in any tasklet of any thread, the main one included. A `daemon` wait neither keeps `weft.run()` going nor
hides a deadlock: it is for what waits in the background, on nobody's behalf.
"""

import os

from weft.io import _subprocess as subprocess
from weft.io import files, workers
from weft.io._call_async import call_async, iterate_async
from weft.io._dns import getaddrinfo, gethostbyname, getnameinfo
from weft.io._files import File, open
from weft.io._native import close, forked, read, wait_readable, wait_writable, write
from weft.io._pipes import PipeEnd, pipe
from weft.io._processes import wait_process
from weft.io._responsive import responsive
from weft.io._serve import serve
from weft.io._sockets import create_connection, create_server, fromfd, socket, socketpair
from weft.io._threads import start_thread

__all__ = [
    "File",
    "PipeEnd",
    "call_async",
    "close",
    "create_connection",
    "create_server",
    "files",
    "fromfd",
    "getaddrinfo",
    "gethostbyname",
    "getnameinfo",
    "iterate_async",
    "open",
    "pipe",
    "read",
    "responsive",
    "serve",
    "socket",
    "socketpair",
    "start_thread",
    "subprocess",
    "wait_process",
    "wait_readable",
    "wait_writable",
    "workers",
    "write",
]

os.register_at_fork(after_in_child=forked)
del forked
