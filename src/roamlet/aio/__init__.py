"""asyncio joined: event loops that block their tasklet only, and the way from tasklets to coroutines and back.

Any number of tasklets of a thread may each run an event loop (`run`); a tasklet waits for coroutines on the loop that its
thread has for that (`await_`); a coroutine waits for what blocks a tasklet (`wrap`), channels among that; a loop that blocks its
whole thread gets a thread of its own (`portal`).
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from roamlet.aio._loop import Loop
from roamlet.aio._portal import Portal, portal
from roamlet.aio._seen import publish
from roamlet.aio._service import await_, finish, loop, shutdown
from roamlet.aio._wrap import iterate, receive, send, wrap

T = TypeVar("T")

__all__ = ["Loop", "Portal", "await_", "iterate", "loop", "portal", "receive", "run", "send", "shutdown", "wrap"]

publish()


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """asyncio.run() that blocks this tasklet only: run a coroutine on an event loop of its own, and return its result.

    Other tasklets of the thread run meanwhile, each with a loop of its own if it likes. A tasklet that is killed, cancelled or
    timed out meanwhile cancels the loop's tasks, lets them end and closes the loop, before it goes on. Raises what the
    coroutine raises; RuntimeError inside a coroutine, where `await` is the way; ValueError for what is no coroutine.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError(
            "roamlet.aio.run() was called in a coroutine, whose event loop would wait for the new one: write `await` there"
        )
    runner = asyncio.Runner(debug=debug, loop_factory=Loop)
    error: BaseException | None = None
    try:
        return runner.run(main)
    except BaseException as raised:
        error = raised
    finally:
        if error is None:
            runner.close()
    # Closed outside of the except block: what the ends of tasks raise would refer to the error, and its frames to the tasks.
    try:
        try:
            finish(runner.get_loop())
        finally:
            runner.close()
        raise error
    finally:
        del error
