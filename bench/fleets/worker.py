"""The process that measures fleets: `python -m bench.fleets.worker`, asked through bench.workers.

Each size is measured in a process of its own: what the one before has left free would hide what the next one takes.
"""

import gc
import os
import time
from pathlib import Path
from typing import Any

from ..workers import serve
from . import shipped

WARM = 8  # contexts that are opened before: what only the first ones cost is not counted
PAGE = os.sysconf("SC_PAGE_SIZE")


def held() -> tuple[int, int]:
    """Bytes of memory, and descriptors, that this process has."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    return resident, len(os.listdir("/proc/self/fd"))


def fleet(python: str, number: int, most: int, at_once: int, turns: int) -> dict[str, Any]:
    """What `number` contexts cost this process, each. `most`: behind one hub; 0 opens all directly.

    cpu_ms of opening with a first call, kb, descriptors, close_ms; call_s: seconds of the clock for a call of all, each turn;
    call_ms: CPU for that, each; hub_ms: CPU of a hub for opening one; hubs.
    """
    from roamlet import remote

    def opened(host: str, **more: Any) -> "remote.Context":
        return remote.local(python, timeout=120, **({"name": host} | more))

    def group(host: str) -> int:
        return int(host) // (most + 1)

    def hosts(count: int) -> list[str]:
        return [str(one) for one in range(count)]

    hubs = remote.Hubs(group, beyond=0, most=most) if most else None
    with remote.open_all(hosts(WARM), open=opened, hubs=hubs) as warm:
        for context in warm.contexts:
            context.call(shipped.number, (1,))
    memory, descriptors = held()
    began = time.process_time()
    fleet = remote.open_all(hosts(number), open=opened, hubs=hubs, at_once=at_once)
    try:
        if fleet.failed:
            raise RuntimeError(f"{len(fleet.failed)} were not opened, the first because: {fleet.failed[0].error}")
        contexts = fleet.contexts
        for call in [context.spawn(shipped.number, (1,)) for context in contexts]:
            call.join()
        cpu = time.process_time() - began
        used, more = held()
        above = [context for context in contexts if context.via is None]
        clock, computing = [], []
        for _ in range(turns):
            computing.append(time.process_time())
            clock.append(time.perf_counter())
            for call in [context.spawn(shipped.number, (1,)) for context in contexts]:
                call.join()
            clock[-1] = time.perf_counter() - clock[-1]
            computing[-1] = time.process_time() - computing[-1]
        hub_cpu = sum(context.call(shipped.cpu) for context in above) if most else 0.0
        began = time.process_time()
    finally:
        fleet.close()
    closing = time.process_time() - began
    behind = number - len(above)
    return {
        "number": number,
        "hubs": len(above) if most else 0,
        "cpu_ms": cpu * 1e3 / number,
        "kb": (used - memory) / 1e3 / number,
        "descriptors": (more - descriptors) / number,
        "close_ms": closing * 1e3 / number,
        "call_s": clock,
        "call_ms": min(computing) * 1e3 / number,
        "hub_ms": hub_cpu * 1e3 / behind if behind else 0.0,
    }


if __name__ == "__main__":
    serve({"fleet": fleet})
