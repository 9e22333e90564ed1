"""A token round a ring of 1000, each member with a channel of its own: one receive and one send per hop."""

from functools import partial
from time import thread_time

MEMBERS = 1000


def roamlet(operations: int) -> float:
    from roamlet import channel, tasklet

    turns = operations // MEMBERS
    links: list[channel[int]] = [channel() for _ in range(MEMBERS + 1)]

    def member(left: "channel[int]", right: "channel[int]") -> None:
        receive, send = left.receive, right.send
        for _ in range(turns):
            send(receive())

    for number in range(MEMBERS):
        tasklet(member)(links[number], links[number + 1])
    first, last = links[0], links[-1]
    began = thread_time()
    token = 0
    for _ in range(turns):
        first.send(token)
        token = last.receive()
    return thread_time() - began


def raw_greenlet(operations: int) -> float:
    """The token goes by switch() from neighbour to neighbour: no channel and no scheduler."""
    from greenlet import getcurrent, greenlet

    turns = operations // MEMBERS
    back = getcurrent().switch
    members: list[greenlet] = []

    def member(number: int) -> None:
        following = members[number + 1].switch if number + 1 < MEMBERS else back
        token = back()
        for _ in range(turns):
            token = following(token)

    members.extend(greenlet(partial(member, number)) for number in range(MEMBERS))
    for one in members:  # from here, not from a neighbour, whose recursion depth it would inherit
        one.switch()
    following = members[0].switch
    began = thread_time()
    token = 0
    for _ in range(turns):
        token = following(token)
    spent = thread_time() - began
    for one in members:
        one.switch(token)
    return spent


def gevent(operations: int) -> float:
    from gevent import spawn
    from gevent.queue import Channel

    turns = operations // MEMBERS
    links = [Channel() for _ in range(MEMBERS + 1)]

    def member(left: Channel, right: Channel) -> None:
        get, put = left.get, right.put
        for _ in range(turns):
            put(get())

    members = [spawn(member, links[number], links[number + 1]) for number in range(MEMBERS)]
    first, last = links[0], links[-1]
    began = thread_time()
    token = 0
    for _ in range(turns):
        first.put(token)
        token = last.get()
    spent = thread_time() - began
    members[-1].join()
    return spent


def asyncio(operations: int) -> float:
    from asyncio import Queue, create_task, run

    turns = operations // MEMBERS

    async def member(left: "Queue[int]", right: "Queue[int]") -> None:
        for _ in range(turns):
            await right.put(await left.get())

    async def main() -> float:
        links: list[Queue[int]] = [Queue(1) for _ in range(MEMBERS + 1)]
        members = [create_task(member(links[number], links[number + 1])) for number in range(MEMBERS)]
        first, last = links[0], links[-1]
        began = thread_time()
        token = 0
        for _ in range(turns):
            await first.put(token)
            token = await last.get()
        spent = thread_time() - began
        for one in members:
            await one
        return spent

    return run(main())


STEP = MEMBERS
PEERS = {"roamlet": roamlet, "greenlet": raw_greenlet, "gevent": gevent, "asyncio": asyncio}
