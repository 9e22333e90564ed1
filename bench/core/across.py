"""A value to a receiver that waits in another thread, and one back: what waking the other thread's scheduler costs.

Here the CPU time is that of the whole process, of both threads and of the kernel's wake-ups. Both threads run on one core: on
two, the kernel's wake-ups take several times as long whenever it puts the threads apart, on every side.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import process_time


@contextmanager
def _one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # of this thread, and of those that it starts
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@_one_core()
def roamlet(operations: int) -> float:
    from roamlet import channel

    there: channel[int] = channel()
    back: channel[int] = channel()

    def other() -> None:
        for value in there:
            back.send(value)

    thread = Thread(target=other)
    thread.start()
    there.send(0)
    back.receive()
    began = process_time()
    for i in range(operations):
        there.send(i)
        back.receive()
    spent = process_time() - began
    there.close()
    thread.join()
    return spent


@_one_core()
def threading(operations: int) -> float:
    """Two threads that block, and queue.SimpleQueue, which is written in C."""
    from queue import SimpleQueue

    there: SimpleQueue[int] = SimpleQueue()
    back: SimpleQueue[int] = SimpleQueue()

    def other() -> None:
        while (value := there.get()) >= 0:
            back.put(value)

    thread = Thread(target=other)
    thread.start()
    there.put(0)
    back.get()
    began = process_time()
    for i in range(operations):
        there.put(i)
        back.get()
    spent = process_time() - began
    there.put(-1)
    thread.join()
    return spent


@_one_core()
def asyncio(operations: int) -> float:
    """A loop in each thread; run_coroutine_threadsafe() is asyncio's way from one to the other and back."""
    from asyncio import new_event_loop, run, run_coroutine_threadsafe, wrap_future

    other = new_event_loop()
    thread = Thread(target=other.run_forever)
    thread.start()

    async def same(value: int) -> int:
        return value

    async def main() -> float:
        began = process_time()
        for i in range(operations):
            await wrap_future(run_coroutine_threadsafe(same(i), other))
        return process_time() - began

    spent = run(main())
    other.call_soon_threadsafe(other.stop)
    thread.join()
    other.close()
    return spent


STEP = 1
PEERS = {"roamlet": roamlet, "asyncio": asyncio, "threading": threading}
