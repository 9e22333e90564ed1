"""wrap(), and channels in coroutines: what blocks a tasklet, awaited."""

import asyncio
import contextvars
import gc
import weakref
from collections.abc import Callable

import pytest

import roamlet
from roamlet import aio, channel, spawn


def test_results_errors_and_arguments() -> None:
    def failing(text: str) -> None:
        roamlet.schedule()
        raise LookupError(text)

    async def main() -> int:
        with pytest.raises(LookupError, match="nothing there"):
            await aio.wrap(failing, "nothing there")
        with pytest.raises(LookupError):
            await aio.wrap({}.__getitem__, 1)
        return await aio.wrap(pow, 2, 10)

    assert aio.run(main()) == 1024
    assert aio.await_(main()) == 1024


def test_only_the_calling_task_waits(ticks: Callable[[], int]) -> None:
    async def main() -> list[int]:
        def slow(number: int) -> int:
            roamlet.sleep(0.03)
            return number

        return await asyncio.gather(*(aio.wrap(slow, number) for number in range(50)))

    assert aio.run(main()) == list(range(50))
    assert ticks() < 40


def test_the_function_sees_no_running_loop_and_the_context_of_the_task() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    def look() -> tuple[object, str]:
        return asyncio._get_running_loop(), variable.get()

    async def main() -> tuple[object, str]:
        variable.set("task")
        return await aio.wrap(look)

    assert aio.run(main()) == (None, "task")


def test_a_timeout_of_asyncio_kills_the_tasklet_and_waits_for_its_end() -> None:
    seen: list[str] = []

    def block() -> None:
        try:
            roamlet.sleep(60)
        except roamlet.TaskletExit:
            roamlet.sleep(0.01)
            seen.append("killed")
            raise

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await aio.wrap(block)
        seen.append("timed out")

    aio.run(main())
    assert seen == ["killed", "timed out"]


def test_a_task_that_is_cancelled_twice_still_waits_for_the_tasklet() -> None:
    seen: list[str] = []

    def block() -> None:
        try:
            roamlet.sleep(60)
        finally:
            roamlet.sleep(0.02)
            seen.append("ended")

    async def main() -> None:
        task = asyncio.create_task(aio.wrap(block))
        for _ in range(3):
            await asyncio.sleep(0.005)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seen.append("cancelled")

    aio.run(main())
    assert seen == ["ended", "cancelled"]


def test_a_function_that_something_else_kills() -> None:
    inside: list[roamlet.tasklet[...]] = []

    def block() -> None:
        inside.append(roamlet.getcurrent())
        roamlet.sleep(60)

    async def main() -> None:
        asyncio.get_running_loop().call_later(0.01, lambda: inside[0].kill())
        with pytest.raises(roamlet.TaskletKilled, match="was killed before it had a result"):
            await aio.wrap(block)

    aio.run(main())


def test_stop_iteration_arrives_as_what_a_future_can_carry() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            await aio.wrap(next, iter(()))

    aio.run(main())


def test_what_is_no_plain_function_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match=r"takes a plain function.*wrap\(channel.receive\)"):
            await aio.wrap(main)
        with pytest.raises(TypeError, match="not 5"):
            await aio.wrap(5)  # type: ignore[arg-type]

    aio.run(main())


def test_on_a_loop_that_blocks_its_thread_it_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"blocks its whole thread.*roamlet.aio.run\(\).*portal\(\)"):
            await aio.wrap(roamlet.schedule)

    asyncio.run(main())


def test_locks_between_coroutines_and_tasklets() -> None:
    from roamlet.sync import Lock

    lock, order = Lock(), []

    async def main() -> None:
        await aio.wrap(lock.acquire)
        order.append("coroutine")
        lock.release()

    lock.acquire()
    waiting = spawn(lambda: aio.run(main()))
    roamlet.sleep(0.01)
    order.append("tasklet")
    lock.release()
    waiting.join(10)
    assert order == ["tasklet", "coroutine"]


def test_channels_in_coroutines() -> None:
    line: channel[int] = channel()

    async def source() -> None:
        for number in range(5):
            await aio.send(line, number)
        line.close()

    async def sink() -> list[int]:
        return [number async for number in aio.iterate(line)]

    taking = spawn(lambda: aio.run(sink()))
    giving = spawn(lambda: aio.run(source()))
    giving.join(10)
    assert taking.join(10) == list(range(5))


def test_a_tasklet_and_a_coroutine_meet() -> None:
    line: channel[str] = channel()

    async def main() -> str:
        got = await aio.receive(line)
        await aio.send(line, got.upper())
        with pytest.raises(LookupError, match="sent"):
            await aio.receive(line)
        return got

    running = spawn(lambda: aio.run(main()))
    line.send("hello")
    assert line.receive() == "HELLO"
    line.send_exception(LookupError, "sent")
    assert running.join(10) == "hello"


def test_a_closed_channel() -> None:
    line: channel[int] = channel()
    line.close()

    async def main() -> list[int]:
        with pytest.raises(roamlet.ChannelClosed):
            await aio.receive(line)
        with pytest.raises(roamlet.ChannelClosed):
            await aio.send(line, 1)
        return [number async for number in aio.iterate(line)]

    assert aio.run(main()) == []
    with pytest.raises(TypeError, match=r"roamlet.aio.receive\(\) takes a roamlet.channel"):
        aio.await_(aio.receive(5))  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["receive", "iterate"])
def test_a_cancelled_task_loses_no_value(way: str) -> None:
    line: channel[str] = channel()

    async def take() -> None:
        if way == "receive":
            await aio.receive(line)
        else:
            async for _ in aio.iterate(line):
                pass

    async def main() -> None:
        task = asyncio.create_task(take())
        await asyncio.sleep(0.01)
        line.send("value")  # taken by the tasklet; the task has not run yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    aio.run(main())
    assert line.receive() == "value"
    roamlet.schedule()
    assert line.balance == 0


def test_a_cancelled_wait_leaves_the_channel() -> None:
    line: channel[str] = channel()

    async def main() -> None:
        for waiting in (aio.receive(line), aio.send(line, "never")):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await waiting

    aio.run(main())
    assert line.balance == 0


def test_what_a_failed_call_had_is_freed_at_once() -> None:
    class Held:
        pass

    def fail(held: Held) -> None:
        roamlet.schedule()
        raise ValueError("failed")

    async def main() -> None:
        held = Held()
        gone = weakref.ref(held)
        try:
            await aio.wrap(fail, held)
        except ValueError:
            pass
        del held
        await asyncio.sleep(0)
        assert gone() is None

    assert not gc.isenabled()
    aio.run(main())
