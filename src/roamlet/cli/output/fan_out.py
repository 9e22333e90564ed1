"""One tasklet per target, results as they come. Knows nothing of contexts, hosts or output."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

import roamlet

Target = TypeVar("Target")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Outcome(Generic[Target, Result]):
    """The result of one target: `value` if `error` is None."""

    target: Target
    seconds: float
    value: Result | None = None
    error: Exception | None = None


def fan_out(
    targets: Sequence[Target],
    work: Callable[[Target], Result],
    clock: Callable[[], float] = monotonic,
    at_once: int | None = None,
) -> Iterator[Outcome[Target, Result]]:
    """Run work(target) for every target at once, each in a tasklet; yield an Outcome for each in the order they end.

    `at_once`: the most that run at a time, started in the order of the targets; None is all. Each one's time counts
    from its own start. Blocks this tasklet between results. An exception of `work` becomes an Outcome; a BaseException
    that is not an Exception (a keyboard interrupt) is raised in the caller. When the caller stops early, the tasklets
    that still run are killed, so that what they hold is given back before this returns.
    """
    done: roamlet.channel[Outcome[Target, Result]] = roamlet.channel()
    done.preference = 0  # neither side runs ahead: a result waits in its tasklet until it is asked for

    def attend(target: Target) -> None:
        started = clock()
        try:
            value = work(target)
        except Exception as error:
            # Sent from here and kept in no local: the error's traceback holds this frame.
            done.send(Outcome(target, clock() - started, error=error))
        else:
            done.send(Outcome(target, clock() - started, value=value))

    waiting = iter(targets)

    def attend_some() -> None:
        for target in waiting:
            attend(target)

    if at_once is None or at_once >= len(targets):
        at_once = len(targets)
    running = [roamlet.tasklet(attend_some)() for _ in range(at_once)]
    try:
        for _ in targets:
            yield done.receive()
    finally:
        for tasklet in running:
            if tasklet.alive:
                tasklet.kill()
