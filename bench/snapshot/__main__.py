"""Take the figures: CPU time of this thread, the best of several turns. No peer does this on a stock CPython; pickling the same
variables as plain tuples stands beside it, as the floor."""

import pickle
from collections.abc import Callable
from time import thread_time

import weft
from bench.snapshot.chain import outermost
from weft import snapshot

TURNS = 20
OURS = 3  # frames of the chain that are not levels of the recursion


def best(work: Callable[[], object], times: int) -> float:
    """Microseconds a call."""
    least = float("inf")
    for _ in range(TURNS):
        began = thread_time()
        for _ in range(times):
            work()
        least = min(least, thread_time() - began)
    return least / times * 1e6


def restoring(data: bytes, times: int) -> float:
    """Microseconds a call of loads(); what it made is ended outside of the time."""
    least = float("inf")
    for _ in range(TURNS):
        began = thread_time()
        copies = [snapshot.loads(data) for _ in range(times)]
        least = min(least, thread_time() - began)
        for copy in copies:
            copy.kill()
    return least / times * 1e6


def main() -> None:
    print(f"{'frames':>6} {'bytes':>6} {'save':>10} {'restore':>10} {'pickle of the variables':>25}")
    for frames, times in ((4, 300), (500, 10)):
        ch: weft.channel[int] = weft.channel()
        tasklet = weft.tasklet(outermost)(ch, frames - OURS)
        weft.schedule()
        data = snapshot.dumps(tasklet)
        plain = [(number, None) for number in range(frames)]
        floor = best(lambda plain=plain: pickle.loads(pickle.dumps(plain)), times)  # type: ignore[misc]
        saving = best(lambda tasklet=tasklet: snapshot.dumps(tasklet), times)  # type: ignore[misc]
        print(f"{frames:>6} {len(data):>6} {saving:>7.1f} us {restoring(data, times):>7.1f} us {floor:>22.1f} us")
        tasklet.kill()


if __name__ == "__main__":
    main()
