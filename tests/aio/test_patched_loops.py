"""Plain asyncio.run() where the methods of asyncio's loops are changed, as roamlet.patch does it."""

import asyncio
import gc
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

import roamlet
from roamlet import aio, spawn
from roamlet.patch.areas import loops
from roamlet.patch.changes import Changes
from tests.programs import printed


@pytest.fixture(autouse=True)
def patched() -> Iterator[Changes]:
    changes = Changes()
    loops.apply(changes)
    yield changes
    changes.undo()


def test_plain_asyncio_run_in_many_tasklets(ticks: Callable[[], int]) -> None:
    jobs = [spawn(lambda: asyncio.run(asyncio.sleep(0.05, "slept"))) for _ in range(50)]
    assert [job.join(10) for job in jobs] == ["slept"] * 50
    assert ticks() > 0


def test_a_loop_by_its_class() -> None:
    async def main() -> int:
        return await aio.wrap(pow, 2, 3)

    loop = asyncio.SelectorEventLoop()
    assert type(loop) is asyncio.SelectorEventLoop
    assert loop.run_until_complete(main()) == 8
    loop.close()
    assert aio.run(main()) == 8


def test_another_tasklet_wakes_it_and_signals_arrive() -> None:
    box: list[asyncio.Future[str]] = []

    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, lambda: box[0].set_result("signal"))
        box.append(loop.create_future())
        return await box[0]

    waiting = spawn(lambda: asyncio.run(main()))
    roamlet.sleep(0.02)
    signal.raise_signal(signal.SIGUSR1)
    assert waiting.join(10) == "signal"


def test_a_signal_that_another_thread_receives_ends_the_wait_of_two_loops() -> None:
    """Of which one has the descriptor that the interpreter writes to, and both have handlers."""
    heard: list[int] = []

    async def main(number: int, *signals: int) -> None:
        told = asyncio.Event()
        for each in signals:
            asyncio.get_running_loop().add_signal_handler(each, lambda: (heard.append(number), told.set()))
        await told.wait()

    def send(number: int) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)

    def from_a_thread(number: int) -> None:
        sending = threading.Thread(target=send, args=(number,))
        sending.start()
        sending.join()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
    try:
        first = spawn(lambda: asyncio.run(main(1, signal.SIGUSR1)))
        second = spawn(lambda: asyncio.run(main(2, signal.SIGUSR2)))
        roamlet.sleep(0.02)
        timer = threading.Timer(0.02, from_a_thread, (signal.SIGUSR1,))
        timer.start()
        first.join(10)
        timer.join()
        timer = threading.Timer(0.02, from_a_thread, (signal.SIGUSR2,))
        timer.start()
        second.join(10)
        timer.join()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert heard == [1, 2]
    assert signal.set_wakeup_fd(-1) == -1


def test_a_descriptor_for_signals_of_the_programs_own_stays() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, lambda: None)
        assert loop.remove_signal_handler(signal.SIGUSR1)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        signal.set_wakeup_fd(ours.fileno())
        asyncio.run(main())
        assert signal.set_wakeup_fd(-1) == ours.fileno()


def test_a_loop_that_outlives_the_patch_is_still_woken(patched: Changes) -> None:
    box: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        box.append(asyncio.get_running_loop())
        await asyncio.sleep(60)

    waiting = spawn(lambda: asyncio.run(main()))
    roamlet.sleep(0.02)
    patched.undo()
    called: list[str] = []
    box[0].call_later(0.01, called.append, "later")
    with roamlet.timeout(10):
        while not called:
            roamlet.sleep(0.005)
    waiting.kill()
    box.clear()
    with pytest.raises(roamlet.TaskletKilled):
        waiting.join(10)
    del waiting
    gc.collect()


