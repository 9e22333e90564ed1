"""Event loops in tasklets: any number in one thread, each of which blocks its tasklet only."""

import asyncio
import contextlib
import contextvars
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import roamlet
from roamlet import aio, io, spawn


@pytest.fixture
def connected() -> Iterator[tuple[io.socket, io.socket]]:
    """Two of our sockets that never wait, as asyncio's are under roamlet.patch."""
    ours, theirs = io.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        yield ours, theirs


def in_tasklets(count: int, function: Callable[[], object]) -> list[object]:
    return [each.join(60) for each in [spawn(function) for _ in range(count)]]


def test_a_thousand_tasklets_each_in_a_loop_of_its_own() -> None:
    at_once = most = 0

    async def main() -> object:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        while most < 1000:  # goes on when all are there
            await asyncio.sleep(0.01)
        return asyncio.get_running_loop()

    loops = in_tasklets(1000, lambda: aio.run(main()))
    assert len(set(map(id, loops))) == 1000
    assert most == 1000


def test_plain_asyncio_run_with_a_loop_of_ours_holds_up_no_tasklet(ticks: Callable[[], int]) -> None:
    with asyncio.Runner(loop_factory=aio.Loop) as runner:
        runner.run(asyncio.sleep(0.1))
    assert ticks() > 0


def test_a_sibling_sees_no_running_loop() -> None:
    """As under gevent it does: braintrust-sdk-python, issue 527. A library runs an evaluation by asyncio.run(), which calls a plain
    function that sleeps; another tasklet of the thread asks for the running loop meanwhile."""
    seen: list[str] = []

    def task(given: str) -> str:
        roamlet.sleep(0.05)
        return given.upper()

    async def evaluation(data: list[str]) -> list[str]:
        return [task(each) for each in data]

    def library() -> list[str]:
        return asyncio.run(evaluation(["output"]))

    def sibling() -> None:
        roamlet.sleep(0.01)
        try:
            seen.append(repr(asyncio.get_running_loop()))
        except RuntimeError:
            seen.append("no running loop")

    jobs = [spawn(library), spawn(sibling)]
    assert [job.join() for job in jobs] == [["OUTPUT"], None]
    assert seen == ["no running loop"]


async def numbers() -> AsyncIterator[int]:
    for number in range(3):
        await asyncio.sleep(0.001)
        yield number


@pytest.mark.parametrize("debug", [False, True])
def test_task_groups_timeouts_and_asynchronous_generators(debug: bool) -> None:
    async def main() -> int:
        async for number in numbers():
            if number == 1:
                break
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0.01, number)) for number in range(10)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(5)
        assert asyncio.get_running_loop().get_debug() == debug
        return sum(task.result() for task in tasks)

    assert in_tasklets(10, lambda: aio.run(main(), debug=debug)) == [45] * 10
    assert sys.get_asyncgen_hooks() == (None, None)
    assert sys.get_coroutine_origin_tracking_depth() == 0


def test_subprocesses_and_threads() -> None:
    async def main() -> tuple[bytes, int]:
        child = await asyncio.create_subprocess_exec(
            "sh", "-c", "sleep 0.02; echo done", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await child.communicate()
        return out, await asyncio.to_thread(lambda: time.sleep(0.01) or threading.get_ident())

    for out, thread in in_tasklets(3, lambda: aio.run(main())):  # type: ignore[misc]
        assert out == b"done\n"
        assert thread != threading.get_ident()


def test_streams_between_two_loops(ticks: Callable[[], int]) -> None:
    port: roamlet.channel[int] = roamlet.channel()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    async def server() -> None:
        listening = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with listening:
            await aio.send(port, listening.sockets[0].getsockname()[1])
            await asyncio.sleep(60)

    async def client() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        for _ in range(200):
            writer.write(b"hello\n")
            answered = await reader.readline()
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0.02)
        return answered

    serving = spawn(lambda: aio.run(server()))
    number = port.receive()
    assert in_tasklets(5, lambda: aio.run(client())) == [b"HELLO\n"] * 5
    serving.kill()
    with pytest.raises(roamlet.TaskletKilled):
        serving.join()
    assert ticks() > 0


