"""The process that measures one side: `python -m bench.libraries.worker roamlet|gevent|threads|alone`, asked through bench.workers.

What is measured is the CPU time of this process, which is the client of servers in other processes.
"""

# ruff: noqa: E402 - the standard library is patched before it is used

import sys

SIDE = sys.argv[1]
if SIDE == "gevent":
    import gevent.monkey

    gevent.monkey.patch_all()
elif SIDE == "roamlet":
    import roamlet.patch

    roamlet.patch.install()

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..workers import serve

Job = Callable[[], object]
servers: dict[str, Any] = {}
"""What the measuring side has told: ports, folders with Unix sockets, the file with the authority's certificate."""


def at_once(jobs: Sequence[Job]) -> None:
    """Run them as tasklets, greenlets or threads, until all have ended, or one after the other; raises the first error."""
    errors: list[BaseException] = []

    def guarded(job: Job) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    if SIDE == "roamlet":
        for tasklet in [roamlet.spawn(guarded, (job,)) for job in jobs]:
            tasklet.join()
    elif SIDE == "gevent":
        gevent.joinall([gevent.spawn(guarded, job) for job in jobs])
    elif SIDE == "alone":
        for job in jobs:
            guarded(job)
    else:
        threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


# ---- what one of many does: `begin` is not measured, and returns what is done again and again, and how that ends


def raw_socket() -> tuple[Job, Job]:
    connection = socket.create_connection(("127.0.0.1", servers["plain"]))
    connection.sendall(b"GET /echo HTTP/1.1\r\n\r\n")

    def once() -> None:
        connection.sendall(b"x" * 100)
        assert len(connection.recv(4096)) == 100

    return once, connection.close


@cache
def pool() -> Any:
    import urllib3

    return urllib3.PoolManager(maxsize=1000)


def by_urllib3() -> tuple[Job, Job]:
    url = f"http://127.0.0.1:{servers['plain']}/0"

    def once() -> None:
        assert pool().request("GET", url).json()["ok"]

    return once, int


def with_requests(url: str, **options: Any) -> tuple[Job, Job]:
    import requests

    session = requests.Session()
    session.trust_env = False

    def once() -> None:
        assert session.get(url, **options).json()["ok"]

    return once, session.close


def by_requests() -> tuple[Job, Job]:
    return with_requests(f"http://127.0.0.1:{servers['plain']}/0")


def by_requests_over_tls() -> tuple[Job, Job]:
    return with_requests(f"https://localhost:{servers['tls']}/0", verify=servers["authority"])


def new_tls_connection() -> tuple[Job, Job]:
    import ssl

    context = ssl.create_default_context(cafile=servers["authority"])

    def once() -> None:
        with (
            socket.create_connection(("127.0.0.1", servers["tls"])) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            connection.sendall(b"GET /0 HTTP/1.1\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")

    return once, int


def redis_get() -> tuple[Job, Job]:
    import redis

    client = redis.Redis(unix_socket_path=servers["redis"] + "/redis.sock", single_connection_client=True)
    client.set("key", b"a value")

    def once() -> None:
        assert client.get("key") == b"a value"

    return once, client.close


def psycopg_select() -> tuple[Job, Job]:
    import psycopg

    connection = psycopg.connect(host=servers["postgresql"], user="postgres", dbname="postgres", autocommit=True)

    def once() -> None:
        row = connection.execute("SELECT 1").fetchone()
        assert row == (1,)

    return once, connection.close


def pymysql_select() -> tuple[Job, Job]:
    import pymysql

    connection = pymysql.connect(unix_socket=servers["mariadb"] + "/mariadb.sock", autocommit=True)
    cursor = connection.cursor()

    def once() -> None:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)

    return once, connection.close


WAYS: dict[str, Callable[[], tuple[Job, Job]]] = {
    "socket": raw_socket,
    "urllib3": by_urllib3,
    "requests": by_requests,
    "requests_tls": by_requests_over_tls,
    "tls": new_tls_connection,
    "redis": redis_get,
    "psycopg": psycopg_select,
    "pymysql": pymysql_select,
}


def cpu(way: str, count: int, together: int) -> float:
    """Seconds of this process's CPU time for `count` operations, `together` under way at any time, each on what it has opened."""
    opened: list[tuple[Job, Job]] = []
    at_once([lambda: opened.append(WAYS[way]())] * together)

    def share(once: Job) -> None:
        for _ in range(count // together):
            once()

    at_once([once for once, _ in opened])
    begun = time.process_time()
    at_once([lambda once=once: share(once) for once, _ in opened])  # type: ignore[misc]
    taken = time.process_time() - begun
    at_once([close for _, close in opened])
    pool().clear()
    return taken


def gap(way: str, together: int) -> float:
    """The longest time, in seconds, that a ticker of this thread was held up while so many open what they need and use it once."""
    longest, going = 0.0, True

    def tick() -> None:
        nonlocal longest
        last = time.perf_counter()
        while going:
            time.sleep(0.002)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    def all_of_them() -> None:
        nonlocal going

        def whole() -> None:
            once, close = WAYS[way]()
            once()
            close()

        try:
            at_once([whole] * together)
        finally:
            going = False

    once, close = WAYS[way]()  # imports are not what is measured
    once()
    close()
    at_once([tick, all_of_them])
    pool().clear()
    return longest


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(together: int, milliseconds: int) -> float:
    """Bytes for each request that waits for its answer, of `together` by requests. Asked once of a fresh process."""
    import requests

    url = f"http://127.0.0.1:{servers['plain']}/"
    assert requests.get(f"{url}0", timeout=60).ok
    before, most = resident(), 0

    def one() -> None:
        assert requests.get(f"{url}{milliseconds}", timeout=60).ok

    def look() -> None:
        nonlocal most
        for _ in range(24):
            time.sleep(milliseconds / 1000 / 20)
            most = max(most, resident())

    at_once([look, *[one] * together])
    return (most - before) / together


if __name__ == "__main__":
    serve({"servers": servers.update, "cpu": cpu, "gap": gap, "memory": memory})
