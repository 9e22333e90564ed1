"""A hand-over by two semaphores: one tasklet gives the other its turn and waits for its own, there and back again."""

from time import thread_time

from ..threads.pairs import by_turns


def roamlet(operations: int) -> float:
    from roamlet import run, tasklet
    from roamlet.sync import Semaphore

    for body in by_turns(Semaphore(0), Semaphore(0), operations):
        tasklet(body)()
    began = thread_time()
    run()
    return thread_time() - began


def gevent(operations: int) -> float:
    from gevent import spawn
    from gevent.lock import Semaphore

    both = [spawn(body) for body in by_turns(Semaphore(0), Semaphore(0), operations)]
    began = thread_time()
    for one in both:
        one.join()
    return thread_time() - began


def asyncio(operations: int) -> float:
    from asyncio import Semaphore, create_task, run

    async def main() -> float:
        there, back = Semaphore(0), Semaphore(0)

        async def first() -> None:
            for _ in range(operations):
                there.release()
                await back.acquire()

        async def second() -> None:
            for _ in range(operations):
                await there.acquire()
                back.release()

        both = [create_task(first()), create_task(second())]
        began = thread_time()
        for one in both:
            await one
        return thread_time() - began

    return run(main())


STEP = 1
PEERS = {"roamlet": roamlet, "gevent": gevent, "asyncio": asyncio}
