"""One value through a buffer of 1,024 between a writer and a reader: most values pass without a switch.

Where the buffer is full the writer waits, where it is empty the reader does; so each of the two runs for a thousand values
at a time. queue.SimpleQueue has no size: one thread puts 1,024 values into it and takes them out again, which is the least
that a call for each costs.
"""

from time import thread_time

SIZE = 1024


def roamlet(operations: int) -> float:
    """The reader is a loop over the channel, until that is closed."""
    from roamlet import channel, run, tasklet

    pipe: channel[int] = channel(SIZE)

    def reader() -> None:
        for _ in pipe:
            pass

    def writer() -> None:
        send = pipe.send
        for i in range(operations):
            send(i)
        pipe.close()

    tasklet(reader)()
    tasklet(writer)()
    began = thread_time()
    run()
    return thread_time() - began


def gevent(operations: int) -> float:
    """gevent's fastest queue with a size."""
    from gevent import spawn
    from gevent.queue import SimpleQueue

    buffer = SimpleQueue(SIZE)

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
        buffer: Queue[int] = Queue(SIZE)

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


def threading(operations: int) -> float:
    """queue.SimpleQueue, by one thread."""
    from queue import SimpleQueue

    buffer: SimpleQueue[int] = SimpleQueue()
    put, get = buffer.put, buffer.get
    began = thread_time()
    for done in range(0, operations, SIZE):
        count = min(SIZE, operations - done)
        for i in range(count):
            put(i)
        for _ in range(count):
            get()
    return thread_time() - began


STEP = 1
PEERS = {"roamlet": roamlet, "gevent": gevent, "asyncio": asyncio, "threading": threading}
