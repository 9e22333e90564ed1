"""The unit that all times are divided by: one generator.send, the cheapest resumption that CPython itself has."""

from collections.abc import Iterator
from time import thread_time


def generator_send(operations: int) -> float:
    def sink() -> Iterator[None]:
        while True:
            yield

    generator = sink()
    next(generator)
    send = generator.send  # type: ignore[attr-defined]
    began = thread_time()
    for _ in range(operations):
        send(None)
    return thread_time() - began
