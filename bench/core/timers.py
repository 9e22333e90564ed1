"""A time limit that is not reached: a timer started and cancelled, while 10,000 tasklets sleep, whose timers are an hour away."""

from time import thread_time

OTHERS = 10_000
HOUR = 3600


def roamlet(operations: int) -> float:
    from roamlet import schedule, sleep, tasklet, timeout

    others = [tasklet(sleep)(HOUR) for _ in range(OTHERS)]
    schedule()
    began = thread_time()
    for _ in range(operations):
        with timeout(10):
            pass
    spent = thread_time() - began
    for other in others:
        other.kill()
    return spent


def gevent(operations: int) -> float:
    from gevent import Timeout, killall, sleep, spawn

    others = [spawn(sleep, HOUR) for _ in range(OTHERS)]
    sleep(0)
    began = thread_time()
    for _ in range(operations):
        with Timeout(10):
            pass
    spent = thread_time() - began
    killall(others)
    return spent


def asyncio(operations: int) -> float:
    """loop.call_later() and cancel(), which is less than a limit: asyncio.timeout() takes more than twice as long."""
    from asyncio import get_running_loop, run

    async def main() -> float:
        call_later = get_running_loop().call_later
        others = [call_later(HOUR, print) for _ in range(OTHERS)]
        began = thread_time()
        for _ in range(operations):
            call_later(10, print).cancel()
        spent = thread_time() - began
        for other in others:
            other.cancel()
        return spent

    return run(main())


STEP = 100
PEERS = {"roamlet": roamlet, "gevent": gevent, "asyncio": asyncio}
