"""Resident bytes of one blocked tasklet, with 1, 5, 10 and 20 Python frames on it.

Run as `python -m bench.core.blocked PEER COUNT DEPTH`, once per figure: memory that one figure freed would hide what the next one
takes. Prints the bytes and exits at once, without tearing anything down. The frames are those of a small function with two
arguments; functions with more locals cost their locals on top, everywhere alike. Page tables are not counted.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

DEPTHS = (1, 5, 10, 20)
KEPT: list[object] = []  # the blocked members that nothing else refers to


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def deep(frames: int, block: Callable[[], Any]) -> Any:
    if frames > 1:
        return deep(frames - 1, block)
    return block()


def roamlet(count: int, frames: int) -> float:
    from roamlet import channel, run, tasklet

    pipe: channel[int] = channel()
    receive = pipe.receive
    before = resident()
    for _ in range(count):
        tasklet(deep)(frames, receive)
    run()
    return (resident() - before) / count


def raw_greenlet(count: int, frames: int) -> float:
    from greenlet import getcurrent, greenlet

    back = getcurrent().switch
    before = resident()
    for _ in range(count):
        one = greenlet(deep)
        one.switch(frames, back)
        KEPT.append(one)
    return (resident() - before) / count


def gevent(count: int, frames: int) -> float:
    from gevent import sleep, spawn
    from gevent.queue import Channel

    get = Channel().get
    before = resident()
    for _ in range(count):
        spawn(deep, frames, get)
    sleep(0)
    return (resident() - before) / count


def asyncio(count: int, frames: int) -> float:
    from asyncio import Queue, create_task, new_event_loop, sleep

    async def deep_coroutine(frames: int, block: Callable[[], Any]) -> Any:
        if frames > 1:
            return await deep_coroutine(frames - 1, block)
        return await block()

    async def main() -> float:
        queue: Queue[None] = Queue()
        get = queue.get
        before = resident()
        KEPT.extend(create_task(deep_coroutine(frames, get)) for _ in range(count))
        await sleep(0)
        return (resident() - before) / count

    return new_event_loop().run_until_complete(main())  # asyncio.run would cancel them all at its end


def generators(count: int, frames: int) -> float:
    def deep_generator(frames: int) -> Iterator[None]:
        if frames > 1:
            yield from deep_generator(frames - 1)
        else:
            yield

    before = resident()
    for _ in range(count):
        one = deep_generator(frames)
        next(one)
        KEPT.append(one)
    return (resident() - before) / count


PEERS = {"roamlet": roamlet, "greenlet": raw_greenlet, "gevent": gevent, "asyncio": asyncio, "generators": generators}


def main(peer: str, count: str, frames: str) -> None:
    gc.disable()
    PEERS[peer](100, int(frames))  # what the library itself takes on first use is not the tasklet's
    print(PEERS[peer](int(count), int(frames)), flush=True)
    os._exit(0)  # 100,000 blocked members would only be torn down


if __name__ == "__main__":
    main(*sys.argv[1:])
