"""The process that measures one kind of cluster: `python -m bench.clusters.worker SIDE`, asked through bench.workers."""

import sys
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

from ..workers import serve
from .shipped import WORKLOADS

PRELOAD = ("dask.array", "dask.dataframe")

OURS = {"roamlet": "tls", "links": "roamlet"}  # and how they talk

_open = ExitStack()
_state: dict[str, Any] = {}


def about(side: str) -> str:
    """Import what the parent imports; the version of Dask."""
    from importlib import import_module

    import distributed

    for module in PRELOAD:
        import_module(module)

    if side in OURS:
        import roamlet.dask  # noqa: F401 - so that it is not part of what is measured

    return str(distributed.__version__)


def ready(side: str, workers: int, python: str) -> float:
    """Seconds until so many workers are there that have imported what is preloaded."""
    from distributed import Client, LocalCluster, Security

    begun = time.monotonic()
    cluster: Any
    if side in OURS:
        from roamlet import remote
        from roamlet.dask import Cluster

        modules = remote.Modules(prefer="parent", bytecode=True)
        host = partial(remote.local, python=python, modules=modules, name="host")
        cluster = Cluster(
            [host],
            workers_per_host=workers,
            python=python,
            nthreads=1,
            preload=PRELOAD,
            dashboard_address=None,
            comm=OURS[side],
        )
    else:
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            preload=list(PRELOAD),
            dashboard_address=None,
            silence_logs=40,
            security=Security.temporary() if side == "dask-tls" else None,
        )
    _open.enter_context(cluster)
    client = _open.enter_context(Client(cluster))
    client.wait_for_workers(workers)
    seconds = time.monotonic() - begun
    _state["client"] = client
    return seconds


def workload(name: str) -> tuple[float, float]:
    """Seconds of one workload, and what came out of it."""
    begun = time.monotonic()
    result = WORKLOADS[name](_state["client"])
    return time.monotonic() - begun, result


def close() -> float:
    """Seconds until it is closed."""
    begun = time.monotonic()
    _open.close()
    return time.monotonic() - begun


if __name__ == "__main__":
    side = sys.argv[1]
    serve(
        {
            "about": partial(about, side),
            "ready": partial(ready, side),
            "workload": workload,
            "close": close,
        }
    )
