"""The look from inside: every tasklet, what it waits for, since when, and what could wake it."""

import asyncio
import contextlib
import gc
import os
import sys
import time
from types import SimpleNamespace

import pytest

import roamlet
from roamlet import aio, core, diagnose, io, sync
from roamlet.core import os_threads
from roamlet.diagnose import model, render
from roamlet.diagnose.model import BLOCKED, IN_RUN, NEW, PAUSED, RUNNABLE, RUNNING

HERE = __file__
native = pytest.mark.backends("native", reason="greenlet shows no references of suspended frames")


def found(tasklet, process=None):
    """What the look says about this tasklet."""
    made = (process or diagnose.tree()).find(id(tasklet))
    assert made is not None
    return made


def started(function, *args):
    tasklet = roamlet.tasklet(function)(*args)
    tasklet.run()
    return tasklet


def test_states_of_tasklets():
    channel = roamlet.channel()
    blocked, paused = started(channel.receive), started(roamlet.schedule_remove)
    runnable = started(roamlet.schedule)
    new = roamlet.tasklet(roamlet.schedule)()
    process = diagnose.tree()
    states = {
        tasklet: found(tasklet, process).state for tasklet in (blocked, paused, runnable, new, roamlet.getcurrent())
    }
    assert list(states.values()) == [BLOCKED, PAUSED, RUNNABLE, NEW, RUNNING]
    assert process.threads[0].scheduler.current == id(roamlet.getmain())
    assert process.threads[0].scheduler.runnable == 3
    paused.kill()
    channel.send(None)
    roamlet.run()
    assert diagnose.tree().find(id(blocked)) is None


def test_main_in_run_is_seen_by_a_tasklet():
    seen = []
    roamlet.tasklet(lambda: seen.append(diagnose.tree()))()
    roamlet.run()
    assert found(roamlet.getmain(), seen[0]).state == IN_RUN


def waiter_in_a_function(channel):
    channel.receive()  # the line that is looked for


def outer(channel):
    waiter_in_a_function(channel)


def test_stacks_have_functions_and_lines_the_innermost_first():
    channel = roamlet.channel()
    tasklet = started(outer, channel)
    frames = found(tasklet).frames
    line = waiter_in_a_function.__code__.co_firstlineno + 1
    assert [(frame.function, frame.file, frame.line) for frame in frames] == [
        ("waiter_in_a_function", HERE, line),
        ("outer", HERE, outer.__code__.co_firstlineno + 1),
    ]
    own = found(roamlet.getcurrent()).frames[1]  # its caller
    assert own.function == "test_stacks_have_functions_and_lines_the_innermost_first"
    channel.send(None)


def test_locals_are_shown_when_they_are_asked_for_alone():
    class Broken:
        def __repr__(self):
            raise RuntimeError("no repr")

    def body(broken, text):
        channel.receive()

    channel = roamlet.channel()
    tasklet = started(body, Broken(), "x" * 500)
    assert found(tasklet).frames[0].locals is None
    shown = dict(found(tasklet, diagnose.tree(locals=True)).frames[0].locals)
    assert shown["broken"] == "<its repr raised RuntimeError>"
    assert shown["text"].startswith("'xxx") and len(shown["text"]) == 200
    channel.send(None)


def test_a_channel_with_those_who_wait_and_a_tasklet_that_refers_to_it():
    channel, other = roamlet.channel(), roamlet.channel()

    def feeder(out):
        other.receive()
        out.send(1)
        out.send(2)

    first, second = started(outer, channel), started(outer, channel)
    feeding = started(feeder, channel)
    process = diagnose.tree()
    wait = found(first, process).wait
    assert (wait.kind, wait.on, wait.address, wait.others) == (model.RECEIVE, "channel", id(channel), 1)
    assert wait.text == f"receive on channel {id(channel):#x}"
    if core.backend != "greenlet":
        assert [waker.tasklet for waker in wait.wakers if waker.kind == "tasklet"] == [id(feeding)]
        assert "feeder" in wait.wakers[0].text and "refers to it" in wait.wakers[0].text
    assert found(second, process).wait.wakers == wait.wakers
    other.send(None)
    roamlet.run()


@native
def test_a_channel_that_only_a_global_name_leads_to():
    global _global_channel
    _global_channel = roamlet.channel()
    start = roamlet.channel()
    waiting, feeding = started(outer, _global_channel), started(sends_to_the_global, start)
    wakers = found(waiting).wait.wakers
    assert [waker.tasklet for waker in wakers if waker.tasklet] == [id(feeding)]
    start.send(None)
    roamlet.run()
    del _global_channel


def sends_to_the_global(start):
    start.receive()
    _global_channel.send(1)


def test_since_when_and_until_when():
    event = sync.Event()
    timed = started(event.wait, 40.0)
    roamlet.sleep(0.06)
    asleep = started(roamlet.sleep, 30)
    wait = found(timed).wait
    assert wait.kind == model.EVENT
    assert 0.03 < wait.since < 30 and 30 < wait.due < 40
    assert "for 3" in render.waits_for(wait)
    sleeping = found(asleep).wait
    assert (sleeping.kind, sleeping.on) == (model.TIMER, "")
    assert 25 < sleeping.due <= 30 and sleeping.since < 25
    assert any(waker.kind == "timer" for waker in wait.wakers)
    event.set()
    asleep.kill()
    roamlet.run()