def test_each_tasklet_has_the_loop_that_it_has_set() -> None:
    """As programs before asyncio.run() do it: set_event_loop(), and whatever library asks for the loop gets that one."""

    def program(seconds: float) -> bool:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            asyncio.get_event_loop().run_until_complete(asyncio.sleep(seconds))
            return asyncio.get_event_loop() is loop
        finally:
            loop.close()
            asyncio.set_event_loop(None)

    assert [job.join(10) for job in [spawn(program, (0.02 * each,)) for each in range(3)]] == [True] * 3


def test_a_loop_is_seen_by_the_tasklet_that_has_set_it_alone() -> None:
    ours = asyncio.new_event_loop()
    asyncio.set_event_loop(ours)
    other = asyncio.new_event_loop()

    def run_in_between() -> None:
        asyncio.run(asyncio.sleep(0))  # which sets one, and then none
        with pytest.raises(RuntimeError, match="There is no current event loop"):
            asyncio.get_event_loop()
        asyncio.set_event_loop(other)

    try:
        spawn(run_in_between).join(10)
        assert asyncio.get_event_loop() is ours
    finally:
        asyncio.set_event_loop(None)
        ours.close()
        other.close()


def test_a_loop_that_was_set_before_and_after(patched: Changes) -> None:
    patched.undo()
    before, later = asyncio.new_event_loop(), asyncio.new_event_loop()
    asyncio.set_event_loop(before)
    try:
        loops.apply(patched)
        assert asyncio.get_event_loop() is before
        asyncio.set_event_loop(later)
        patched.undo()
        assert asyncio.get_event_loop() is later
    finally:
        asyncio.set_event_loop(None)
        before.close()
        later.close()


@pytest.mark.pythons((3, 11), (3, 13), reason="a later get_event_loop() makes none")
@pytest.mark.filterwarnings("ignore:There is no current event loop:DeprecationWarning")
def test_a_tasklet_that_asks_gets_one_of_its_own(patched: Changes) -> None:
    def ask() -> bool:
        loop = asyncio.get_event_loop()
        try:
            return asyncio.get_event_loop() is loop and loop not in seen
        finally:
            seen.append(loop)
            loop.close()

    seen: list[asyncio.AbstractEventLoop] = []
    assert spawn(ask).join(10) and spawn(ask).join(10)


def test_what_was_changed_is_put_back() -> None:
    from asyncio import selector_events, unix_events

    names = ("__init__", "call_at", "stop", "run_forever", "add_signal_handler", "remove_signal_handler")
    owners = (unix_events._UnixSelectorEventLoop, selector_events.BaseSelectorEventLoop)
    before = [vars(owner).get(name) for owner in owners for name in names]
    changes = Changes()
    loops.apply(changes)
    assert [vars(owner).get(name) for owner in owners for name in names] != before
    changes.undo()
    assert [vars(owner).get(name) for owner in owners for name in names] == before


def test_a_program_under_the_patch(python: Callable[..., str], program: Callable[..., str]) -> None:
    """Sockets, children, threads and names in loops of several tasklets, beside a tasklet that counts."""
    script = program(
        """
        import asyncio, sys
        assert "asyncio.unix_events" in sys.modules and "roamlet.aio" in sys.modules
        import roamlet, time

        async def echo():
            async def serve(reader, writer):
                writer.write(await reader.readline())
                await writer.drain()
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection("localhost", server.sockets[0].getsockname()[1])
            writer.write(b"line\\n")
            line = await reader.readline()
            writer.close()
            server.close()
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(1)", stdout=-1)
            out, _ = await child.communicate()
            return line, out, await asyncio.to_thread(lambda: time.sleep(0.01) or "thread")

        ticks = 0

        def count():
            global ticks
            while True:
                time.sleep(0.001)
                ticks += 1

        counting = roamlet.tasklet(count)()
        jobs = [roamlet.spawn(lambda: asyncio.run(echo())) for _ in range(3)]
        assert [job.join() for job in jobs] == [(b"line\\n", b"1\\n", "thread")] * 3
        counting.kill()
        print(ticks > 10)
        """
    )
    assert printed(python("-m", "roamlet.patch", script)) == "True\n"
