"""The process that measures one side: `python -m bench.aio.worker asyncio|roamlet`, asked through bench.workers.

An echo: clients in a process of their own, as many connections as are asked for, each with one message of 100 bytes under
way; this process serves them by asyncio's streams. aiohttp and asyncpg are clients here. What is measured is the CPU time of this
process.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from roamlet import aio, schedule, spawn

from ..workers import serve

SIZE = 100
known: dict[str, Any] = {}  # of the servers: "plain", the port of the one for HTTP, and the folder of "postgresql"
Runner = Callable[[Coroutine[Any, Any, float]], float]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(4096):
        writer.write(data)
        await writer.drain()
    writer.close()


async def echo(count: int, connections: int) -> float:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    numbers = map(str, (port, connections, count // connections))
    client = await asyncio.create_subprocess_exec(sys.executable, "-S", "-m", "bench.aio.client", *numbers, stdout=-1)
    assert client.stdout is not None
    await client.stdout.readline()  # it is connected
    begun = time.process_time()
    assert await client.wait() == 0
    taken = time.process_time() - begun
    server.close()
    await server.wait_closed()
    return taken


async def nothing() -> None:
    pass


async def each(count: int, at_once: int, one: Callable[[], Awaitable[None]]) -> float:
    async def share() -> None:
        for _ in range(count // at_once):
            await one()

    begun = time.process_time()
    await asyncio.gather(*(share() for _ in range(at_once)))
    return time.process_time() - begun


async def requests(count: int, at_once: int) -> float:
    """A request by aiohttp, over connections that are kept."""
    import aiohttp  # of these figures alone

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=at_once)) as session:

        async def one() -> None:
            async with session.get(f"http://127.0.0.1:{known['plain']}/0") as response:
                assert await response.json() is not None

        return await each(count, at_once, one)


async def queries(count: int, at_once: int) -> float:
    """A query by asyncpg, each on a connection of a pool."""
    import asyncpg  # of this figure alone

    async with asyncpg.create_pool(
        host=known["postgresql"], user="postgres", min_size=at_once, max_size=at_once
    ) as pool:

        async def one() -> None:
            assert await pool.fetchval("SELECT 1") == 1

        return await each(count, at_once, one)


async def tasks(count: int, at_once: int) -> float:
    """A task made and awaited."""
    loop = asyncio.get_running_loop()
    return await each(count, at_once, lambda: loop.create_task(nothing()))


async def wraps(count: int, at_once: int) -> float:
    """A function that switches, called in a tasklet and awaited."""
    return await each(count, at_once, lambda: aio.wrap(switching))


def switching() -> None:
    schedule()


def awaits(count: int, at_once: int) -> float:
    """A coroutine awaited by a tasklet."""

    def share() -> None:
        for _ in range(count // at_once):
            aio.await_(nothing())

    begun = time.process_time()
    for sharing in [spawn(share) for _ in range(at_once)]:
        sharing.join()
    return time.process_time() - begun


def main(side: str) -> None:
    run: Runner = asyncio.run if side == "asyncio" else aio.run

    def cpu(kind: str, count: int, at_once: int) -> float:
        """Seconds of this process's CPU time for `count` of them, `at_once` under way at any time."""
        if kind == "await_":
            return awaits(count, at_once)
        ways = {"echo": echo, "aiohttp": requests, "asyncpg": queries, "task": tasks, "wrap": wraps}
        return run(ways[kind](count, at_once))

    serve({"cpu": cpu, "servers": known.update})


if __name__ == "__main__":
    main(*sys.argv[1:])
