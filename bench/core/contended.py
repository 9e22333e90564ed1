"""A lock that two tasklets want: each holds it across a switch, so that the other always waits for it."""

from time import thread_time


def roamlet(operations: int, fair: bool = False) -> float:
    from roamlet import run, schedule, tasklet
    from roamlet.sync import Lock

    lock = Lock(fair=fair)

    def body() -> None:
        for _ in range(operations // 2):
            with lock:
                schedule()
            schedule()

    for _ in range(2):
        tasklet(body)()
    began = thread_time()
    run()
    return thread_time() - began


def roamlet_fair(operations: int) -> float:
    return roamlet(operations, fair=True)


def gevent(operations: int) -> float:
    """gevent has no lock but BoundedSemaphore(1), which is what its RLock stands on and what its threading patch gives."""
    from gevent import sleep, spawn
    from gevent.lock import BoundedSemaphore

    lock = BoundedSemaphore(1)

    def body() -> None:
        for _ in range(operations // 2):
            with lock:
                sleep(0)
            sleep(0)

    both = [spawn(body) for _ in range(2)]
    began = thread_time()
    for one in both:
        one.join()
    return thread_time() - began


def asyncio(operations: int) -> float:
    from asyncio import Lock, create_task, run, sleep

    async def main() -> float:
        lock = Lock()

        async def body() -> None:
            for _ in range(operations // 2):
                async with lock:
                    await sleep(0)
                await sleep(0)

        both = [create_task(body()) for _ in range(2)]
        began = thread_time()
        for one in both:
            await one
        return thread_time() - began

    return run(main())


STEP = 2
PEERS = {"roamlet": roamlet, "gevent": gevent, "asyncio": asyncio}
FAIR_PEERS = {"roamlet": roamlet_fair}
