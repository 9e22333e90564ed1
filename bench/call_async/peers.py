"""One function per peer, `peer(count, at_once) -> wall seconds` for `count` calls of a function that does nothing.

A peer's library is imported inside its function: a process that measures one peer must not carry the others. Each peer has
the pool that it brings, with its own default size.
"""

from time import perf_counter


def no_op() -> None:
    """The call that is made: nothing is measured but the way there and back."""


def roamlet(count: int, at_once: int) -> float:
    import roamlet

    def caller() -> None:
        for _ in range(count // at_once):
            roamlet.call_async(no_op)

    began = perf_counter()
    for _ in range(at_once):
        roamlet.tasklet(caller)()
    roamlet.run()
    return perf_counter() - began


def asyncio(count: int, at_once: int) -> float:
    from asyncio import gather, run, to_thread

    async def caller() -> None:
        for _ in range(count // at_once):
            await to_thread(no_op)

    async def main() -> float:
        await to_thread(no_op)
        began = perf_counter()
        await gather(*[caller() for _ in range(at_once)])
        return perf_counter() - began

    return run(main())


def gevent(count: int, at_once: int) -> float:
    import gevent

    apply = gevent.get_hub().threadpool.apply

    def caller() -> None:
        for _ in range(count // at_once):
            apply(no_op)

    began = perf_counter()
    gevent.joinall([gevent.spawn(caller) for _ in range(at_once)])
    return perf_counter() - began


def futures(count: int, at_once: int) -> float:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as executor:
        executor.submit(no_op).result()
        began = perf_counter()
        for _ in range(count // at_once):
            for future in [executor.submit(no_op) for _ in range(at_once)]:
                future.result()
        return perf_counter() - began


PEERS = {"roamlet": roamlet, "asyncio": asyncio, "gevent": gevent, "futures": futures}
