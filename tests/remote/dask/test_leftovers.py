"""What a program has when its clusters are closed: counted in a process of its own, after a first one has made what Dask keeps."""

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [
    pytest.mark.once(reason="contexts and Dask's event loop do the same on each switching backend"),
    pytest.mark.roamlet_keeps(reason="tornado and distributed keep exceptions of their own callbacks"),
]

PROGRAM = """
import asyncio, gc, json, os, signal, sys, threading

from roamlet import remote
from roamlet.dask import Cluster, ContextWorker


def left():
    gc.collect()
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    return {
        "fds": sorted(filter(None, map(lead, os.listdir("/proc/self/fd")))),
        "threads": sorted(one.name for one in threading.enumerate()),
        "children": children,
    }


def lead(number):
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""


def once():
    for comm in ("tls", "roamlet"):
        options = {"nthreads": 1, "modules": remote.Modules(), "dashboard_address": "127.0.0.1:0", "comm": comm}
        with Cluster(["local"], **options) as cluster, cluster.get_client() as client:
            assert client.submit(pow, 2, 10).result() == 1024


async def begins_as_the_user_has_enough(worker, context):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(600)


def interrupted():
    ContextWorker._begin = begins_as_the_user_has_enough
    for comm in ("tls", "roamlet"):
        try:
            Cluster(["local"], nthreads=1, dashboard_address=None, comm=comm)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    once = interrupted if sys.argv[1:] == ["interrupted"] else once
    once()
    before = left()
    once()
    print(json.dumps([before, left()]))
"""

CLOSES_WHILE_A_WORKER_STARTS = """
import asyncio, gc, os, signal, sys, time
from pathlib import Path

from distributed.core import Status

from roamlet import remote
from roamlet.dask import Cluster


def children():
    return open(f"/proc/self/task/{os.getpid()}/children").read().split()


def folders():
    return set(Path("/dev/shm").glob("roamlet-dask-*"))


def until(done):
    while not done():
        time.sleep(0.001)


def starts(cluster, opened):
    created = [one for one in list(cluster._created) if one.status == Status.created]
    return created and all((one.context is not None) == opened for one in created)


def close(comm, why, opened):
    options = {"nthreads": 1, "modules": remote.Modules(), "dashboard_address": None, "comm": comm}
    with Cluster(["local"], **options) as cluster, cluster.get_client() as client:
        pids = [worker.pid for worker in cluster.workers.values()]
        os.kill(pids[0], signal.SIGKILL) if why == "dead" else cluster.scale(3)
        if opened is not None:
            until(lambda: starts(cluster, opened))
        raise LookupError("the user's own")


if __name__ == "__main__":
    before = folders()
    for comm in ("tls", "roamlet"):
        for why, opened in (("dead", False), ("dead", True), ("more", None), ("more", False), ("more", True)):
            try:
                close(comm, why, opened)
            except LookupError as error:
                print(error)
            gc.collect()
    until(lambda: folders() <= before)
    print(children())
"""


def test_closing_while_a_worker_starts_raises_and_says_nothing(
    program: Callable[[str], str], python: Callable[..., Any]
) -> None:
    """Whether the successor of a dead one or one more, and how far its start has come: the user's own exception comes out."""
    done = python(program(CLOSES_WHILE_A_WORKER_STARTS))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the user's own"] * 10 + ["[]"]
    said = [line for line in done.stderr.splitlines() if "another one takes its place" not in line]
    assert not said, done.stderr


CLOSES_WHILE_A_HOST_DOES_NOT_ANSWER = """
import os, signal, time

from roamlet import remote
from roamlet.dask import Cluster

opened = []


def children():
    return open(f"/proc/self/task/{os.getpid()}/children").read().split()


def host():
    opened.append(None)
    if len(opened) > 1:
        return remote.ssh("alpha", ssh_args=["-oProxyCommand=sleep 600"], timeout=600)
    opened[0] = remote.local(name="alpha")
    return opened[0]


if __name__ == "__main__":
    with Cluster([host], nthreads=1, modules=remote.Modules(), dashboard_address=None):
        os.kill(opened[0].facts.pid, signal.SIGKILL)
        while len(opened) == 1:
            time.sleep(0.01)
    while children():
        time.sleep(0.01)
    print("closed")
"""


def test_closing_does_not_wait_for_a_host_that_does_not_answer(
    program: Callable[[str], str], python: Callable[..., Any]
) -> None:
    done = python(program(CLOSES_WHILE_A_HOST_DOES_NOT_ANSWER))
    assert done.returncode == 0 and done.stdout == "closed\n", done.stderr
    assert len(done.stderr.splitlines()) == 1 and "another one takes its place" in done.stderr


def test_a_second_cluster_leaves_no_more_than_the_first(
    program: Callable[[str], str], python: Callable[..., Any]
) -> None:
    done = python(program(PROGRAM))
    assert done.returncode == 0, done.stderr
    before, after = json.loads(done.stdout.splitlines()[-1])
    assert after == before
    assert not any("roamlet" in name for name in after["fds"]) and not after["children"]


def test_a_cluster_whose_start_is_interrupted_leaves_nothing(
    program: Callable[[str], str], python: Callable[..., Any]
) -> None:
    """Neither the descriptors of keys, nor what the scheduler has open, nor a thread."""
    done = python(program(PROGRAM), "interrupted")
    assert done.returncode == 0, done.stderr
    before, after = json.loads(done.stdout.splitlines()[-1])
    assert after == before
    assert not any("roamlet" in name for name in after["fds"]) and not after["children"]
