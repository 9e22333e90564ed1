"""Memory of idle connections: `python -m bench.io.idle PEER COUNT` prints how many there were, and the resident bytes of one.

Each is a connection that was accepted and whose tasklet waits for its first request. The other ends are in a process of their own.
Memory of the kernel is not counted. The sockets are of the family AF_UNIX, as loopback has no 50,000 ports left for one address.
"""

import gc
import json
import os
import resource
import socket
import sys
from collections.abc import Callable

from ..core.blocked import resident
from .servers import answer

SPARE_DESCRIPTORS = 200


def allowed(wanted: int) -> int:
    """Raise the limit of descriptors as far as need be and as this process may: how many connections there is room for."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE_DESCRIPTORS
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(needed, hard)))
    except ValueError:  # more than its rights allow: as many as may be
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard - SPARE_DESCRIPTORS
    return wanted


def connect(name: bytes, count: int, parent_alive: int) -> None:
    """The other side: so many connections, which do nothing until the server goes."""
    kept = []
    for _ in range(count):
        kept.append(socket.socket(socket.AF_UNIX))
        kept[-1].connect(name)
    os.read(parent_alive, 1)
    os._exit(0)


def beside(name: bytes, count: int) -> None:
    """Start that in a process of its own, which ends with this one."""
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.close(write_end)
        connect(name, count, read_end)
    os.close(read_end)


def on_roamlet(name: bytes, count: int) -> float:
    import roamlet
    from roamlet import io

    listener = io.create_server(name, family=socket.AF_UNIX, backlog=1024)
    beside(name, count)
    first, _ = listener.accept()  # what the first one brings with it is not counted
    roamlet.tasklet(answer)(first)
    del first
    roamlet.schedule()
    before = resident()
    for _ in range(count - 1):
        roamlet.tasklet(answer)(listener.accept()[0])
    while roamlet.getruncount() > 1:
        roamlet.schedule()
    return (resident() - before) / (count - 1)


def on_gevent(name: bytes, count: int) -> float:
    import gevent
    import gevent.socket

    listener = gevent.socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen(1024)
    beside(name, count)
    kept = [gevent.spawn(answer, listener.accept()[0])]
    gevent.sleep(0)
    before = resident()
    kept += [gevent.spawn(answer, listener.accept()[0]) for _ in range(count - 1)]
    gevent.sleep(0)
    gevent.sleep(0)
    return (resident() - before) / (count - 1)


PEERS: dict[str, Callable[[bytes, int], float]] = {"roamlet": on_roamlet, "gevent": on_gevent}


def main(peer: str, wanted: str) -> None:
    count = allowed(int(wanted))
    gc.disable()
    print(
        json.dumps({"connections": count, "bytes": PEERS[peer](b"\0roamlet bench %d" % os.getpid(), count)}), flush=True
    )
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
