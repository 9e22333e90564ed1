"""Loops in threads of their own: uvloop's, and asyncio's."""

import asyncio
import contextvars
import threading
from collections.abc import Callable

import pytest
import uvloop

import roamlet
from roamlet import aio, spawn


@pytest.fixture(scope="module", autouse=True)
def what_uvloop_has_for_the_process() -> None:
    """Its first loop opens a pipe that stays."""
    uvloop.new_event_loop().close()


LOOPS = pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop, aio.Loop])


@LOOPS
def test_tasklets_wait_for_another_threads_loop(
    factory: Callable[[], asyncio.AbstractEventLoop], ticks: Callable[[], int]
) -> None:
    with aio.portal(factory) as portal:

        async def main(number: int) -> tuple[int, bool, bool]:
            await asyncio.sleep(0.03)
            mine = asyncio.get_running_loop() is portal.loop
            return number, mine, threading.current_thread() is threading.main_thread()

        waiting = [spawn(lambda number=number: portal.await_(main(number))) for number in range(20)]
        assert [each.join(10) for each in waiting] == [(number, True, False) for number in range(20)]
        assert portal.call(asyncio.sleep, 0.001, "called") == "called"
        assert portal.call(threading.get_ident) != threading.get_ident()
    assert ticks() > 0
    assert portal.loop.is_closed()


@LOOPS
def test_errors_cancellation_and_context(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    cancelled: list[str] = []

    async def failing() -> None:
        raise LookupError(str(variable.get()))

    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append("cancelled")

    with aio.portal(factory) as portal:
        token = variable.set(5)
        with pytest.raises(LookupError, match="5"):
            portal.await_(failing())
        variable.reset(token)
        with pytest.raises(TimeoutError), roamlet.timeout(0.02):
            portal.await_(endless())
        assert cancelled == ["cancelled"]
        waiting = spawn(lambda: portal.await_(endless()))
        roamlet.sleep(0.02)
        waiting.kill()
        with pytest.raises(roamlet.TaskletKilled):
            waiting.join(10)
        assert cancelled == ["cancelled"] * 2
        with pytest.raises(TypeError, match="what `await` takes"):
            portal.await_(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_wrap_calls_a_function_in_the_thread_that_has_opened_the_portal(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    line: roamlet.channel[str] = roamlet.channel()

    async def main() -> tuple[int, str]:
        thread = await aio.wrap(threading.get_ident)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await aio.receive(line)
        return thread, await aio.receive(line)

    with aio.portal(factory) as portal:
        running = spawn(lambda: portal.await_(main()))
        roamlet.sleep(0.1)
        line.send("from a tasklet")
        assert running.join(10) == (threading.get_ident(), "from a tasklet")


def _holds_its_thread_until(event: threading.Event) -> None:
    """No tasklet of this thread runs meanwhile."""
    assert event.wait(10)


@pytest.mark.parametrize("wait", ["wrap", "receive"])
def test_a_call_is_cancelled_that_its_thread_has_not_begun(wait: str) -> None:
    line: roamlet.channel[str] = roamlet.channel()
    called: list[str] = []
    asked, over = threading.Event(), threading.Event()

    async def main() -> None:
        call = aio.wrap(called.append, "called") if wait == "wrap" else aio.receive(line)
        task: asyncio.Task[object] = asyncio.create_task(call)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        asked.set()
        task.cancel()
        await asyncio.wait([task], timeout=5)
        over.set()
        assert task.cancelled()

    with aio.portal() as portal:
        running = spawn(lambda: portal.await_(main()))
        roamlet.schedule()
        _holds_its_thread_until(asked)
        _holds_its_thread_until(over)
        with roamlet.timeout(10):
            running.join()
        roamlet.sleep(0.01)
    assert called == []
    assert line.balance == 0


def test_a_call_is_cancelled_whose_tasklet_has_settled_it_and_not_ended() -> None:
    queued, over = threading.Event(), threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        call_soon = loop.call_soon_threadsafe

        def call_soon_and_linger(callback: Callable[..., object], *args: object) -> asyncio.Handle:
            handle = call_soon(callback, *args)
            queued.set()
            _holds_its_thread_until(over)
            return handle

        def function() -> None:
            call_soon(tasks[0].cancel)
            loop.call_soon_threadsafe = call_soon_and_linger  # type: ignore[assignment]

        tasks = [asyncio.create_task(aio.wrap(function))]
        try:
            await asyncio.sleep(0)
            assert queued.wait(10)  # the loop has both to do now: to cancel, and to settle
            await asyncio.wait(tasks, timeout=5)
            ended = tasks[0].done()
        finally:
            over.set()
            tasks.clear()  # the function knows the list, and the task's error the function
            del loop.call_soon_threadsafe
        assert ended

    with aio.portal() as portal, roamlet.timeout(20):
        portal.await_(main())


def test_a_cancelled_task_of_a_portal_loses_no_value() -> None:
    line: roamlet.channel[str] = roamlet.channel()
    sent, cancelled = threading.Event(), threading.Event()

    async def main() -> None:
        task = asyncio.create_task(aio.receive(line))
        assert await asyncio.to_thread(sent.wait, 10)
        task.cancel()  # the tasklet has the value, and cannot run yet
        await asyncio.sleep(0)
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    with aio.portal() as portal:
        running = spawn(lambda: portal.await_(main()))
        with roamlet.timeout(10):
            while line.balance != -1:
                roamlet.sleep(0.001)
        line.preference = 1  # the sender goes on
        line.send("value")
        sent.set()
        _holds_its_thread_until(cancelled)
        with roamlet.timeout(10):
            running.join()
            assert line.receive() == "value"
        assert line.balance == 0


def test_a_portal_that_is_closed_while_tasklets_wait() -> None:
    portal = aio.portal()
    waiting = [spawn(lambda: portal.await_(asyncio.sleep(60))) for _ in range(3)]
    roamlet.sleep(0.02)
    portal.close()
    for each in waiting:
        with pytest.raises(RuntimeError, match="was closed"):
            each.join(10)
    portal.close()
    late = asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="closed roamlet.aio.portal.*was closed"):
        portal.await_(late)
    late.close()


def test_a_loop_that_cannot_be_made() -> None:
    def refuse() -> asyncio.AbstractEventLoop:
        raise LookupError("no loop")

    with pytest.raises(LookupError, match="no loop"):
        aio.portal(refuse)


def test_its_own_thread_cannot_wait_for_it() -> None:
    with aio.portal() as portal:

        def inside() -> None:
            late = asyncio.sleep(0)
            try:
                portal.await_(late)
            finally:
                late.close()

        with pytest.raises(RuntimeError, match="write `await`"):
            portal.call(inside)
        with pytest.raises(RuntimeError, match="own thread"):
            portal.call(portal.close)
