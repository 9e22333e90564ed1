"""Programs for the tests of readers from outside, each a process of its own: `python program.py NAME [ARG...]`.

It prints the numbers that the test needs, as one line of JSON, when it is as it is to be looked at.
"""

import ctypes
import functools
import hashlib
import json
import mmap
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import roamlet
import roamlet.io
from roamlet import core, diagnose, remote, sync

channel = core.channel()


def say(**facts):
    print(json.dumps({"pid": os.getpid(), **facts}), flush=True)


def inner(number):
    got = channel.receive()
    return got + number


def middle(number):
    return [inner(number)]


def outer(number):
    middle(number)


class Deep:
    def méthode(self, n):  # noqa: PLC2401 - not ASCII, and with C between the frames: sorted() calls back
        return sorted([1, 2], key=lambda x: channel.receive() if n == 0 else self.méthode(n - 1))


def generated():
    yield from (core.sleep(1000) for _ in range(3))


def sleeper():
    for _ in generated():
        pass


def selector(one, other):
    core.select(one, (other, 1))


def never():
    pass


def all_kinds():
    """A tasklet for each way to wait; returns what must live."""
    lock, rlock, semaphore, event = sync.Lock(), sync.RLock(), sync.Semaphore(0), sync.Event()
    condition = sync.Condition()
    lock.acquire()
    waiter = core.Waiter()
    read_end, write_end = os.pipe()

    def holds():
        with rlock:
            channel.receive()

    def wants():
        with rlock:
            pass

    def waits_for_condition():
        with condition:
            condition.wait()

    def sends():
        closed.send(1)

    def reads():
        roamlet.io.wait_readable(read_end)

    closed = core.channel(1)
    closed.send(0)
    made = [
        core.tasklet(Deep().méthode)(2),
        core.tasklet(sleeper)(),
        core.tasklet(selector)(core.channel(), core.channel()),
        core.tasklet(lock.acquire)(),
        core.tasklet(holds)(),
        core.tasklet(wants)(),
        core.tasklet(semaphore.acquire)(),
        core.tasklet(event.wait)(),
        core.tasklet(waits_for_condition)(),
        core.tasklet(sends)(),
        core.tasklet(reads)(),
        core.tasklet(waiter.wait)(),
        roamlet.spawn(outer, (7,)),
    ]
    run_queue()
    return made, (lock, rlock, semaphore, event, condition, closed, waiter, read_end, write_end)


def run_queue():
    core.schedule()
    while core.getruncount() > 1:
        core.schedule()


def hang(how):
    """Never return from C code that keeps the GIL."""
    if how == "sleep":
        ctypes.PyDLL(None).sleep(1000)
    else:
        re.match(r"(a+)+$", "a" * 60 + "b")


def kinds(how):
    """Every kind of wait, then a hang."""
    made, kept = all_kinds()

    def stuck():
        unborn = core.tasklet(never)()
        say(unborn=id(unborn), **truth(made))
        hang(how)

    core.tasklet(stuck)()
    core.schedule()
    del kept


def truth(made):
    rows = {}
    for tasklet in [*core.started(), core.getmain()]:
        stack, frame = [], tasklet.frame
        while frame is not None:
            stack.append([frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno])
            frame = frame.f_back
        rows[str(id(tasklet))] = [repr(tasklet), stack]
    return {"tasklets": rows, "made": [id(tasklet) for tasklet in made]}


def blocked(count):
    """So many tasklets that wait for one channel, and an idle main."""
    for number in range(int(count)):
        core.tasklet(outer)(number)
    run_queue()
    say()
    core.sleep(1000)


def own_functions(count):
    """So many tasklets each of whose functions is an object of its own: methods, closures and others, in turn."""

    class Waits:
        def here(self, depth):
            return channel.receive() if depth == 0 else self.here(depth - 1)

    def closure(number):
        def inside(depth):
            return number, channel.receive()

        return inside

    made = []
    for number in range(int(count)):
        functions = (Waits().here, closure(number), functools.partial(Waits().here, 1), core.channel().receive)
        function = functions[number % 4]
        made.append(core.tasklet(function)(*() if number % 4 > 1 else (number % 3,)))
    run_queue()
    say(tree=diagnose.tree().to_json())
    core.sleep(1000)


