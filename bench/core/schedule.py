"""Give way to the next one in line: schedule(), with a given number of tasklets taking turns."""

from collections.abc import Callable, Iterator
from functools import partial
from time import thread_time


def roamlet(count: int, operations: int) -> float:
    from roamlet import run, schedule, tasklet

    turns = operations // count

    def spin() -> None:
        for _ in range(turns):
            schedule()

    for _ in range(count):
        tasklet(spin)()
    began = thread_time()
    run()
    return thread_time() - began


def raw_greenlet(count: int, operations: int) -> float:
    """Each switches to the next by name: no scheduler, so a floor for everything built on greenlet.

    All are started from the main greenlet: one started by its neighbour would inherit the neighbour's recursion depth, and a
    chain of 1000 ends in RecursionError.
    """
    from greenlet import getcurrent, greenlet

    turns = operations // count
    back = getcurrent().switch
    members: list[greenlet] = []

    def spin(number: int) -> None:
        following = members[(number + 1) % count].switch
        back()
        for _ in range(turns):
            following()

    members.extend(greenlet(partial(spin, number)) for number in range(count))
    for member in members:
        member.switch()
    began = thread_time()
    for member in members:  # the first turns the whole ring; the others only have to leave their last switch
        member.switch()
    return thread_time() - began


def gevent(count: int, operations: int) -> float:
    from gevent import sleep, spawn

    turns = operations // count

    def spin() -> None:
        for _ in range(turns):
            sleep(0)

    members = [spawn(spin) for _ in range(count)]
    began = thread_time()
    for member in members:
        member.join()
    return thread_time() - began


def asyncio(count: int, operations: int) -> float:
    from asyncio import create_task, run, sleep

    turns = operations // count

    async def spin() -> None:
        for _ in range(turns):
            await sleep(0)

    async def main() -> float:
        members = [create_task(spin()) for _ in range(count)]
        began = thread_time()
        for member in members:
            await member
        return thread_time() - began

    return run(main())


def generators(count: int, operations: int) -> float:
    def spin() -> Iterator[None]:
        while True:
            yield

    members = [spin() for _ in range(count)]
    began = thread_time()
    for _ in range(operations // count):
        for member in members:
            next(member)
    return thread_time() - began


def peers(count: int) -> dict[str, Callable[[int], float]]:
    ways = {
        "roamlet": roamlet,
        "greenlet": raw_greenlet,
        "gevent": gevent,
        "asyncio": asyncio,
        "generators": generators,
    }
    return {name: partial(way, count) for name, way in ways.items()}
