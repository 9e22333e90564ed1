"""Waiting for the world outside: sockets, descriptors, child processes, calls on worker threads. Each call blocks its tasklet only.

The calls work in any tasklet of any thread, the main one included. A `daemon` wait neither keeps `roamlet.run()` going nor
hides a deadlock: it is for background waits that no other tasklet depends on.
"""

import os

from roamlet.io import _subprocess as subprocess
from roamlet.io import files, workers
from roamlet.io._dns import getaddrinfo, gethostbyname, getnameinfo
from roamlet.io._files import File, open
from roamlet.io._native import close, forked, read, wait_readable, wait_writable, write
from roamlet.io._pipes import PipeEnd, pipe
from roamlet.io._processes import wait_process
from roamlet.io._responsive import responsive
from roamlet.io._serve import serve
from roamlet.io._sockets import create_connection, create_server, fromfd, socket, socketpair
from roamlet.io._workers.call_async import call_async, iterate_async
from roamlet.io._workers.threads import start_thread

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