def test_select_has_its_channels():
    one, two = roamlet.channel(), roamlet.channel()
    tasklet = started(roamlet.select, one, (two, 5))
    wait = found(tasklet).wait
    assert (wait.kind, wait.channels) == (model.SELECT, (id(one), id(two)))
    one.send(None)
    roamlet.run()


@pytest.mark.parametrize("make", [sync.RLock, pytest.param(sync.Lock, marks=native)])
def test_a_lock_has_its_holder(make):
    lock, go = make(), roamlet.channel()

    def holds():
        with lock:
            go.receive()

    def wants():
        with lock:
            pass

    holder, waiting = started(holds), started(wants)
    wait = found(waiting).wait
    assert (wait.kind, wait.owner, wait.address) == (model.LOCK, id(holder), id(lock))
    assert [waker.tasklet for waker in wait.wakers] == [id(holder)]
    assert wait.wakers[0].text.startswith(
        f"test_a_lock_has_its_holder.<locals>.holds ({id(holder):#x}) holds it: blocked, receive"
    )
    go.send(None)
    roamlet.run()


@pytest.mark.parametrize(
    ("make", "call", "kind"),
    [
        (sync.Condition, "wait", model.CONDITION),
        (lambda: sync.Semaphore(0), "acquire", model.SEMAPHORE),
        (sync.Event, "wait", model.EVENT),
        pytest.param(sync.Queue, "get", model.QUEUE, marks=native),  # its Condition does not know it
        (sync.SimpleQueue, "get", model.QUEUE),
        (core.Waiter, "wait", model.WAKEUP),
    ],
)
def test_kinds_of_waits(make, call, kind):
    on = make()

    def body():
        if kind == model.CONDITION:
            with on:
                getattr(on, call)()
        else:
            getattr(on, call)()

    tasklet = started(body)
    assert found(tasklet).wait.kind == kind
    tasklet.kill()


def holds_an_argument(lock, channel):
    with lock:
        channel.receive()


def holds_an_attribute(lock, channel):
    of = SimpleNamespace(lock=lock)
    with contextlib.nullcontext(), of.lock:
        for _ in range(1):
            channel.receive()


def holds_in_a_call(lock, channel):
    with lock, lock_of_another:
        holds_an_argument(sync.Lock(), channel)


lock_of_another = sync.Lock()


@native
@pytest.mark.parametrize("holds", [holds_an_argument, holds_an_attribute, holds_in_a_call])
def test_a_plain_lock_has_its_holder_wherever_the_with_statement_has_it_from(holds):
    lock, channel = sync.Lock(), roamlet.channel()
    holder, waiting = started(holds, lock, channel), started(holds_an_argument, lock, channel)
    assert found(waiting).wait.owner == id(holder)
    channel.send(None)
    channel.send(None)
    roamlet.run()
    assert not lock.locked()


@native
def test_a_join_has_the_tasklet_that_is_joined():
    channel = roamlet.channel()
    spawned = roamlet.spawn(outer, (channel,))
    joining = started(spawned.join)
    roamlet.schedule()
    wait = found(joining).wait
    assert (wait.kind, wait.function) == (model.JOIN, "outer")
    assert [waker.tasklet for waker in wait.wakers if waker.tasklet] == [id(spawned)]
    channel.send(None)
    roamlet.run()


@native
def test_a_scope_that_is_left_waits_for_its_children_whose_parent_is_its_owner():
    channel = roamlet.channel()
    children = []

    def parent():
        with roamlet.scope() as scope:
            children.append(scope.spawn(outer, (channel,)))

    tasklet = started(parent)
    roamlet.schedule()
    process = diagnose.tree()
    child = found(children[0], process)
    assert (child.parent, child.scope) == (id(tasklet), "roamlet.scope()")
    wait = found(tasklet, process).wait
    assert (wait.kind, wait.function) == (model.JOIN, "1 tasklets of a scope")
    assert [waker.tasklet for waker in wait.wakers if waker.tasklet] == [id(children[0])]
    lines = render.tree(process).splitlines()
    at = next(number for number, line in enumerate(lines) if "parent (0x" in line)
    assert "outer (0x" in lines[at + 1] and lines[at + 1].index("─ outer") > lines[at].index("─ ")
    channel.send(None)
    roamlet.run()


def accepts(server):
    connection, _ = server.accept()
    connection.recv(1)
    connection.close()


