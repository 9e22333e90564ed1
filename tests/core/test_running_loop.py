"""The event loop that runs in a tasklet: its own, kept over switches, and seen by no other."""

import asyncio
import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from roamlet import snapshot
from roamlet.core import (
    Waiter,
    channel,
    getcurrent,
    run,
    schedule,
    schedule_remove,
    set_schedule_callback,
    switch_trap,
    tasklet,
)

NO_HOOKS = (None, None)


class Loop:
    """Stands for an event loop: something that can be set as the running one."""


@contextmanager
def running(loop: Loop, debug: bool = False) -> Iterator[None]:
    """Do what every run_forever() does."""
    depth = sys.get_coroutine_origin_tracking_depth()
    sys.set_asyncgen_hooks(firstiter=loop.__class__.__repr__, finalizer=loop.__class__.__str__)
    asyncio._set_running_loop(loop)
    if debug:
        sys.set_coroutine_origin_tracking_depth(10)
    try:
        yield
    finally:
        asyncio._set_running_loop(None)
        sys.set_asyncgen_hooks(None, None)
        sys.set_coroutine_origin_tracking_depth(depth)


def nothing_runs() -> bool:
    return (
        asyncio._get_running_loop() is None
        and tuple(sys.get_asyncgen_hooks()) == NO_HOOKS
        and sys.get_coroutine_origin_tracking_depth() == 0
    )


def test_each_tasklet_has_its_own_loop_and_one_without_sees_none() -> None:
    seen: list[object] = []

    def with_one() -> None:
        loop = Loop()
        with running(loop, debug=True):
            for _ in range(3):
                schedule()
                assert asyncio._get_running_loop() is loop
                assert sys.get_asyncgen_hooks().firstiter is Loop.__repr__
                assert sys.get_coroutine_origin_tracking_depth() == 10
        schedule()
        seen.append(nothing_runs())

    def without() -> None:
        for _ in range(5):
            seen.append(nothing_runs())
            schedule()

    for _ in range(3):
        tasklet(with_one)()
        tasklet(without)()
    run()
    assert seen and all(seen)
    assert nothing_runs()


def test_the_main_tasklet_keeps_its_loop() -> None:
    loop, seen = Loop(), []
    with running(loop):
        tasklet(lambda: seen.append(nothing_runs()))()
        schedule()
        assert asyncio._get_running_loop() is loop
        run()
        assert asyncio._get_running_loop() is loop
    assert seen == [True]


def test_a_meeting_at_a_channel_changes_loops_in_both_directions() -> None:
    line: channel[object] = channel()
    got: list[object] = []

    def receiver(loop: Loop) -> None:
        with running(loop):
            for _ in range(3):
                got.append(line.receive() is asyncio._get_running_loop())

    mine = Loop()
    tasklet(receiver)(mine)
    schedule()
    with running(Loop()) as _:
        own = asyncio._get_running_loop()
        for _ in range(3):
            line.send(mine)
            assert asyncio._get_running_loop() is own
    run()
    assert got == [True, True, True]


def test_what_wakes_the_only_tasklet_finds_its_loop_back() -> None:
    loop: Loop = Loop()
    waiter: Waiter[str] = Waiter()
    timer = threading.Timer(0.01, lambda: waiter.succeed("done"))
    with running(loop):
        timer.start()
        assert waiter.wait() == "done"
        assert asyncio._get_running_loop() is loop
    timer.join()


def test_a_signal_handler_sees_the_loop_of_the_tasklet_that_waits_for_all() -> None:
    """As in asyncio. The tasklet that it wakes does not."""
    seen: list[object] = []
    loop = Loop()
    waiter: Waiter[None] = Waiter()

    def handler(number: int, frame: object) -> None:
        seen.append(asyncio._get_running_loop() is loop)
        waiter.succeed()

    def woken() -> None:
        waiter.wait()
        seen.append(nothing_runs())

    ends = tasklet(woken)()
    schedule()
    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        with running(loop):
            timer.start()
            run()
            assert asyncio._get_running_loop() is loop
            seen.append("main")
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not ends.alive
    assert seen == [True, True, "main"]


def test_a_loop_that_a_tasklet_leaves_running_ends_with_it() -> None:
    loop = Loop()
    gone = weakref.ref(loop)

    def leave(loop: Loop) -> None:
        sys.set_asyncgen_hooks(firstiter=print)
        asyncio._set_running_loop(loop)

    ended = tasklet(leave)(loop)
    del loop
    run()
    assert nothing_runs()
    assert gone() is None
    assert not ended.alive


def test_a_killed_tasklet_has_its_loop_in_its_finally_blocks() -> None:
    seen: list[object] = []

    def body(loop: Loop) -> None:
        with running(loop):
            try:
                schedule_remove()
            finally:
                seen.append(asyncio._get_running_loop() is loop)

    waits = tasklet(body)(Loop())
    schedule()
    waits.kill()
    assert seen == [True]
    assert nothing_runs()


@pytest.mark.backends("native", reason="on greenlet the collector sees no frames")
def test_a_tasklet_that_only_the_collector_finds_gives_its_loop_back() -> None:
    loop = Loop()
    gone = weakref.ref(loop)

    def body(loop: Loop) -> None:
        with running(loop):
            channel().receive()

    tasklet(body)(loop)
    del loop
    schedule()
    gc.collect()
    schedule()
    assert gone() is None
    assert nothing_runs()