def sleepers():
    """Tasklets that are alike but in their times: of each when it began to wait, and for how many seconds; and main in run()."""

    def sleeps(number):
        began[id(core.getcurrent())] = time.monotonic(), number
        core.sleep(number)

    def tells():
        core.sleep(0.05)
        say(began=began)
        core.sleep(1000)

    began = {}
    for number in range(1000, 1005):
        core.tasklet(sleeps)(number)
        core.schedule()
        core.sleep(0.02)
    core.tasklet(tells)()
    core.run()


def deadlock(kind):
    """Three tasklets that wait for each other's locks, while others go on."""
    locks = [getattr(sync, kind)() for _ in range(3)]

    def transfer(number):
        with locks[(number + 2) % 3]:  # held no longer
            pass
        core.schedule()
        with locks[number]:
            core.schedule()
            with locks[(number + 1) % 3]:
                pass

    made = [core.tasklet(transfer)(number) for number in range(3)]
    ticks = [0]

    def ticker():
        while True:
            core.sleep(0.01)
            ticks[0] += 1

    core.tasklet(ticker)()
    core.sleep(0.3)
    say(made=[id(tasklet) for tasklet in made])
    core.sleep(1000)


def cycle(kind):
    """Tasklets that wait for each other in one of many ways, while others go on. Prints what the process itself sees."""
    made = globals()[f"cycle_of_{kind}"]()

    def ticker():
        while True:
            core.sleep(0.05)

    core.tasklet(ticker)()
    core.sleep(0.3)
    before = time.monotonic()
    tree = diagnose.tree().to_json()
    say(tree=tree, clock=[before, time.monotonic()])
    core.sleep(1000)
    del made


def cycle_of_joins():
    made = {}

    def joins(other):
        made[other].join()

    made["one"] = roamlet.spawn(joins, ("other",))
    made["other"] = roamlet.spawn(joins, ("one",))
    return made


def cycle_of_scopes():
    """A tasklet waits for the children of its scope, one of which joins it."""
    made = {}

    def child():
        made["parent"].join()

    def parent():
        with roamlet.scope() as scope:
            scope.spawn(child)

    made["parent"] = roamlet.spawn(parent)
    return made


def cycle_of_channels():
    one, other = core.channel(), core.channel()

    def waits_for_one():
        one.receive()
        other.send(1)

    def waits_for_other():
        other.receive()
        one.send(1)

    return core.tasklet(waits_for_one)(), core.tasklet(waits_for_other)()  # which the collector would end otherwise


def cycle_of_channel_and_lock():
    lock, one = sync.Lock(), core.channel()

    def holds():
        with lock:
            one.receive()

    def wants():
        with lock:
            one.send(1)

    return core.tasklet(holds)(), core.tasklet(wants)()


def contexts():
    """A context and one that is reached through it, with calls in flight; prints what the process itself sees."""
    with remote.local() as near, remote.local(via=near) as far:
        tasklets = [
            roamlet.spawn(context.call, (time.sleep, (seconds,)))
            for context, seconds in ((near, 1000), (near, 1001), (far, 1002))
        ]
        near.call(os.getpid)
        core.sleep(0.5)
        say(tree=diagnose.tree().to_json(), made=[id(tasklet) for tasklet in tasklets])
        core.sleep(1000)


def loops():
    """Two tasklets with event loops, which have tasks in each state; prints what the process itself sees."""
    import asyncio

    from roamlet import aio

    async def innermost():
        await asyncio.get_running_loop().create_future()

    async def between():
        await innermost()

    async def waits_for(task):
        await task

    async def blocks():
        core.sleep(1000)

    async def generates():
        yield await asyncio.sleep(1000)

    async def iterates():
        async for _ in generates():
            pass

    async def all_states(block):
        first = asyncio.create_task(between(), name="first")
        made = [first, asyncio.create_task(waits_for(first)), asyncio.create_task(iterates(), name="iterates")]
        made.append(asyncio.create_task(asyncio.sleep(0), name="done"))
        await asyncio.sleep(0.1)
        if block:
            made.append(asyncio.create_task(blocks(), name="blocks"))
            await asyncio.sleep(0)
        await asyncio.gather(*made)

    core.tasklet(aio.run)(all_states(False))
    core.tasklet(aio.run)(all_states(True))
    core.sleep(0.5)
    say(tree=diagnose.tree().to_json())
    core.sleep(1000)


