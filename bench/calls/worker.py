"""The parent process of one side: `python -m bench.calls.worker roamlet|mitogen|pipes`, asked through bench.workers."""

import sys
import time
from typing import Any

from ..shipped import shipped
from ..sides import SIDES, Side
from ..workers import serve
from .ping_pong import PingPong


class Caller:
    """One open context of a side, and the calls that are timed on it.

    Its process and that of the context keep to a core each. Without that, the scheduler has such a pair on one core in one turn
    and on two in the next, and bare pipes answer five times faster on one.
    """

    def __init__(self, side: Side) -> None:
        self._side = side
        self._context: Any = None
        self._far = shipped("no_op")

    def open(self, python: str) -> None:
        self._context = self._side.open(python)
        self._side.call(self._context, self._far.no_op)
        self._side.call(self._context, self._far.keep_to, 1)
        self._far.keep_to(0)

    def rate(self, count: int, at_once: int) -> dict[str, Any]:
        """Wall seconds for `count` no-op calls, `at_once` under way at any time, and the CPU seconds of both processes."""
        far_cpu = self._side.call(self._context, self._far.usage)["cpu_s"]
        cpu, began = time.process_time(), time.perf_counter()
        if at_once == 1:
            call, context, no_op = self._side.call, self._context, self._far.no_op
            for _ in range(count):
                call(context, no_op)
        else:
            self._side.call_many(self._context, self._far.no_op, count, at_once)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        far_cpu = self._side.call(self._context, self._far.usage)["cpu_s"] - far_cpu
        return {"seconds": seconds, "parent_cpu_s": cpu, "child_cpu_s": far_cpu}

    def close(self) -> None:
        if self._context is not None:
            self._side.close(self._context)


def main(name: str) -> None:
    if name == "pipes":
        with PingPong() as pair:
            serve({"about": dict, "open": lambda python: None, "rate": pair.rate})
        return
    side = SIDES[name]()
    caller = Caller(side)
    serve({"about": side.about, "open": caller.open, "rate": caller.rate})
    caller.close()
    side.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