def test_descriptors_with_their_peers():
    reading, writing = os.pipe()
    server = io.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    port = server.getsockname()[1]
    client = io.socket()
    accepting = started(accepts, server)
    waits_for_pipe = started(io.wait_readable, reading)
    roamlet.sleep(0)
    process = diagnose.tree()
    wait = found(waits_for_pipe, process).wait
    assert (wait.kind, wait.descriptor) == (model.READ, reading)
    assert "pipe" in wait.peer
    assert found(accepting, process).wait.peer == f"connections to 127.0.0.1:{port}"
    assert any(waker.kind == "descriptor" for waker in wait.wakers)
    client.connect(("127.0.0.1", port))
    receiving = started(client.recv, 1)
    peer = found(receiving).wait
    assert (peer.kind, peer.peer) == (model.READ, f"127.0.0.1:{port}")
    receiving.kill()
    client.send(b"x")
    os.write(writing, b"x")
    roamlet.run()
    for each in (client, server):
        each.close()
    os.close(reading)
    os.close(writing)


@pytest.mark.leaves("objects", reason="the connection that accept() returned dies with its tasklet")
def test_a_descriptor_that_is_written_to():
    reading, writing = os.pipe()
    tasklet = started(io.write, writing, b"x" * (1 << 20))
    roamlet.sleep(0)
    wait = found(tasklet).wait
    assert (wait.kind, wait.descriptor) == (model.WRITE, writing)
    os.close(reading)
    tasklet.kill()
    os.close(writing)


@native
@pytest.mark.leaves("threads", reason="the worker thread rests for ten seconds")
def test_a_job_on_a_worker_thread_and_one_that_waits_for_a_thread():
    gate = os_threads.allocate_lock()
    gate.acquire()

    def blocks():
        with gate:
            pass

    tasklet = started(roamlet.call_async, blocks)
    roamlet.sleep(0.05)
    wait = found(tasklet).wait
    assert wait.kind == model.JOB and "roamlet-service-worker" in wait.function
    assert wait.wakers[0].kind == "thread"
    gate.release()
    roamlet.run()


@pytest.mark.leaves("threads", reason="a thread that blocks outside of roamlet, and ends by itself")
def test_threads_without_tasklets_are_listed_with_their_stacks():
    gate = os_threads.allocate_lock()
    gate.acquire()

    def blocks_its_thread():
        gate.acquire()

    thread = os_threads.OSThread(target=blocks_its_thread, name="outsider")
    thread.start()
    made = next(each for each in diagnose.tree().threads if each.name == "outsider")
    while not any("blocks_its_thread" in frame.function for frame in made.frames):
        made = next(each for each in diagnose.tree().threads if each.name == "outsider")
    assert made.scheduler is None and made.native_id == thread.native_id
    gate.release()
    thread.join()


def test_tasks_of_an_event_loop_are_below_its_tasklet():
    seen = []

    async def inner():
        await asyncio.sleep(30)

    async def main():
        task = asyncio.ensure_future(inner())
        await asyncio.sleep(0)
        seen.append(diagnose.tree())
        task.cancel()

    aio.run(main())
    tasks = [task for _, tasklet in seen[0].tasklets() for task in tasklet.tasks]
    assert sorted(task.coroutine.rpartition(".")[2] for task in tasks) == ["inner", "main"]
    sleeping = next(task for task in tasks if task.coroutine.endswith("inner"))
    assert sleeping.state == BLOCKED and sleeping.awaits == "Future"
    assert [frame.function.rpartition(".")[2] for frame in sleeping.frames] == ["sleep", "inner"]


def test_a_look_leaves_nothing_behind_and_changes_nothing():
    channel = roamlet.channel()
    tasklet = started(outer, channel)
    gc.collect()
    before, objects = sys.getrefcount(channel), len(gc.get_objects())
    for _ in range(3):
        diagnose.tree()
    assert gc.collect() == 0
    assert sys.getrefcount(channel) == before
    assert len(gc.get_objects()) - objects < 200
    channel.send(None)
    assert not tasklet.alive


def test_a_look_from_another_thread_sees_a_thread_that_sleeps_in_its_hub():
    seen = []
    channel = roamlet.channel()

    def look():
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            process = diagnose.tree()
            main = next(each for each in process.threads if each.main)
            if main.scheduler.idle:
                seen.append(process)
                break
        waiting.set()

    waiting = sync.Event()
    thread = os_threads.OSThread(target=look)
    tasklet = started(outer, channel)
    thread.start()
    waiting.wait()
    thread.join()
    process = seen[0]
    main = next(each for each in process.threads if each.main)
    assert main.scheduler.current is None
    own = found(roamlet.getmain(), process)
    assert own.state == BLOCKED and own.wait.kind == model.EVENT
    assert own.frames[0].function == "test_a_look_from_another_thread_sees_a_thread_that_sleeps_in_its_hub"
    assert found(tasklet, process).state == BLOCKED
    channel.send(None)


def test_a_thousand_tasklets_on_one_channel_are_one_row():
    channel = roamlet.channel()
    tasklets = [started(outer, channel) for _ in range(1000)]
    process = diagnose.tree()
    assert sum(1 for _, each in process.tasklets() if each.name == "outer") == 1000
    assert found(tasklets[7], process).wait.others == 999
    rows = [line for line in render.table(process).splitlines() if " outer " in line]
    assert len(rows) == 1 and " 1,000 " in rows[0]
    for _ in tasklets:
        channel.send(None)