def test_a_loop_that_is_always_busy_lets_others_run(ticks: Callable[[], int]) -> None:
    async def main() -> None:
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            await asyncio.sleep(0)

    aio.run(main())
    assert ticks() > 0


def test_a_future_set_by_another_tasklet_wakes_a_sleeping_loop() -> None:
    box: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[str]]] = []

    async def main() -> str:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        box.append((loop, future))
        return await future

    waiting = spawn(lambda: aio.run(main()))
    while not box:
        roamlet.sleep(0.001)
    roamlet.sleep(0.01)
    box[0][1].set_result("from another tasklet")
    assert waiting.join(10) == "from another tasklet"

    waiting = spawn(lambda: aio.run(main()))
    while len(box) < 2:
        roamlet.sleep(0.001)
    roamlet.sleep(0.01)
    box[1][0].call_later(0.01, box[1][1].set_result, "later")
    assert waiting.join(10) == "later"


def test_stop_from_another_tasklet() -> None:
    loop = aio.Loop()
    running = spawn(loop.run_forever)
    roamlet.sleep(0.01)
    assert loop.is_running() and running.alive
    loop.stop()
    running.join(10)
    assert not loop.is_running()
    loop.close()


def test_callbacks_from_another_thread() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        threads = [
            threading.Thread(target=lambda: [loop.call_soon_threadsafe(count) for _ in range(500)]) for _ in range(4)
        ]
        counted = 0

        def count() -> None:
            nonlocal counted
            counted += 1
            if counted == 2000:
                future.set_result(counted)

        for thread in threads:
            thread.start()
        await future
        for thread in threads:
            thread.join()
        return counted

    assert aio.run(main()) == 2000


def test_a_killed_tasklet_ends_its_coroutines_and_its_loop() -> None:
    ended: list[object] = []

    async def main() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.001)
            ended.append(asyncio.get_running_loop())

    running = spawn(lambda: aio.run(main()))
    roamlet.sleep(0.01)
    running.kill()
    with pytest.raises(roamlet.TaskletKilled):
        running.join(10)
    (loop,) = ended
    assert isinstance(loop, aio.Loop)
    assert loop.is_closed()


def test_a_timeout_around_run_lets_the_coroutines_end() -> None:
    ended: list[str] = []

    async def main() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)  # a wait more, in a scope whose time is over
            ended.append("finally")

    with pytest.raises(TimeoutError), roamlet.timeout(0.02):
        aio.run(main())
    assert ended == ["finally"]


@pytest.mark.parametrize("call", ["recv", "recv_into", "recvmsg", "send", "accept", "connect"])
def test_a_turn_of_a_loop_is_not_interrupted_by_calls_that_never_wait(
    call: str, connected: tuple[io.socket, io.socket]
) -> None:
    """A tasklet that ends there would end its loop in the middle of a callback: with tasks that nothing goes on with."""
    ours, _ = connected
    given: dict[str, Any] = {"recv_into": bytearray(1), "send": b"", "connect": "\0nobody"}
    ran: list[int] = []

    def other() -> None:
        while True:
            ran.append(0)
            roamlet.schedule()

    def calls() -> list[int]:
        before = len(ran)
        for _ in range(1000):
            with contextlib.suppress(OSError):
                getattr(ours, call)(*([] if call == "accept" else [given.get(call, 1)]))
        return ran[before:]

    async def main() -> list[int]:
        return calls()

    beside = roamlet.tasklet(other)()
    assert aio.run(main()) == []
    assert calls() != []  # where no loop runs, which lets others run between its turns, those calls do
    beside.kill()


def test_a_loop_whose_time_is_over_still_receives_and_sends(connected: tuple[io.socket, io.socket]) -> None:
    """What its tasks do at their ends; and a callback that another tasklet asks for is heard of through a socket, too."""
    ours, theirs = connected
    said: list[bytes] = []

    def answer() -> None:
        theirs.setblocking(True)
        theirs.sendall(theirs.recv(10).upper())

    async def main() -> None:
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            await asyncio.sleep(60)
        finally:
            writer.write(b"bye")
            said.append(await reader.readexactly(3))
            writer.close()
            await writer.wait_closed()

    roamlet.tasklet(answer)()
    with pytest.raises(TimeoutError), roamlet.timeout(0.02):
        aio.run(main())
    assert said == [b"BYE"]


