"""Create, run and finish, in batches of 1000: the batch exists before its first member runs. Without arguments, and with three."""

from collections.abc import Iterator
from time import thread_time

BATCH = 1000


def nothing() -> None:
    pass


def nothing_with(first: int, second: int, *, key: int) -> None:
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


def roamlet_with(operations: int) -> float:
    from roamlet import run, tasklet

    began = thread_time()
    for _ in range(operations // BATCH):
        for _ in range(BATCH):
            tasklet(nothing_with)(1, 2, key=3)
        run()
    return thread_time() - began


def raw_greenlet_with(operations: int) -> float:
    from greenlet import greenlet

    began = thread_time()
    for _ in range(operations // BATCH):
        batch = [greenlet(nothing_with) for _ in range(BATCH)]
        for member in batch:
            member.switch(1, 2, key=3)
    return thread_time() - began


def gevent_with(operations: int) -> float:
    from gevent import spawn

    began = thread_time()
    for _ in range(operations // BATCH):
        for _ in range(BATCH):
            last = spawn(nothing_with, 1, 2, key=3)
        last.join()
    return thread_time() - began


def asyncio_with(operations: int) -> float:
    from asyncio import create_task, run

    async def coroutine(first: int, second: int, *, key: int) -> None:
        pass

    async def main() -> float:
        began = thread_time()
        for _ in range(operations // BATCH):
            for _ in range(BATCH):
                last = create_task(coroutine(1, 2, key=3))
            await last
        return thread_time() - began

    return run(main())


STEP = BATCH
PEERS = {"roamlet": roamlet, "greenlet": raw_greenlet, "gevent": gevent, "asyncio": asyncio, "generators": generators}
PEERS_WITH = {"roamlet": roamlet_with, "greenlet": raw_greenlet_with, "gevent": gevent_with, "asyncio": asyncio_with}
