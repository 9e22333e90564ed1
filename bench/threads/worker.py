"""The process that measures one implementation: `python -m bench.threads.worker PEER`, asked through bench.workers."""

import os
import queue
import sys
import threading
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any

from ..workers import serve
from .pairs import PAIRS

CORES = sorted(os.sched_getaffinity(0))


def classes(peer: str) -> Any:
    if peer == "roamlet":
        import roamlet.threads  # here, because the other process must have nothing of roamlet

        return roamlet.threads
    return SimpleNamespace(**vars(threading), Queue=queue.Queue, SimpleQueue=queue.SimpleQueue)


def seconds(module: Any, kind: str, operations: int, cores: int) -> float:
    """How long two threads take for `operations` hand-overs, there and back: of CPU time on one core, of the clock's on more.

    On one core one of the two always runs, so both are the same while no other process wants it.
    """
    os.sched_setaffinity(0, CORES[:cores])
    threads = [threading.Thread(target=body) for body in PAIRS[kind](module, operations)]
    clock = process_time if cores == 1 else perf_counter
    began = clock()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clock() - began


def main(peer: str) -> None:
    module = classes(peer)

    def pair(kind: str, operations: int, cores: int) -> float:
        return seconds(module, kind, operations, cores)

    serve({"pair": pair, "cores": lambda: len(CORES)})


if __name__ == "__main__":
    main(*sys.argv[1:])