class Service:
    def __init__(self):
        self.requests, self.replies = core.channel(), core.channel()


def cycle_of_none():
    """What looks like a cycle: but an object that a sleeping tasklet has leads to both channels."""
    service = Service()

    def waits(first, second):
        first.receive()
        second.send(1)

    def helps(service):
        core.sleep(1000)
        service.requests.send(1)

    core.tasklet(waits)(service.requests, service.replies)
    core.tasklet(waits)(service.replies, service.requests)
    core.tasklet(helps)(service)


one_way, other_way = core.channel(), core.channel()


def cycle_of_globals():
    def waits(first):
        if first:
            one_way.receive()
            other_way.send(1)
        else:
            other_way.receive()
            one_way.send(1)

    return core.tasklet(waits)(True), core.tasklet(waits)(False)


def cycle_of_locks():
    return cycle_of("Lock")


def cycle_of_rlocks():
    return cycle_of("RLock")


def cycle_of(kind):
    locks = [getattr(sync, kind)() for _ in range(3)]

    def transfer(number):
        with locks[number]:
            core.schedule()
            with locks[(number + 1) % 3]:
                pass

    return [core.tasklet(transfer)(number) for number in range(3)]


def busy(count, seconds="1000"):
    """Switches at full speed, with tasklets that begin and end and stacks of changing depth; `count` others wait."""
    for number in range(int(count)):
        core.tasklet(outer)(number)
    run_queue()
    mailbox = core.channel()

    def deeper(depth):
        return deeper(depth - 1) if depth else mailbox.receive()

    def born(depth):
        deeper(depth)

    say()
    end, depth, rounds = time.monotonic() + float(seconds), 0, 0
    longest, last = 0.0, time.perf_counter()
    while time.monotonic() < end:
        for _ in range(50):
            depth = (depth + 1) % 12
            core.tasklet(born)(depth)
            core.schedule()
            mailbox.send(depth)
        now = time.perf_counter()
        longest, last, rounds = max(longest, now - last), now, rounds + 1
        if rounds % 100 == 0 and int(count):
            channel.send(1)
            core.tasklet(outer)(0)
            core.schedule()
    say(longest=longest, rounds=rounds)


def exchanged(count):
    """So many messages, and nothing more."""

    def receives():
        while True:
            channel.receive()

    core.tasklet(receives)()
    for number in range(int(count)):
        channel.send(number)
    say()
    core.sleep(1000)


def threads():
    """Two threads with tasklets, and one without."""
    ready = threading.Barrier(3)

    def with_tasklets():
        core.tasklet(outer)(1)
        core.schedule()
        ready.wait()
        core.sleep(1000)

    def without():
        ready.wait()
        time.sleep(1000)

    for function in (with_tasklets, without):
        threading.Thread(target=function, name=function.__name__, daemon=True).start()
    core.tasklet(outer)(0)
    core.schedule()
    ready.wait()
    time.sleep(0.1)
    say()
    time.sleep(1000)


def scopes():
    """Tasklets spawned in scopes."""

    def child():
        channel.receive()

    def parent():
        with roamlet.scope() as scope:
            scope.spawn(child)
            scope.spawn(child)

    made = core.tasklet(parent)()
    run_queue()
    say(parent=id(made))
    core.sleep(1000)


def with_locals():
    """Local variables of every simple type."""

    def variables(text, number=-(2**70)):
        flag, nothing, real, data = True, None, 1.5, b"bytes"
        several, few, mapping = [1, "two", (3,), None, 5, 6], (1,), {"a": 1}
        captured = 12

        def inside():
            return captured

        channel.receive()
        return flag, nothing, real, data, several, few, mapping, inside, number

    core.tasklet(variables)("secret")
    run_queue()
    say()
    core.sleep(1000)


