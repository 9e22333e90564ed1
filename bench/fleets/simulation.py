"""How long a fan-out over more hosts than this machine can start takes, and what it takes in the parent: from measured costs.

Pure. The parent opens contexts on one CPU, `at_once` at a time; each then takes `line` seconds to be ready, during which the parent
is free for others. A hub starts its contexts on one CPU of its own. Left out: the network, which carries some 20 kB a
host, and hosts that are slow or down.
"""

import heapq
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Costs:
    """Of one context in the parent: seconds of CPU for opening and for a call, bytes, descriptors; `hub_cpu`: in its hub."""

    direct_cpu: float
    behind_cpu: float
    hub_cpu: float
    call_cpu: float
    direct_call_cpu: float
    direct_bytes: float
    behind_bytes: float
    direct_descriptors: float
    line: float


def simulated(hosts: int, most: int, at_once: int, costs: Costs) -> dict[str, Any]:
    """Open `hosts` contexts, `most` behind one hub (0: no hubs), and call all of them once.

    Returns {"hosts", "hubs", "at_once", "open_s", "cpu_s", "call_s", "mb", "descriptors"}.
    """
    hubs = -(-hosts // (most + 1)) if most else 0
    ready = [0.0] * hubs  # when each hub can start the next context
    slots = [0.0] * min(at_once, hosts)  # when each of those that are under way is over
    parent = 0.0  # when the parent's CPU is free
    end = 0.0
    for number in range(hosts):
        hub = number % hubs if hubs and number >= hubs else None
        free = heapq.heappop(slots)
        parent = max(parent, free) + (costs.direct_cpu if hub is None else costs.behind_cpu)
        if hub is None:
            over = parent + costs.line
            if number < hubs:
                ready[number] = over
        else:
            ready[hub] = max(ready[hub], parent) + costs.hub_cpu
            over = ready[hub] + costs.line
        heapq.heappush(slots, over)
        end = max(end, over)
    behind = hosts - hubs if hubs else 0
    direct = hosts - behind
    return {
        "hosts": hosts,
        "hubs": hubs,
        "at_once": at_once,
        "open_s": end,
        "cpu_s": direct * costs.direct_cpu + behind * costs.behind_cpu,
        "call_s": direct * costs.direct_call_cpu + behind * costs.call_cpu,
        "mb": (direct * costs.direct_bytes + behind * costs.behind_bytes) / 1e6,
        "descriptors": direct * costs.direct_descriptors,
    }
