"""Running the tasklets of this thread as far as they go, in their own order or in one that a seed decides."""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import roamlet


def run_until_blocked(*, seed: int | None = None, switches: int = 1_000_000) -> None:
    """Run the other tasklets of this thread until each of them has ended or is blocked.

    Without `seed` they run in the scheduler's order. With one, the next tasklet is chosen at random each time the caller is back in
    turn: the same seed gives the same order, so a test that loops over seeds looks for orders that break something, and a failure
    can be repeated. Timers do not end by this, and no virtual clock moves, because the caller can always run.

    Switches tasklets; call it outside atomic code. Raises RuntimeError after `switches` turns, for tasklets that never block.
    """
    choice = None if seed is None else random.Random(seed)
    for _ in range(switches):
        if roamlet.getruncount() <= 1:
            return
        if choice is None:
            roamlet.schedule()
            continue
        choice.choice(list(_others())).run()  # the caller follows it in the queue, and chooses again
    if roamlet.getruncount() > 1:
        raise RuntimeError(f"after {switches:,} turns there are tasklets that run: {list(_others())!r:.300}")


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Let other tasklets, threads and processes run until `condition()` is true. It is called often, so it should be quick.

    Blocks this tasklet only. Raises TimeoutError after `seconds` of the machine's monotonic clock.
    """
    limit = time.monotonic() + seconds
    pause = 0.0
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError(f"{condition!r} has not become true within {seconds:g} seconds")
        if roamlet.getruncount() > 1:
            roamlet.schedule()
        else:
            roamlet.call_async(lambda: time.sleep(pause))  # noqa: B023 - it has ended before pause changes
            pause = min(pause + 0.0005, 0.01)


def _others() -> "Iterator[roamlet.tasklet[Any]]":
    me = roamlet.getcurrent()
    tasklet = me.next
    while tasklet is not None and tasklet is not me:
        yield tasklet
        tasklet = tasklet.next
