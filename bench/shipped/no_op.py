"""What is called on the target when only the call itself is to be measured, and the figures of the target's process."""

import os
import time
from typing import Any


def no_op() -> None:
    pass


def usage() -> dict[str, Any]:
    """CPU seconds of this process since its start, the whole bootstrap included, and its resident bytes."""
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {"cpu_s": time.process_time(), "resident": resident}


def keep_to(core: int, process: object = "self") -> None:
    """Let all threads of a process that there are run on one core, the `core`th of those that this one may use."""
    cores = sorted(os.sched_getaffinity(0))
    for thread in os.listdir(f"/proc/{process}/task"):
        os.sched_setaffinity(int(thread), {cores[core % len(cores)]})
