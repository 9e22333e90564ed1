"""A scope with one child: entered, the child made, run and waited for, left."""

from time import thread_time


def nothing() -> None:
    pass


def roamlet(operations: int) -> float:
    from roamlet import scope

    began = thread_time()
    for _ in range(operations):
        with scope() as children:
            children.spawn(nothing)
    return thread_time() - began


def gevent(operations: int) -> float:
    """gevent has no scopes: a Pool that is joined is the nearest to one."""
    from gevent.pool import Group

    began = thread_time()
    for _ in range(operations):
        children = Group()
        children.spawn(nothing)
        children.join()
    return thread_time() - began


def asyncio(operations: int) -> float:
    from asyncio import TaskGroup, run

    async def coroutine() -> None:
        pass

    async def main() -> float:
        began = thread_time()
        for _ in range(operations):
            async with TaskGroup() as children:
                children.create_task(coroutine())
        return thread_time() - began

    return run(main())


STEP = 1
PEERS = {"roamlet": roamlet, "gevent": gevent, "asyncio": asyncio}