def test_a_cycle_through_the_loop_is_seen_by_the_collector() -> None:
    loop = Loop()
    gone = weakref.ref(loop)
    sys.set_asyncgen_hooks(firstiter=print)
    asyncio._set_running_loop(loop)
    waits = tasklet(lambda: None)
    loop.waits = waits  # type: ignore[attr-defined]
    schedule()
    assert asyncio._get_running_loop() is loop
    asyncio._set_running_loop(None)
    sys.set_asyncgen_hooks(None, None)
    schedule()
    del loop, waits
    gc.collect()
    assert gone() is None


def test_hooks_alone_belong_to_the_tasklet_too() -> None:
    seen: list[bool] = []

    def body() -> None:
        sys.set_asyncgen_hooks(finalizer=print, firstiter=print)
        schedule()
        seen.append(sys.get_asyncgen_hooks() == (print, print))
        sys.set_asyncgen_hooks(None, None)

    tasklet(body)()
    tasklet(lambda: seen.append(nothing_runs()))()
    run()
    assert seen == [True, True]


def test_an_asynchronous_generator_is_finalized_by_the_loop_that_has_iterated_it() -> None:
    finalized: list[str] = []

    async def numbers() -> object:
        yield 1
        yield 2

    def body(name: str) -> None:
        sys.set_asyncgen_hooks(firstiter=lambda _: None, finalizer=lambda _: finalized.append(name))
        generator = numbers()
        with pytest.raises(StopIteration):
            generator.__anext__().send(None)  # type: ignore[attr-defined]
        schedule()
        del generator
        sys.set_asyncgen_hooks(None, None)

    tasklet(body)("first")
    tasklet(body)("second")
    run()
    assert finalized == ["first", "second"]


def test_the_running_task_stays_in_its_tasklet() -> None:
    """Two real loops, one in each tasklet: asyncio's C code finds the task of its own."""
    seen: list[object] = []

    async def main(number: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name(str(number))
        for _ in range(3):
            schedule()  # in the middle of the task's step
            assert asyncio.current_task() is task
            await asyncio.sleep(0)
            assert asyncio.current_task() is task
        seen.append(number)

    def none() -> None:
        for _ in range(6):
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.current_task()
            schedule()

    for number in range(3):
        tasklet(lambda number: asyncio.run(main(number)))(number)
    tasklet(none)()
    run()
    assert sorted(map(int, seen)) == [0, 1, 2]  # type: ignore[call-overload]


def test_a_schedule_callback_sees_the_loop_of_the_tasklet_that_is_left() -> None:
    seen: list[object] = []
    loop = Loop()
    other = tasklet(lambda: None)()
    with running(loop):
        set_schedule_callback(lambda before, after: seen.append((after is other, asyncio._get_running_loop() is loop)))
        try:
            schedule()
        finally:
            set_schedule_callback(None)
        assert asyncio._get_running_loop() is loop
    assert (True, True) in seen


def test_a_switch_that_is_refused_leaves_the_loop_in_place() -> None:
    loop = Loop()
    tasklet(lambda: None)()
    with running(loop):
        switch_trap(1)
        try:
            with pytest.raises(RuntimeError, match="switch_trap"):
                schedule()
        finally:
            switch_trap(-1)
        assert asyncio._get_running_loop() is loop
        assert sys.get_asyncgen_hooks().firstiter is not None
    run()


def test_a_loop_of_another_thread_is_not_touched() -> None:
    seen: list[bool] = []

    def thread() -> None:
        loop = Loop()
        with running(loop):
            tasklet(lambda: seen.append(nothing_runs()))()
            schedule()
            seen.append(asyncio._get_running_loop() is loop)

    def several(count: int) -> None:
        threads = [threading.Thread(target=thread) for _ in range(count)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    with running(Loop()):
        several(3)
        schedule()
        assert not nothing_runs()
    assert seen == [True] * 6


def test_a_forked_child_has_no_loop_in_the_tasklets_of_its_parent() -> None:
    """The loop belongs to its process, for asyncio too."""
    loop = Loop()
    result: list[bool] = []

    def body() -> None:
        with running(loop):
            schedule()
            result.append(asyncio._get_running_loop() is loop)

    tasklet(body)()
    schedule()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            run()
            os.write(write_end, b"sees none" if result == [False] else repr(result).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    said = os.read(read_end, 100)
    os.close(read_end)
    os.waitpid(child, 0)
    run()
    assert said == b"sees none"
    assert result == [True]


@pytest.mark.backends("native", reason="on greenlet no tasklet can be saved")
def test_a_tasklet_in_which_a_loop_runs_is_not_saved() -> None:
    def body() -> None:
        with running(Loop()):
            schedule_remove()

    waits = tasklet(body)()
    schedule()
    with pytest.raises(snapshot.SnapshotError, match="an event loop of asyncio runs in it.*when asyncio.run"):
        snapshot.dumps(waits)
    waits.kill()


def test_a_tasklet_with_a_loop_stays_in_its_thread() -> None:
    def body() -> None:
        with running(Loop()):
            schedule_remove()

    waits = tasklet(body)()
    schedule()
    refused: list[str] = []

    def elsewhere() -> None:
        getcurrent()
        try:
            waits.bind_thread()
        except RuntimeError as error:
            refused.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    waits.kill()
    assert len(refused) == 1


def test_nothing_is_left_of_many() -> None:
    class Counted(Loop):
        alive = 0

        def __init__(self) -> None:
            Counted.alive += 1

        def __del__(self) -> None:
            Counted.alive -= 1

    def body() -> None:
        with running(Counted()):
            schedule()
            schedule()

    for _ in range(100):
        tasklet(body)()
    run()
    assert Counted.alive == 0
