"""The parent process of one side: `python -m bench.start.worker roamlet|mitogen`, asked through bench.workers."""

import gc
import sys
import time
from functools import partial
from typing import Any

from ..core.blocked import resident
from ..shipped import shipped
from ..sides import SIDES, Side
from ..workers import serve


def contexts(side: Side, python: str, count: int) -> dict[str, Any]:
    """What one context costs, as the mean of `count` that are opened one after the other, called once and held together.

    One more was opened and called before: what a process needs for its first one is not in the figures.
    """
    usage = shipped("no_op").usage
    first = side.open(python)
    side.call(first, usage)
    gc.collect()
    memory, cpu, began = resident(), time.process_time(), time.perf_counter()
    opened = [side.open(python) for _ in range(count)]
    seconds = time.perf_counter() - began
    children = [side.call(context, usage) for context in opened]
    cpu = time.process_time() - cpu
    gc.collect()
    memory = resident() - memory
    for context in [*opened, first]:
        side.close(context)
    return {
        "seconds": seconds / count,
        "parent_cpu_s": cpu / count,
        "parent_bytes": memory / count,
        "child_cpu_s": sum(child["cpu_s"] for child in children) / count,
        "child_bytes": sum(child["resident"] for child in children) / count,
    }


def main(name: str) -> None:
    side = SIDES[name]()
    serve({"contexts": partial(contexts, side)})
    side.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
