"""The process that measures one kind of executor: `python -m bench.executor.worker SIDE`, asked through bench.workers."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..workers import serve
from . import shipped

Submit = Callable[..., Any]


@contextmanager
def roamlet(workers: int) -> Iterator[Submit]:
    from roamlet.executor import Executor

    with Executor(["local"] * workers) as executor:
        yield executor.submit


@contextmanager
def processes(workers: int) -> Iterator[Submit]:
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(workers) as executor:
        yield executor.submit


@contextmanager
def dask(workers: int) -> Iterator[Submit]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=40) as cluster,
        Client(cluster) as client,
    ):
        yield lambda function, *args: client.submit(function, *args, pure=False)


class _Called:
    """A call as a future: context.call in a tasklet of its own."""

    def __init__(self, context: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        import roamlet

        self._call = roamlet.spawn(context.call, (function, args))

    def result(self) -> Any:
        return self._call.join()


@contextmanager
def calls(workers: int) -> Iterator[Submit]:
    """No executor: context.call, each in a tasklet of its own, to contexts in turn."""
    from itertools import cycle

    from roamlet import remote

    with remote.open_all([remote.local] * workers) as opened:
        turns = cycle(opened.contexts)
        yield lambda function, *args: _Called(next(turns), function, args)


SIDES = {"roamlet": roamlet, "calls": calls, "processes": processes, "dask": dask}


def about(side: str) -> str:
    if side == "dask":
        import distributed  # here: it may be missing

        return str(distributed.__version__)
    return ""


def no_op(side: str, operations: int) -> float:
    """us of this process's CPU for a call that does nothing: all submitted to one worker, then all results asked for."""
    with SIDES[side](1) as submit:
        for future in [submit(shipped.nothing) for _ in range(50)]:
            future.result()
        began = time.process_time()
        for future in [submit(shipped.nothing) for _ in range(operations)]:
            future.result()
        return (time.process_time() - began) / operations * 1e6


def tasks(side: str, workers: int, count: int, seconds: float, cores: int) -> float:
    """Which part of `cores` so many calls use that compute for so long, on so many workers."""
    with SIDES[side](workers) as submit:
        for future in [submit(shipped.compute, 0.01) for _ in range(workers * 4)]:
            future.result()
        began = time.perf_counter()
        for future in [submit(shipped.compute, seconds) for _ in range(count)]:
            future.result()
        return count * seconds / cores / (time.perf_counter() - began)


if __name__ == "__main__":
    side = sys.argv[1]
    serve(
        {
            "about": lambda: about(side),
            "no_op": lambda operations: no_op(side, operations),
            "tasks": lambda **options: tasks(side, **options),
        }
    )
