"""One message: a send and the receive that meets it, unbuffered, so two switches each."""

from collections.abc import Iterator
from time import thread_time


def roamlet(operations: int) -> float:
    from roamlet import channel, run, tasklet

    pipe: channel[int] = channel()

    def reader() -> None:
        receive = pipe.receive
        for _ in range(operations):
            receive()

    def writer() -> None:
        send = pipe.send
        for i in range(operations):
            send(i)

    tasklet(reader)()
    tasklet(writer)()
    began = thread_time()
    run()
    return thread_time() - began


def raw_greenlet(operations: int) -> float:
    """Hand a value over and come back: no channel and no scheduler, so a floor for everything built on greenlet."""
    from greenlet import getcurrent, greenlet

    back = getcurrent().switch

    def reader(_first: int) -> None:
        for _ in range(operations):
            back()

    send = greenlet(reader).switch
    began = thread_time()
    for i in range(operations):
        send(i)
    spent = thread_time() - began
    send(0)
    return spent


def gevent(operations: int) -> float:
    """gevent's own unbuffered channel. Its Queue(1) was measured too and is slower."""
    from gevent import spawn
    from gevent.queue import Channel

    pipe = Channel()

    def reader() -> None:
        get = pipe.get
        for _ in range(operations):
            get()

    def writer() -> None:
        put = pipe.put
        for i in range(operations):
            put(i)

    both = [spawn(reader), spawn(writer)]
    began = thread_time()
    for one in both:
        one.join()
    return thread_time() - began


def asyncio(operations: int) -> float:
    """asyncio has no unbuffered channel: Queue(1) is the nearest thing to one."""
    from asyncio import Queue, create_task, run

    async def main() -> float:
        pipe: Queue[int] = Queue(1)

        async def reader() -> None:
            for _ in range(operations):
                await pipe.get()

        async def writer() -> None:
            for i in range(operations):
                await pipe.put(i)

        both = [create_task(reader()), create_task(writer())]
        began = thread_time()
        for one in both:
            await one
        return thread_time() - began

    return run(main())


def generators(operations: int) -> float:
    """A value handed into a generator: a floor that cannot block below the generator's own frame."""

    def reader() -> Iterator[None]:
        while True:
            yield

    generator = reader()
    next(generator)
    send = generator.send  # type: ignore[attr-defined]
    began = thread_time()
    for i in range(operations):
        send(i)
    return thread_time() - began


STEP = 1
PEERS = {"roamlet": roamlet, "greenlet": raw_greenlet, "gevent": gevent, "asyncio": asyncio, "generators": generators}
