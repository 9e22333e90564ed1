"""Many chains saved to one file, and restored in another process: `python -m bench.snapshot.many save|restore SIDE COUNT FILE`.

Each is a process of its own, with the garbage collector as it comes. Prints a line of JSON: seconds from the call to what is
there, the peak of this process's resident bytes, and how much of that there was before.
"""

import json
import os
import resource
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from .worker import Side

FRAMES = 4


def save(side: Side, count: int, file: Path) -> dict[str, Any]:
    many = [side.make(FRAMES) for _ in range(count)]
    before, began = peak(), perf_counter()
    data = side.save(many)
    file.write_bytes(data)
    return {"seconds": perf_counter() - began, "bytes": len(data), "before": before, "peak": peak()}


def restore(side: Side, count: int, file: Path) -> dict[str, Any]:
    before, began = peak(), perf_counter()
    many = side.restore(file.read_bytes())
    taken = {"seconds": perf_counter() - began, "before": before, "peak": peak()}
    assert len(many) == count
    return taken


def peak() -> int:
    """Resident bytes of this process at most, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(what: str, name: str, count: str, file: str) -> None:
    step = {"save": save, "restore": restore}[what]
    print(json.dumps(step(Side(name), int(count), Path(file))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
