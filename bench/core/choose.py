"""select over eight channels, one of which gets a value: register with all, wait, and be removed from the others."""

from time import thread_time

CHANNELS = 8


def roamlet(operations: int) -> float:
    from roamlet import channel, run, select, tasklet

    pipes: list[channel[int]] = [channel() for _ in range(CHANNELS)]

    def reader() -> None:
        for _ in range(operations):
            select(*pipes)

    def writer() -> None:
        sends = [pipe.send for pipe in pipes]
        for i in range(operations):
            sends[i % CHANNELS](i)

    tasklet(reader)()
    tasklet(writer)()
    began = thread_time()
    run()
    return thread_time() - began


def gevent(operations: int) -> float:
    """gevent has no select over queues: wait() over as many Events, of which one is set, is the nearest to it."""
    from gevent import sleep, spawn, wait
    from gevent.event import Event

    events = [Event() for _ in range(CHANNELS)]

    def reader() -> None:
        for _ in range(operations):
            for event in wait(events, count=1):
                event.clear()

    def writer() -> None:
        for i in range(operations):
            events[i % CHANNELS].set()
            while events[i % CHANNELS].is_set():
                sleep(0)

    both = [spawn(reader), spawn(writer)]
    began = thread_time()
    for one in both:
        one.join()
    return thread_time() - began


def asyncio(operations: int) -> float:
    """wait(FIRST_COMPLETED) over a task for each queue; those that have not completed are waited for again."""
    from asyncio import FIRST_COMPLETED, Queue, Task, create_task, run, wait

    async def main() -> float:
        pipes: list[Queue[int]] = [Queue(1) for _ in range(CHANNELS)]

        async def reader() -> None:
            gets: dict[Task[int], Queue[int]] = {create_task(pipe.get()): pipe for pipe in pipes}
            left = operations
            while left:
                done, _ = await wait(gets, return_when=FIRST_COMPLETED)
                for get in done:
                    left -= 1
                    pipe = gets.pop(get)
                    gets[create_task(pipe.get())] = pipe
            for get in gets:
                get.cancel()

        async def writer() -> None:
            for i in range(operations):
                await pipes[i % CHANNELS].put(i)

        both = [create_task(reader()), create_task(writer())]
        began = thread_time()
        for one in both:
            await one
        return thread_time() - began

    return run(main())


STEP = 1
PEERS = {"roamlet": roamlet, "gevent": gevent, "asyncio": asyncio}
