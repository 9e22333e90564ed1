"""roamlet.threads: the classes of roamlet.sync under the names of threading and queue, for programs that have threads.

`python -m roamlet.threads SCRIPT` puts them into threading and queue, and then runs an unchanged program; `install()` does so
from within.
"""

from roamlet.sync import (
    TIMEOUT_MAX,
    Barrier,
    BoundedSemaphore,
    BrokenBarrierError,
    Condition,
    Empty,
    Event,
    Full,
    LifoQueue,
    Lock,
    PriorityQueue,
    Queue,
    RLock,
    Semaphore,
    ShutDown,
    SimpleQueue,
)
from roamlet.threads._install import install, uninstall

__all__ = [
    "TIMEOUT_MAX",
    "Barrier",
    "BoundedSemaphore",
    "BrokenBarrierError",
    "Condition",
    "Empty",
    "Event",
    "Full",
    "LifoQueue",
    "Lock",
    "PriorityQueue",
    "Queue",
    "RLock",
    "Semaphore",
    "ShutDown",
    "SimpleQueue",
    "install",
    "uninstall",
]
