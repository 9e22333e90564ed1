"""A loop over what arrives: `for value in channel`, unbuffered, until the writer closes it; two switches a value."""

from time import thread_time


def roamlet(operations: int) -> float:
    from roamlet import channel, run, tasklet

    pipe: channel[int] = channel()

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
    """gevent's Channel is an iterator, which ends at StopIteration."""
    from gevent import spawn
    from gevent.queue import Channel

    pipe = Channel()

    def reader() -> None:
        for _ in pipe:
            pass

    def writer() -> None:
        put = pipe.put
        for i in range(operations):
            put(i)
        put(StopIteration)

    both = [spawn(reader), spawn(writer)]
    began = thread_time()
    for one in both:
        one.join()
    return thread_time() - began


STEP = 1
PEERS = {"roamlet": roamlet, "gevent": gevent}
