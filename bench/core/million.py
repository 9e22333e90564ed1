"""A million members blocked at once: what they take, and how long it takes to make them and to let them end.

Run as `python -m bench.core.million PEER COUNT`, once per peer. Prints seconds of CPU and resident bytes as JSON.
"""

import gc
import json
import os
import sys
from time import process_time

from .blocked import resident


def roamlet(count: int) -> dict[str, float]:
    from roamlet import channel, run, tasklet

    pipe: channel[None] = channel()

    def member() -> None:
        pipe.receive()

    before, began = resident(), process_time()
    for _ in range(count):
        tasklet(member)()
    run()
    taken = resident() - before
    for _ in range(count):
        pipe.send(None)
    run()
    return {"seconds": process_time() - began, "bytes": taken}


def asyncio(count: int) -> dict[str, float]:
    from asyncio import Queue, create_task, new_event_loop, sleep

    async def main() -> dict[str, float]:
        queue: Queue[None] = Queue()

        async def member() -> None:
            await queue.get()

        before, began = resident(), process_time()
        members = [create_task(member()) for _ in range(count)]
        await sleep(0)
        taken = resident() - before
        for _ in range(count):
            queue.put_nowait(None)
        await members[-1]
        return {"seconds": process_time() - began, "bytes": taken}

    return new_event_loop().run_until_complete(main())


PEERS = {"roamlet": roamlet, "asyncio": asyncio}


def main(peer: str, count: str) -> None:
    gc.disable()
    PEERS[peer](100)  # what the library itself takes on first use is not the members'
    print(json.dumps(PEERS[peer](int(count))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
