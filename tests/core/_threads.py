"""Running a piece of a test in a thread of its own, which starts without a scheduler and without a hub."""

import threading
from collections.abc import Callable
from typing import Any


def in_thread(function: Callable[..., Any], *args: Any, stack_size: int | None = None) -> Any:
    """Run `function` in a thread of its own and return what it returned, or raise what it raised."""
    results: list[tuple[Any, BaseException | None]] = []

    def target() -> None:
        try:
            results.append((function(*args), None))
        except BaseException as error:
            results.append((None, error))

    before = threading.stack_size(stack_size) if stack_size else None
    thread = threading.Thread(target=target)
    thread.start()
    if before is not None:
        threading.stack_size(before)
    thread.join()
    result, error = results.pop()
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback holds this frame
    return result
