"""An uncontended `with` block of what keeps two threads apart: weft.atomic() beside threading.RLock."""

from time import thread_time


def weft(operations: int) -> float:
    import weft

    weft.getcurrent()
    began = thread_time()
    for _ in range(operations):
        with weft.atomic():
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
PEERS = {"weft": weft, "threading": threading}
