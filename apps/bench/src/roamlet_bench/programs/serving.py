"""What the servers have in common: their words on the command line, a CPU-bound thread beside, one request and its response.

Each server program listens on a free port of 127.0.0.1, answers HTTP/1.0 and closes, like a server that `ab` exercises. Standard
library only: a server's process holds what it measures and nothing else.
"""

import argparse
import gc
import os
import socket
import sys
import threading

END_OF_REQUEST = b"\r\n\r\n"
BODY = b"<html>you asked for /</html>"
RESPONSE = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(BODY), BODY)

BACKLOG = 1024


def options(*features: str) -> argparse.Namespace:
    """The words that every server takes, and one flag for each feature that can be switched on. Sets the switch interval."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--interval", type=float, default=0.005, help="the switch interval in seconds")
    parser.add_argument("--cpu", type=int, default=0, help="so many CPU-bound threads beside")
    parser.add_argument("--cores", help="the processor cores to run on, as 0,1")
    for feature in features:
        parser.add_argument(f"--{feature}", action="store_true")
    given = parser.parse_args()
    sys.setswitchinterval(given.interval)
    if given.cores:
        os.sched_setaffinity(0, [int(core) for core in given.cores.split(",")])
    return given


def listener() -> socket.socket:
    """A listening socket of the standard library on a free port."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(BACKLOG)
    return listening


def answer(connection: socket.socket) -> None:
    """One connection, one request, by a socket whose calls wait, however they do that."""
    try:
        request = b""
        while END_OF_REQUEST not in request:
            received = connection.recv(65536)
            if not received:
                return
            request += received
        connection.sendall(RESPONSE)
    except OSError:  # the client has gone
        pass
    finally:
        connection.close()


def announce(port: int, given: argparse.Namespace) -> None:
    """Start the CPU-bound threads, then say where the server is: `PORT PID`, and their ids, on a line.

    The process ends with its standard input.
    """
    beside = [threading.Thread(target=compute, daemon=True) for _ in range(given.cpu)]
    for thread in beside:
        thread.start()
    threading.Thread(target=end_with_input, daemon=True).start()
    gc.freeze()
    print(port, os.getpid(), *(thread.native_id for thread in beside), flush=True)


def compute() -> None:
    """Compute in pure Python for ever."""
    value = 0
    while True:
        value += 1


def end_with_input() -> None:
    """Whoever started us holds the other end: when it goes, however it goes, so do we."""
    while os.read(0, 4096):
        pass
    os._exit(0)
