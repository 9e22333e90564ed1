"""await_(): a tasklet waits for what runs on the loop of its thread."""

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Callable, Generator
from typing import Any

import pytest

import roamlet
from roamlet import aio, spawn


async def failing() -> None:
    await asyncio.sleep(0)
    raise LookupError("nothing there")


def test_results_and_errors() -> None:
    assert aio.await_(asyncio.sleep(0.001, "result")) == "result"
    with pytest.raises(LookupError, match="nothing there"):
        aio.await_(failing())


def test_many_tasklets_wait_at_once(ticks: Callable[[], int]) -> None:
    waiting = [spawn(lambda number=number: aio.await_(asyncio.sleep(0.05, number))) for number in range(200)]
    assert [each.join(10) for each in waiting] == list(range(200))
    assert ticks() > 0


def test_it_is_a_real_task_on_the_loop_of_the_thread() -> None:
    async def main() -> tuple[object, object]:
        async with asyncio.timeout(5):
            return type(asyncio.current_task()), id(asyncio.get_running_loop())

    assert aio.await_(main()) == (asyncio.Task, id(aio.loop()))
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_what_was_made_for_the_loop_serves_the_next_calls() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue()
    taking = spawn(lambda: aio.await_(queue.get()))
    roamlet.sleep(0.01)
    aio.await_(queue.put(5))
    assert taking.join(10) == 5


def test_other_awaitables() -> None:
    class Awaitable:
        def __await__(self) -> Generator[Any, None, str]:
            yield from asyncio.sleep(0.001).__await__()
            return "awaited"

    assert aio.await_(Awaitable()) == "awaited"
    future = aio.loop().create_future()
    aio.loop().call_later(0.01, future.set_result, 3)
    assert aio.await_(future) == 3
    assert aio.await_(asyncio.gather(future, asyncio.ensure_future(asyncio.sleep(0, 4), loop=aio.loop()))) == [3, 4]


def test_what_cannot_be_awaited() -> None:
    with pytest.raises(TypeError, match=r"await_\(\) takes what `await` takes.*not 5"):
        aio.await_(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"call it, await_\(function\(\)\)"):
        aio.await_(failing)  # type: ignore[arg-type]


def test_context_variables_go_along() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def main() -> str:
        await asyncio.sleep(0)
        seen = variable.get()
        variable.set("changed")
        return seen

    token = variable.set("mine")
    assert aio.await_(main()) == "mine"
    assert variable.get() == "mine"
    variable.reset(token)


@pytest.mark.parametrize("how", ["kill", "timeout", "scope"])
def test_the_task_ends_before_the_tasklet_goes_on(how: str) -> None:
    seen: list[str] = []

    async def main() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            seen.append("task")
            raise

    def body() -> None:
        try:
            if how == "timeout":
                with roamlet.timeout(0.02):
                    aio.await_(main())
            aio.await_(main())
        finally:
            seen.append("tasklet")

    if how == "scope":
        with roamlet.scope() as scope:
            scope.spawn(body)
            roamlet.sleep(0.01)
            scope.cancel()
    else:
        waiting = spawn(body)
        roamlet.sleep(0.01)
        if how == "kill":
            waiting.kill()
        with pytest.raises(roamlet.TaskletKilled if how == "kill" else TimeoutError):
            waiting.join(10)
    assert seen == ["task", "tasklet"]


def test_a_task_that_another_one_cancels() -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.sleep(60)

    with pytest.raises(asyncio.CancelledError):
        aio.await_(main())


def test_in_a_coroutine_of_the_same_loop_it_is_refused() -> None:
    async def main() -> None:
        aio.await_(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match=r"write `await` there.*aio.wrap"):
        aio.await_(main())


def test_in_a_coroutine_of_another_loop_it_waits() -> None:
    async def main() -> int:
        return aio.await_(asyncio.sleep(0.01, 5))

    assert aio.run(main()) == 5


@pytest.mark.leaves(
    "objects", reason="since 3.12 the frames of asyncio that an exit has passed through refer to its task"
)
def test_an_exit_of_a_task_is_its_tasklets() -> None:
    async def main() -> None:
        raise SystemExit(3)

    other = spawn(lambda: aio.await_(asyncio.sleep(0.05, "undisturbed")))
    roamlet.sleep(0.001)
    with pytest.raises(SystemExit, match="3"):
        aio.await_(main())
    assert other.join(10) == "undisturbed"


def test_a_task_factory_runs_in_the_loops_tasklet() -> None:
    tasklets: list[object] = []

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **settings: Any) -> "asyncio.Task[Any]":
        tasklets.append(roamlet.getcurrent())
        return asyncio.Task(coroutine, loop=loop, **settings)

    aio.loop().set_task_factory(factory)
    assert aio.await_(asyncio.sleep(0, 1)) == 1
    assert tasklets[0] is not roamlet.getcurrent()

    def refusing(loop: asyncio.AbstractEventLoop, coroutine: Any, **settings: Any) -> "asyncio.Task[Any]":
        coroutine.close()
        raise ValueError("no more tasks")

    aio.loop().set_task_factory(refusing)
    with pytest.raises(ValueError, match="no more tasks"):
        aio.await_(asyncio.sleep(0))
    aio.loop().set_task_factory(None)


def test_shutdown_ends_what_runs_and_tells_the_waiting_tasklets() -> None:
    ended: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("background")

    def body() -> str:
        try:
            aio.await_(asyncio.sleep(60))
        except RuntimeError as error:
            return str(error)
        return ""

    loop = aio.loop()
    task = loop.create_task(background())
    waiting = [spawn(body) for _ in range(3)]
    roamlet.sleep(0.01)
    aio.shutdown()
    assert ["was shut down while a tasklet waited" in each.join(10) for each in waiting] == [True] * 3
    assert ended == ["background"]
    assert task.cancelled()
    assert loop.is_closed()
    aio.shutdown()
    assert aio.await_(asyncio.sleep(0, "a new one")) == "a new one"


def test_stopping_the_loop_shuts_it_down() -> None:
    waiting = spawn(lambda: aio.await_(asyncio.sleep(60)))
    roamlet.sleep(0.01)
    aio.loop().stop()
    with pytest.raises(RuntimeError, match="was shut down"):
        waiting.join(10)


def test_shutdown_in_a_coroutine_is_refused() -> None:
    async def main() -> None:
        aio.shutdown()

    with pytest.raises(RuntimeError, match="call it from a tasklet"):
        aio.await_(main())


def test_an_idle_loop_hides_no_deadlock_and_lets_run_return() -> None:
    aio.await_(asyncio.sleep(0))
    roamlet.run()
    with pytest.raises(roamlet.Deadlock):
        roamlet.channel().receive()


def test_each_thread_has_a_loop_which_ends_with_it() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    def body() -> None:
        loops.append(aio.loop())
        aio.await_(asyncio.sleep(0.001))

    threads = [threading.Thread(target=body) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, loops))) == 3
    assert all(loop.is_closed() for loop in loops)


def test_what_a_failed_call_had_is_freed_at_once() -> None:
    class Held:
        pass

    async def main(held: Held) -> None:
        raise ValueError("failed")

    held = Held()
    gone = weakref.ref(held)
    try:
        aio.await_(main(held))
    except ValueError:
        pass
    del held
    roamlet.schedule()
    assert not gc.isenabled()
    assert gone() is None
