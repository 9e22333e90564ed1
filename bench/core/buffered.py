"""One value through an unbounded buffer: not the same thing as a message, shown so that the message's ratio misleads no reader.

Here a writer fills a buffer and a reader empties it later, with no switch for most values. roamlet has no row: its channel is a
meeting, and a plain collections.deque is what one would use.
"""

from time import thread_time


def gevent(operations: int) -> float:
    from gevent import spawn
    from gevent.queue import SimpleQueue

    buffer = SimpleQueue()

    def reader() -> None:
        get = buffer.get
        for _ in range(operations):
            get()

    def writer() -> None:
        put = buffer.put
        for i in range(operations):
            put(i)

    both = [spawn(reader), spawn(writer)]
    began = thread_time()
    for one in both:
        one.join()
    return thread_time() - began


def asyncio(operations: int) -> float:
    from asyncio import Queue, create_task, run

    async def main() -> float:
        buffer: Queue[int] = Queue()

        async def reader() -> None:
            for _ in range(operations):
                await buffer.get()

        async def writer() -> None:
            for i in range(operations):
                await buffer.put(i)

        both = [create_task(reader()), create_task(writer())]
        began = thread_time()
        for one in both:
            await one
        return thread_time() - began

    return run(main())


STEP = 1
PEERS = {"gevent": gevent, "asyncio": asyncio}
