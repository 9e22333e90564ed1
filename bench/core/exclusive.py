"""An uncontended `with` block of what keeps two threads apart: roamlet.atomic() beside threading.RLock."""

from time import thread_time


def roamlet(operations: int) -> float:
    import roamlet

    roamlet.getcurrent()
    began = thread_time()
    for _ in range(operations):
        with roamlet.atomic():
            pass
    return thread_time() - began


def threading(operations: int) -> float:
    from threading import RLock

    lock = RLock()
    began = thread_time()
    for _ in range(operations):
        with lock:
            pass
    return thread_time() - began


STEP = 1
PEERS = {"roamlet": roamlet, "threading": threading}
