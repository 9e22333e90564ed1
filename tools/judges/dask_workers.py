"""Gives the tests of distributed's deploy package workers in contexts, and roamlet.dask.Cluster: a plugin for pytest.

Used by dask_cluster.py. What tests call Worker and Nanny is a ContextWorker, and LocalCluster a Cluster on this machine.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dask.distributed
import distributed
import distributed.utils_test
from dask.system import CPU_COUNT

from roamlet import remote
from roamlet.dask import Cluster, ContextWorker
from roamlet.dask.places import Place


class Worker(ContextWorker):
    """With what tests ask a Worker of Dask for."""

    def __init__(self, scheduler: str, **options: Any) -> None:
        place = Place("local", modules=remote.Modules())
        super().__init__(scheduler, place=place, **{"silence_logs": 30, **options})

    @property
    def state(self) -> SimpleNamespace:
        """Of it, what the parent knows."""
        return SimpleNamespace(nthreads=self.said["nthreads"])

    async def kill(self) -> None:
        """End its process as nothing else does."""
        assert self.context is not None and self.pid is not None
        os.kill(self.pid, signal.SIGKILL)


class LocalCluster(Cluster):
    """Takes what tests give to Dask's LocalCluster."""

    def __init__(
        self,
        name: str | None = None,
        n_workers: int | None = None,
        threads_per_worker: int | None = None,
        processes: bool | None = None,
        loop: Any = None,
        host: str | None = None,
        silence_logs: Any = 30,
        dashboard_address: str = ":0",
        asynchronous: bool = False,
        memory_limit: Any = None,
        **options: Any,
    ) -> None:
        number = CPU_COUNT if n_workers is None else n_workers
        super().__init__(
            ["local"],
            workers_per_host=number,
            nthreads=threads_per_worker or max(1, CPU_COUNT // max(1, number)),
            memory_limit=memory_limit,
            modules=remote.Modules(),
            dashboard_address="127.0.0.1:0",
            name=name,
            asynchronous=asynchronous,
            silence_logs=silence_logs or None,
            loop=loop,
            worker_options=options,
        )


@contextlib.contextmanager
def _unjudged(*arguments: Any, **options: Any) -> Iterator[None]:
    """Threads and processes of roamlet's are its own affair."""
    yield


distributed.utils_test.check_thread_leak = _unjudged
distributed.utils_test.check_process_leak = _unjudged
for package in (distributed, dask.distributed):
    package.Worker = package.Nanny = Worker
    package.LocalCluster = LocalCluster