def test_a_loop_that_a_timeout_has_interrupted_can_be_interrupted_again() -> None:
    loop = aio.Loop()
    for _ in range(2):
        future = loop.create_future()
        with pytest.raises(TimeoutError), roamlet.timeout(0.02):
            loop.run_until_complete(future)
    loop.close()


def test_signal_handlers_of_two_loops() -> None:
    async def main(number: int) -> str:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(number, told.set)
        await told.wait()
        return signal.Signals(number).name

    wanted = [signal.SIGUSR1, signal.SIGUSR2]
    waiting = [spawn(lambda number: aio.run(main(number)), (number,)) for number in wanted]
    roamlet.sleep(0.02)
    for number in wanted:
        os.kill(os.getpid(), number)
    assert [each.join(10) for each in waiting] == ["SIGUSR1", "SIGUSR2"]
    assert [signal.getsignal(number) for number in wanted] == [signal.SIG_DFL] * 2
    assert signal.set_wakeup_fd(-1) == -1


def test_a_signal_handler_of_another_loop_stays() -> None:
    first, second = aio.Loop(), aio.Loop()
    first.add_signal_handler(signal.SIGUSR1, lambda: None)
    second.add_signal_handler(signal.SIGUSR1, second.stop)
    assert first.remove_signal_handler(signal.SIGUSR1)
    assert not first.remove_signal_handler(signal.SIGUSR1)
    second.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    second.run_forever()
    first.close()
    second.close()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_a_loop_with_several_signal_handlers_is_closed_while_another_one_listens() -> None:
    first, second = aio.Loop(), aio.Loop()
    second.add_signal_handler(signal.SIGUSR1, second.stop)
    first.add_signal_handler(signal.SIGHUP, lambda: None)
    first.add_signal_handler(signal.SIGUSR2, lambda: None)
    signal.set_wakeup_fd(first._csock.fileno())  # type: ignore[attr-defined]
    first.close()
    assert [signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGUSR2)] == [signal.SIG_DFL] * 2
    second.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    second.run_forever()
    second.close()
    assert signal.set_wakeup_fd(-1) == -1


def test_a_timer_of_a_loop_in_debug_mode_was_made_where_the_program_called() -> None:
    loop = aio.Loop()
    loop.set_debug(True)
    for timer in (loop.call_later(1, print), loop.call_at(1, print)):
        made: Any = timer
        assert (
            made._source_traceback[-1].name == "test_a_timer_of_a_loop_in_debug_mode_was_made_where_the_program_called"
        )
        timer.cancel()
    loop.close()


def test_signal_handlers_in_another_thread_are_refused_as_by_asyncio() -> None:
    refused: list[str] = []

    def body() -> None:
        loop = aio.Loop()
        try:
            loop.add_signal_handler(signal.SIGUSR1, lambda: None)
        except (RuntimeError, ValueError) as error:
            refused.append(repr(error))
        loop.close()

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert len(refused) == 1


def test_an_interrupt_from_the_keyboard_cancels_the_main_task() -> None:
    seen: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(KeyboardInterrupt):
        aio.run(main())
    assert seen == ["cancelled"]


def test_run_inside_a_coroutine_is_refused() -> None:
    async def main() -> None:
        inner = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match=r"called in a coroutine.*write `await`"):
            aio.run(inner)
        inner.close()

    aio.run(main())
    with pytest.raises((TypeError, ValueError)):
        aio.run(print)  # type: ignore[arg-type]


def test_context_variables() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    async def main() -> int:
        await asyncio.sleep(0)
        return variable.get()

    def body(number: int) -> int:
        variable.set(number)
        return aio.run(main())

    assert [spawn(body, (number,)).join() for number in range(3)] == [0, 1, 2]


def test_a_selector_without_a_descriptor_is_refused() -> None:
    with pytest.raises(TypeError, match=r"descriptor of its selector.*DefaultSelector"):
        aio.Loop(selectors.SelectSelector())
    with aio_loop(selectors.DefaultSelector()) as loop:
        loop.run_until_complete(asyncio.sleep(0.001))


