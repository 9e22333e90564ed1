"""The parent process of one side: `python -m bench.stream.worker roamlet|mitogen`, asked through bench.workers."""

import re
import sys
import time
from pathlib import Path
from typing import Any

from ..core.blocked import resident
from ..shipped import shipped
from ..sides import SIDES, Side
from ..workers import serve

RESET_PEAK = "5"  # proc(5), clear_refs: the peak of resident memory is what is resident now


class Streamer:
    """One open context of a side, and the streams out of it."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._context: Any = None

    def open(self, python: str) -> None:
        """Open it and take one short stream of each kind, so that the target has everything that a stream needs, and it has run."""
        self._context = self._side.open(python)
        for size in (0, 1024):
            self._take(10, size)

    def rate(self, count: int, size: int) -> dict[str, Any]:
        """Wall seconds from the call to the last of `count` values, and the CPU seconds of both processes."""
        usage = shipped("no_op").usage
        far_cpu = self._side.call(self._context, usage)["cpu_s"]
        cpu, began = time.process_time(), time.perf_counter()
        self._take(count, size)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        far_cpu = self._side.call(self._context, usage)["cpu_s"] - far_cpu
        return {"seconds": seconds, "parent_cpu_s": cpu, "child_cpu_s": far_cpu}

    def slowly(self, count: int, size: int, pause: float) -> dict[str, Any]:
        """Take a stream with a pause of so many seconds after each value: this process's peak of resident bytes over its start."""
        Path("/proc/self/clear_refs").write_text(RESET_PEAK, encoding="ascii")
        before, began = resident(), time.perf_counter()
        self._take(count, size, pause)
        return {"above_start": peak() - before, "seconds": time.perf_counter() - began}

    def _take(self, count: int, size: int, pause: float = 0) -> None:
        taken = 0
        for value in self._side.values(self._context, count, size):
            taken += 1
            assert len(value) == (size or 2)
            if pause:
                time.sleep(pause)  # this thread alone: on both sides another thread reads from the context
        if taken != count:
            raise RuntimeError(f"{taken} of {count} values came")

    def close(self) -> None:
        if self._context is not None:
            self._side.close(self._context)


def peak() -> int:
    """The most bytes that were resident since the peak was last reset."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


def main(name: str) -> None:
    side = SIDES[name]()
    streamer = Streamer(side)
    serve({"open": streamer.open, "rate": streamer.rate, "slowly": streamer.slowly})
    streamer.close()
    side.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