def inspected():
    """The situations of CPython's test_external_inspection, with tasklets in the place of threads, coroutines and tasks."""

    def bar():
        roamlet.sleep(1000)

    def baz():
        bar()

    def foo():
        baz()

    def generator():
        for _ in range(1):
            yield channel.receive()

    def consumer():
        for _ in generator():
            pass

    def delegating():
        yield from generator()

    def through_two_generators():
        list(delegating())

    def deep(depth):
        return deep(depth - 1) if depth else channel.receive()

    def in_pieces():
        return [
            channel
            .receive()
            for _
            in range(1)
        ]  # fmt: skip

    def worker(delay):
        roamlet.sleep(delay)

    def gather():
        with roamlet.scope() as scope:
            for _ in range(2):
                scope.spawn(worker, (1000,))

    def race():
        with roamlet.scope() as outer_scope:
            outer_scope.spawn(gather)
            channel.receive()

    def handling():
        try:
            raise ValueError
        except ValueError:
            channel.receive()

    made = {
        function.__name__: core.tasklet(function)
        for function in (foo, consumer, through_two_generators, in_pieces, gather, race, handling)
    }
    made["deep"] = core.tasklet(lambda: deep(300))
    namespace = {"channel": channel}
    exec(compile("def f(ü=1):\n\n\n    channel.receive()\n", "a file\nof another name", "exec"), namespace)
    made["f"] = core.tasklet(namespace["f"])
    for tasklet in made.values():
        tasklet()
    run_queue()
    run_queue()
    stacks = {}
    for name, tasklet in made.items():
        stack, frame = [], tasklet.frame
        while frame is not None:
            stack.append([frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno])
            frame = frame.f_back
        stacks[name] = [id(tasklet), stack]
    say(stacks=stacks)
    core.sleep(1000)


def descriptors():
    """A tasklet for each kind of descriptor; prints what is at their other ends."""
    ends = {}
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    kept = listener.accept()
    pair = socket.socketpair()
    read_end, _ = os.pipe()
    child = subprocess.Popen(["sleep", "1000"])
    pidfd = os.pidfd_open(child.pid)
    for name, fd in (
        ("listener", listener),
        ("client", client),
        ("pair", pair[0]),
        ("pipe", read_end),
        ("process", pidfd),
    ):
        number = fd if isinstance(fd, int) else fd.fileno()
        ends[name] = id(core.tasklet(roamlet.io.wait_readable)(number))
    run_queue()
    say(ends=ends, port=listener.getsockname()[1], child=child.pid)
    try:
        core.sleep(1000)
    finally:
        child.kill()
        del kept


def paused():
    """A paused tasklet beside others that exchange messages at full speed."""
    made = core.tasklet(core.schedule_remove)()
    core.schedule()

    def receives():
        while True:
            channel.receive()

    core.tasklet(receives)()
    say(made=id(made))
    while True:
        channel.send(1)


def strange_names(folder):
    """The thread, a mapped file and a socket have names that are no UTF-8, and with line ends of other systems."""
    ctypes.CDLL(None).prctl(15, b"caf\xc3\r", 0, 0, 0)  # PR_SET_NAME; what cuts a name at 15 bytes cuts characters
    path = os.path.join(os.fsencode(folder), b"lib\xff\r.so")
    with open(path, "wb+") as file:
        file.write(b"\0" * 4096)
        file.flush()
        kept = mmap.mmap(file.fileno(), 4096)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(b"\0%d\xff\r" % os.getpid())
    listener.listen()
    pair = socket.socketpair()
    core.tasklet(roamlet.io.wait_readable)(pair[0].fileno())
    run_queue()
    say()
    core.sleep(1000)
    del kept, listener, pair


def in_the_kernel():
    """A thread is in the kernel, as one is whose disk does not answer, while another one computes."""
    libc, number = ctypes.PyDLL(None), {"x86_64": 56, "aarch64": 220}[platform.machine()]

    def waits_for_child():
        time.sleep(0.3)  # from then on no other thread wants the GIL, which the child would never get back
        if (
            libc.syscall(number, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0) == 0
        ):  # clone(CLONE_VFORK): until the child has ended
            libc.sleep(2)
            libc._exit(0)
        time.sleep(1000)

    core.getmain()
    thread = threading.Thread(target=waits_for_child, daemon=True)
    say()
    thread.start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)


def unused():
    """roamlet is imported, and no tasklet was made."""
    say()
    time.sleep(1000)


def changed(old, new):
    """The table says something else than it did."""
    module = ctypes.PyDLL(sys.modules[f"roamlet.core._{core.backend}"].__file__)
    address = ctypes.addressof(ctypes.c_char.in_dll(module, "roamlet_layout"))
    table = ctypes.string_at(address, 12_000)
    ctypes.memmove(address + table.index(old.encode()), new.encode(), len(new))
    core.getmain()
    say()
    time.sleep(1000)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
