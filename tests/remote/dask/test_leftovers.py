"""What a program has when its clusters are closed: counted in a process of its own, after a first one has made what Dask keeps."""

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.once(reason="contexts and Dask's event loop do the same on each switching backend")

PROGRAM = """
import gc, json, os, sys, threading

from roamlet import remote
from roamlet.dask import Cluster


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


if __name__ == "__main__":
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
