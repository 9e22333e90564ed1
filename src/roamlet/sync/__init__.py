"""roamlet.sync: locks, conditions, semaphores, events, barriers and queues, with the names and rules of threading and queue.

One object serves tasklets of one thread, of several, and threads without tasklets, all at once: a call that has to wait
blocks its tasklet only, and a thread that has none waits as its main tasklet. A wake-up never carries a value: a tasklet that
is killed or runs out of time loses nothing, and passes its wake-up on.
"""

from queue import Empty, Full
from threading import TIMEOUT_MAX, BrokenBarrierError

from roamlet.core import local  # also chooses the backend whose functions _native uses
from roamlet.sync._barrier import Barrier
from roamlet.sync._critical import critical_section
from roamlet.sync._native import (
    BoundedSemaphore,
    Condition,
    Event,
    LifoQueue,
    Lock,
    PriorityQueue,
    Queue,
    RLock,
    Semaphore,
    ShutDown,
    SimpleQueue,
)

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
    "critical_section",
    "local",
]
