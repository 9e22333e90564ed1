"""What two threads do to hand over to each other and back: for each class a function from its module to the two bodies."""

from collections.abc import Callable, Mapping
from typing import Any

Bodies = tuple[Callable[[], None], Callable[[], None]]


def by_turns(there: Any, back: Any, operations: int) -> Bodies:
    """release() gives the other its turn, acquire() waits for one's own."""

    def first() -> None:
        for _ in range(operations):
            there.release()
            back.acquire()

    def second() -> None:
        for _ in range(operations):
            there.acquire()
            back.release()

    return first, second


def lock(module: Any, operations: int) -> Bodies:
    there, back = module.Lock(), module.Lock()
    there.acquire()
    back.acquire()
    return by_turns(there, back, operations)


def semaphore(module: Any, operations: int) -> Bodies:
    return by_turns(module.Semaphore(0), module.Semaphore(0), operations)


def event(module: Any, operations: int) -> Bodies:
    there, back = module.Event(), module.Event()

    def first() -> None:
        for _ in range(operations):
            there.set()
            back.wait()
            back.clear()

    def second() -> None:
        for _ in range(operations):
            there.wait()
            there.clear()
            back.set()

    return first, second


def condition(module: Any, operations: int) -> Bodies:
    changed, full = module.Condition(), [False]

    def fills() -> None:
        for _ in range(operations):
            with changed:
                while full[0]:
                    changed.wait()
                full[0] = True
                changed.notify()

    def empties() -> None:
        for _ in range(operations):
            with changed:
                while not full[0]:
                    changed.wait()
                full[0] = False
                changed.notify()

    return fills, empties


def by_items(there: Any, back: Any, operations: int) -> Bodies:
    def first() -> None:
        for _ in range(operations):
            there.put(1)
            back.get()

    def second() -> None:
        for _ in range(operations):
            there.get()
            back.put(1)

    return first, second


def queue(module: Any, operations: int) -> Bodies:
    return by_items(module.Queue(), module.Queue(), operations)


def simple_queue(module: Any, operations: int) -> Bodies:
    return by_items(module.SimpleQueue(), module.SimpleQueue(), operations)


PAIRS: Mapping[str, Callable[[Any, int], Bodies]] = {
    "Condition": condition,
    "Semaphore": semaphore,
    "Event": event,
    "Queue": queue,
    "Lock": lock,
    "SimpleQueue": simple_queue,
}
