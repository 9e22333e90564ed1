"""One tasklet per target, results as they come. Knows nothing of contexts, hosts or output."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

import weft

__all__ = ["Outcome", "fan_out"]

Target = TypeVar("Target")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Outcome(Generic[Target, Result]):
    """How it went with one target: `value` if `error` is None."""

    target: Target
    seconds: float
    value: Result | None = None
    error: Exception | None = None


def fan_out(
    targets: Sequence[Target], work: Callable[[Target], Result], clock: Callable[[], float] = monotonic
) -> Iterator[Outcome[Target, Result]]:
    """Run work(target) for every target at once, each in a tasklet; yield an Outcome for each in the order they end.

    Blocks this tasklet between results. An exception of `work` becomes an Outcome; what is no Exception (a keyboard
    interrupt) goes on to the caller. When the caller stops early, the tasklets that still run are killed, so that what
    they hold is given back before this returns.
    """
    done: weft.channel[Outcome[Target, Result]] = weft.channel()
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

    running = [weft.tasklet(attend)(target) for target in targets]
    try:
        for _ in targets:
            yield done.receive()
    finally:
        for tasklet in running:
            if tasklet.alive:
                tasklet.kill()