class aio_loop:
    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.loop = aio.Loop(selector)

    def __enter__(self) -> aio.Loop:
        return self.loop

    def __exit__(self, *_: object) -> None:
        self.loop.close()


def test_a_loop_in_a_thread_without_tasklets() -> None:
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(aio.run(asyncio.sleep(0.01, 7))))
    thread.start()
    thread.join()
    assert results == [7]


def test_a_loop_made_in_one_thread_runs_in_another() -> None:
    loop = aio.Loop()
    loop.run_until_complete(asyncio.sleep(0.001))
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.sleep(0.001)))
    thread.start()
    thread.join()
    loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()


def test_many_descriptors_and_both_directions() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        got = 0
        pipes = [os.pipe() for _ in range(300)]
        done = loop.create_future()

        def readable(fd: int) -> None:
            nonlocal got
            os.read(fd, 10)
            loop.remove_reader(fd)
            got += 1
            if got == len(pipes):
                done.set_result(None)

        def writable(fd: int) -> None:
            loop.remove_writer(fd)
            os.write(fd, b"x")

        for read_end, write_end in pipes:
            loop.add_reader(read_end, readable, read_end)
            loop.add_writer(write_end, writable, write_end)
        await done
        for ends in pipes:
            for fd in ends:
                os.close(fd)
        return got

    assert aio.run(main()) == 300


def test_what_stays_readable_is_told_again() -> None:
    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        read_end, write_end = os.pipe()
        got = b""
        done = loop.create_future()

        def readable() -> None:
            nonlocal got
            got += os.read(read_end, 1)
            if len(got) == 5:
                done.set_result(None)

        loop.add_reader(read_end, readable)
        loop.call_later(0.01, os.write, write_end, b"12345")
        await done
        loop.remove_reader(read_end)
        os.close(read_end)
        os.close(write_end)
        return got

    assert aio.run(main()) == b"12345"


def test_a_forked_child_leaves_the_loops_of_its_parent_alone() -> None:
    read_end, write_end = os.pipe()
    answers, told = os.pipe()

    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()
        loop.add_reader(read_end, lambda: future.set_result(os.read(read_end, 100)))
        got = await future
        loop.remove_reader(read_end)
        return got

    aio.await_(asyncio.sleep(0))
    waiting = spawn(lambda: aio.run(main()))
    roamlet.sleep(0.01)
    child = os.fork()
    if child == 0:
        try:
            said = aio.await_(asyncio.sleep(0.01, b"awaited"))
            waiting.kill()  # takes all of its descriptors out of its epoll
            os.write(told, said + b", killed")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(answers, 100) == b"awaited, killed"
    os.write(write_end, b"for the parent")
    assert waiting.join(10) == b"for the parent"
    for fd in (read_end, write_end, answers, told):
        os.close(fd)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    with roamlet.timeout(60):
        yield


@pytest.mark.parametrize("make", [lambda: roamlet.timeout(60), roamlet.scope, limited], ids=["timeout", "scope", "own"])
def test_a_coroutine_cannot_enter_what_would_cancel_its_loop(
    make: Callable[[], contextlib.AbstractContextManager[object]],
) -> None:
    async def main() -> str:
        with pytest.raises(RuntimeError, match="entered in a coroutine: it would cancel the whole event loop"), make():
            await asyncio.sleep(60)
        return "goes on"

    async def agen() -> AsyncIterator[str]:
        with make():
            yield "entered"

    async def iterate() -> None:
        generator = agen()
        with pytest.raises(RuntimeError, match="entered in a coroutine"):
            await anext(generator)

    with roamlet.timeout(60):
        assert aio.run(main()) == "goes on"
        aio.run(iterate())


def test_a_function_that_a_coroutine_calls_has_its_time_out() -> None:
    def plain() -> str:
        with roamlet.timeout(10), pytest.raises(TimeoutError), roamlet.timeout(0.001):
            roamlet.sleep(60)
        return "in time"

    async def main() -> tuple[str, str]:
        return plain(), await aio.wrap(plain)

    assert aio.run(main()) == ("in time", "in time")
