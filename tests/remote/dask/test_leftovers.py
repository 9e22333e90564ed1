"""What a program has when its clusters are closed: counted in a process of its own, after a first one has made what Dask keeps."""

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.once(reason="contexts and Dask's event loop do the same on each switching backend")

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
