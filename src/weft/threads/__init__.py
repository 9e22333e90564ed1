"""weft.threads: the classes of weft.sync under the names of threading and queue, for programs that have threads.

`python -m weft.threads SCRIPT` puts them into threading and queue, and then runs an unchanged program; `install()` does so
from within.
"""

from weft.sync import (
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
from weft.threads._install import install, uninstall

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
