"""Create, run and finish, in batches of 1000: the batch exists before its first member runs."""

from collections.abc import Iterator
from time import thread_time

BATCH = 1000


def nothing() -> None:
    pass


def roamlet(operations: int) -> float:
    from roamlet import run, tasklet

    began = thread_time()
    for _ in range(operations // BATCH):
        for _ in range(BATCH):
            tasklet(nothing)()
        run()
    return thread_time() - began


def raw_greenlet(operations: int) -> float:
    from greenlet import greenlet

    began = thread_time()
    for _ in range(operations // BATCH):
        batch = [greenlet(nothing) for _ in range(BATCH)]
        for member in batch:
            member.switch()
    return thread_time() - began


def gevent(operations: int) -> float:
    from gevent import spawn

    began = thread_time()
    for _ in range(operations // BATCH):
        for _ in range(BATCH):
            last = spawn(nothing)
        last.join()  # first in, first out: the last one ends last. Cheaper for gevent than joinall.
    return thread_time() - began


def asyncio(operations: int) -> float:
    from asyncio import create_task, run

    async def coroutine() -> None:
        pass

    async def main() -> float:
        began = thread_time()
        for _ in range(operations // BATCH):
            for _ in range(BATCH):
                last = create_task(coroutine())
            await last
        return thread_time() - began

    return run(main())


def generators(operations: int) -> float:
    def empty() -> Iterator[None]:
        return
        yield

    began = thread_time()
    for _ in range(operations // BATCH):
        batch = [empty() for _ in range(BATCH)]
        for member in batch:
            next(member, None)
    return thread_time() - began


STEP = BATCH
PEERS = {"roamlet": roamlet, "greenlet": raw_greenlet, "gevent": gevent, "asyncio": asyncio, "generators": generators}
