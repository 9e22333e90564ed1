"""Every method, attribute and function of the core with every kind of object, in every state: what tests/core/test_fuzz.py
runs in a process of its own, and what shows one case again:

    python -m tests.core._fuzz CASE       a line as test_fuzz prints it
    python -m tests.core._fuzz --random SEED COUNT
    python -m tests.core._fuzz --exhaustive SHARE SUBJECT STATE...

A case is "subject/state/member/arguments/place". What the call returns or raises does not matter (but SystemError and hangs
do); what matters is that the world is sane afterwards: one tasklet runs, nothing is left, a message still passes.
"""

import contextvars
import gc
import os
import random
import signal
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import greenlet

import weft
from weft import core

Thunk = Callable[[], object]


class Hang(BaseException):
    """A case did not come back in time."""


class Boom(Exception):
    pass


class World:
    """What one case has made, so that all of it can be ended."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.tasklets: list[Any] = []
        self.channels: list[Any] = []
        self.keep: list[Any] = []
        self.stop: list[Callable[[], None]] = []

    def channel(self) -> Any:
        self.channels.append(weft.channel())
        return self.channels[-1]

    def tasklet(self, function: Callable[..., object], *args: Any, runs: bool = True) -> Any:
        """A tasklet of this function, kept; it has begun when `runs`."""
        made = weft.tasklet(function, args)
        self.tasklets.append(made)
        made.insert()
        if runs:
            weft.schedule()
        return made

    def advance(self, seconds: float) -> None:
        self.now += min(max(seconds, 0.001), 1e6)


# ---- objects that do something when they are asked anything ----


def quietly(function: Callable[..., object], *args: Any) -> None:
    try:
        function(*args)
    except (Exception, SystemExit):
        return


class Failing:
    """Whatever is asked of it fails."""

    def fail(self, *args: Any, **kwargs: Any) -> Any:
        raise LookupError("asked")

    __call__ = __iter__ = __index__ = __float__ = __bool__ = __repr__ = __eq__ = fail  # type: ignore[assignment]
    __hash__ = __len__ = __getattr__ = __int__ = fail  # type: ignore[assignment]


class Acting:
    """Whatever is asked of it, it switches, sends and kills first, and when it is dropped; then it answers."""

    depth = 0

    def __init__(self, world: World) -> None:
        self.world = world

    def act(self) -> None:
        if Acting.depth > 3:
            return
        Acting.depth += 1
        try:
            quietly(weft.schedule)
            for tasklet in self.world.tasklets[:2]:
                quietly(tasklet.kill)
            for channel in self.world.channels[:2]:
                if channel.balance < 0:
                    quietly(channel.send, self)
        finally:
            Acting.depth -= 1

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.act()

    def __iter__(self) -> Iterator[int]:
        self.act()
        return iter((1, 2))

    def __index__(self) -> int:
        self.act()
        return 1

    def __float__(self) -> float:
        self.act()
        return 1.0

    def __bool__(self) -> bool:
        self.act()
        return True

    def __len__(self) -> int:
        self.act()
        return 2

    def __repr__(self) -> str:
        self.act()
        return "acting"

    def __eq__(self, other: object) -> bool:
        self.act()
        return False

    def __hash__(self) -> int:
        self.act()
        return 1

    def __del__(self) -> None:
        self.act()


class ActingError(Exception):
    """An exception class whose making and dropping switches."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        quietly(weft.schedule)

    def __del__(self) -> None:
        quietly(weft.schedule)


class NoError(Exception):
    """An exception class that makes no exceptions."""

    def __new__(cls, *args: Any) -> Any:
        return 5


class HostileTasklet(weft.tasklet):  # type: ignore[type-arg]
    """Switches, comes back and kills whenever it can."""

    revived: list[Any] = []

    def __eq__(self, other: object) -> bool:
        quietly(weft.schedule)
        return self is other

    def __hash__(self) -> int:
        quietly(weft.schedule)
        return 7

    def __repr__(self) -> str:
        quietly(weft.schedule)
        return "hostile"

    def __del__(self) -> None:
        quietly(weft.schedule)
        quietly(self.kill)
        if not HostileTasklet.revived:
            HostileTasklet.revived.append(self)


class HostileChannel(weft.channel):  # type: ignore[type-arg]
    def __del__(self) -> None:
        quietly(weft.schedule)
        quietly(self.close)

    def __eq__(self, other: object) -> bool:
        quietly(weft.schedule)
        return self is other

    __hash__ = None  # type: ignore[assignment]


def suspended_traceback() -> types.TracebackType | None:
    try:
        raise Boom
    except Boom as error:
        return error.__traceback__


def generator_that_switches() -> Iterator[int]:
    quietly(weft.schedule)
    yield 1
    quietly(weft.schedule)


# What a call is given, made anew for each. The subject is what the method belongs to.
KINDS: dict[str, Callable[[World, Any], Any]] = {
    "None": lambda world, subject: None,
    "True": lambda world, subject: True,
    "0": lambda world, subject: 0,
    "1": lambda world, subject: 1,
    "-1": lambda world, subject: -1,
    "huge": lambda world, subject: 10**30,
    "maxint": lambda world, subject: 2**31 - 1,
    "1.5": lambda world, subject: 1.5,
    "nan": lambda world, subject: float("nan"),
    "text": lambda world, subject: "text",
    "()": lambda world, subject: (),
    "(1,2)": lambda world, subject: (1, 2),
    "{}": lambda world, subject: {},
    "{a:1}": lambda world, subject: {"a": 1},
    "{1:1}": lambda world, subject: {1: 1},
    "object": lambda world, subject: object(),
    "int": lambda world, subject: int,
    "schedule": lambda world, subject: weft.schedule,
    "function": lambda world, subject: lambda *args, **kwargs: None,
    "blocks": lambda world, subject: lambda *args, **kwargs: weft.schedule_remove(),
    "fails": lambda world, subject: lambda *args, **kwargs: 1 / 0,
    "kills": lambda world, subject: lambda *args, **kwargs: quietly(getattr(subject, "kill", subject.__repr__)),
    "ValueError": lambda world, subject: ValueError,
    "ValueError()": lambda world, subject: ValueError("instance"),
    "TaskletExit": lambda world, subject: weft.TaskletExit,
    "ActingError": lambda world, subject: ActingError,
    "ActingError()": lambda world, subject: ActingError(),
    "NoError": lambda world, subject: NoError,
    "traceback": lambda world, subject: suspended_traceback(),
    "itself": lambda world, subject: subject,
    "main": lambda world, subject: weft.getmain(),
    "current": lambda world, subject: weft.getcurrent(),
    "tasklet": lambda world, subject: world.tasklet(weft.schedule, runs=False),
    "hostile tasklet": lambda world, subject: HostileTasklet(weft.schedule)(),
    "channel": lambda world, subject: weft.channel(),
    "hostile channel": lambda world, subject: HostileChannel(),
    "context": lambda world, subject: contextvars.Context(),
    "current context": lambda world, subject: contextvars.copy_context(),
    "thread id": lambda world, subject: threading.get_ident(),
    "failing": lambda world, subject: Failing(),
    "acting": lambda world, subject: Acting(world),
    "generator": lambda world, subject: generator_that_switches(),
}


# ---- states of tasklets ----


def refuses(times: int) -> None:
    for _ in range(times):
        try:
            weft.schedule_remove()
        except weft.TaskletExit:
            continue


def dies_slowly() -> None:
    try:
        weft.schedule_remove()
    finally:
        weft.schedule()
        weft.schedule_remove()


def in_atomic() -> None:
    with weft.atomic():
        weft.schedule_remove()


def in_generator() -> None:
    def inner() -> Iterator[object]:
        yield weft.schedule_remove()

    for _ in inner():
        pass


def in_sort_key() -> None:
    sorted([2, 1], key=lambda value: weft.schedule_remove() and value)


def begun(made: Any) -> Any:
    weft.schedule()
    return made


def dying(world: World) -> Any:
    made = world.tasklet(dies_slowly)
    made.kill()
    return made


def pending(world: World, error: Any) -> Any:
    made = world.tasklet(weft.schedule_remove)
    made.throw(error, pending=True)
    return made


def traced(world: World) -> Any:
    made = weft.tasklet(weft.schedule_remove, ())
    made.trace_function = lambda *args: None
    made.profile_function = lambda *args: quietly(weft.schedule)
    world.tasklets.append(made)
    made.insert()
    weft.schedule()
    return made


def trapped(world: World) -> Any:
    made = world.tasklet(weft.schedule_remove)
    made.block_trap = True
    return made


def with_value(world: World) -> Any:
    made = world.tasklet(weft.schedule_remove)
    made.tempval = Acting(world)
    return made


def in_another_thread(world: World, function: Callable[[], Any], *, lives: bool) -> Any:
    """What `function` returned in a thread that lives on, until the world ends, or has ended."""
    made: list[Any] = []
    ready, done = threading.Event(), weft.channel()

    def body() -> None:
        made.append(function())
        weft.schedule()
        ready.set()
        if lives:
            while True:
                try:
                    done.receive()
                    break
                except (Exception, SystemExit):
                    continue

    thread = threading.Thread(target=body)
    thread.start()
    ready.wait()

    def stop() -> None:
        while thread.is_alive():
            if done.balance < 0:
                done.open()
                quietly(done.send, None)
            thread.join(0.001)

    if lives:
        world.stop.append(stop)
        world.keep.append(done)
    else:
        thread.join()
    return made[0]


def frame_held(world: World) -> Any:
    made = world.tasklet(in_generator)
    world.keep.append(made.frame)
    return made


def abandoned_by_run(world: World) -> Any:
    """One that is inside run()."""

    def function() -> None:
        weft.run()

    other = world.tasklet(weft.sleep, 60.0)
    made = world.tasklet(function)
    world.keep.append(other)
    return made


TASKLETS: dict[str, Callable[[World], Any]] = {
    "unbound": lambda world: weft.tasklet(),
    "uninitialised": lambda world: weft.tasklet.__new__(weft.tasklet),
    "bound": lambda world: weft.tasklet(lambda *args, **kwargs: None),
    "paused new": lambda world: weft.tasklet(lambda *args, **kwargs: None, ()),
    "scheduled new": lambda world: world.tasklet(lambda *args, **kwargs: None, runs=False),
    "paused": lambda world: world.tasklet(weft.schedule_remove),
    "scheduled": lambda world: world.tasklet(lambda: [weft.schedule() for _ in range(9)]),
    "receiving": lambda world: world.tasklet(world.channel().receive),
    "sending": lambda world: world.tasklet(world.channel().send, Acting(world)),
    "sending an error": lambda world: world.tasklet(world.channel().send_exception, Boom),
    "iterating": lambda world: world.tasklet(lambda channel: list(channel), world.channel()),
    "asleep": lambda world: world.tasklet(weft.sleep, 60.0),
    "waiting": lambda world: world.tasklet(core.Waiter().wait),
    "waiting with time-out": lambda world: world.tasklet(core.Waiter().wait, 60.0),
    "dead": lambda world: world.tasklet(int),
    "failed": lambda world: weft.tasklet(int),
    "dying": dying,
    "refusing": lambda world: world.tasklet(refuses, 3),
    "killed pending": lambda world: pending(world, weft.TaskletExit),
    "thrown pending": lambda world: pending(world, ActingError),
    "atomic": lambda world: world.tasklet(in_atomic),
    "in a generator": lambda world: world.tasklet(in_generator),
    "in a sort key": lambda world: world.tasklet(in_sort_key),
    "its frame held": frame_held,
    "traced": traced,
    "trapped": trapped,
    "with a value": with_value,
    "in run": abandoned_by_run,
    "hostile": lambda world: HostileTasklet(lambda *args, **kwargs: None, ()),
    "hostile paused": lambda world: begun(HostileTasklet(weft.schedule_remove)()),
    "current": lambda world: None,  # resolved where the call is made
    "main": lambda world: weft.getmain(),
    "another thread's new": lambda world: in_another_thread(world, lambda: weft.tasklet(int, ()), lives=True),
    "another thread's paused": lambda world: in_another_thread(
        world, lambda: begun(weft.tasklet(weft.schedule_remove)()), lives=True
    ),
    "another thread's receiver": lambda world: in_another_thread(
        world, lambda: weft.tasklet(world.channel().receive)(), lives=True
    ),
    "another thread's main": lambda world: in_another_thread(world, weft.getmain, lives=True),
    "a dead thread's unbound": lambda world: in_another_thread(world, weft.tasklet, lives=False),
    "a dead thread's new": lambda world: in_another_thread(world, lambda: weft.tasklet(int, ()), lives=False),
    "a dead thread's paused": lambda world: in_another_thread(
        world, lambda: weft.tasklet(weft.schedule_remove)(), lives=False
    ),
    "a dead thread's main": lambda world: in_another_thread(world, weft.getmain, lives=False),
}


# ---- states of channels and Waiters ----


def peopled(world: World, way: str, closed: bool = False, preference: int = -1, schedule_all: bool = False) -> Any:
    channel = world.channel()
    channel.preference = preference
    channel.schedule_all = schedule_all
    for number in range(3):
        if way == "senders":
            world.tasklet(channel.send, number)
        elif way == "receivers":
            world.tasklet(channel.receive)
        else:
            world.tasklet(lambda: list(channel))
    if closed:
        channel.close()
    return channel


def with_another_thread(world: World) -> Any:
    channel = world.channel()
    in_another_thread(world, lambda: weft.tasklet(channel.receive)(), lives=True)
    world.tasklet(channel.receive)
    return channel


def closed_channel(world: World) -> Any:
    channel = weft.channel()
    channel.close()
    return channel


CHANNELS: dict[str, Callable[[World], Any]] = {
    "fresh": lambda world: weft.channel(),
    "uninitialised": lambda world: weft.channel.__new__(weft.channel),
    "closed": closed_channel,
    "with senders": lambda world: peopled(world, "senders"),
    "with receivers": lambda world: peopled(world, "receivers"),
    "with iterations": lambda world: peopled(world, "iterations"),
    "closing with senders": lambda world: peopled(world, "senders", closed=True),
    "closing with receivers": lambda world: peopled(world, "receivers", closed=True),
    "preferring the sender": lambda world: peopled(world, "senders", preference=1),
    "preferring nobody": lambda world: peopled(world, "receivers", preference=0),
    "schedule_all": lambda world: peopled(world, "receivers", schedule_all=True),
    "with another thread": with_another_thread,
    "hostile": lambda world: HostileChannel(),
}


def settled(value: Any, fail: bool = False) -> Any:
    waiter = core.Waiter()
    (waiter.fail if fail else waiter.succeed)(value)
    return waiter


def waited(world: World, timeout: float | None, kill: bool = False) -> Any:
    waiter = core.Waiter()
    tasklet = world.tasklet(waiter.wait, timeout)
    if kill:
        tasklet.kill()
    return waiter


WAITERS: dict[str, Callable[[World], Any]] = {
    "fresh": lambda world: core.Waiter(),
    "settled": lambda world: settled(Acting(world)),
    "failed": lambda world: settled(ActingError(), fail=True),
    "waited for": lambda world: waited(world, None),
    "waited for with time-out": lambda world: waited(world, 5.0),
    "abandoned": lambda world: waited(world, None, kill=True),
}


# ---- what is called ----


def members_of(kind: type) -> list[str]:
    """Methods by their names; attributes as "get x", "set x" and "del x"."""
    found = []
    for name, member in sorted(vars(kind).items()):
        if isinstance(member, types.GetSetDescriptorType):
            found += [f"get {name}", f"set {name}", f"del {name}"]
        elif name not in ("__doc__", "__new__", "__getattribute__", "__module__") and callable(getattr(kind, name)):
            found.append(name)
    return [*found, "__new__", "__reduce_ex__", "weakref", "drop"]


# After mark_service_thread(True) other threads would take main for one that wakes nobody.
FUNCTIONS = [name for name in core.__all__ if callable(getattr(core, name)) and name != "mark_service_thread"]
SUBJECTS: dict[str, tuple[dict[str, Callable[[World], Any]], list[str]]] = {
    "tasklet": (TASKLETS, members_of(weft.tasklet)),
    "channel": (CHANNELS, members_of(weft.channel)),
    "waiter": (WAITERS, members_of(core.Waiter)),
    "core": ({"module": lambda world: core}, FUNCTIONS),
    "atomic": ({"fresh": lambda world: weft.atomic()}, members_of(weft.atomic)),
}
KEYWORDS = {
    "bind": ("func", "args", "kwargs"),
    "__init__": ("func", "args", "kwargs"),
    "kill": ("pending",),
    "throw": ("exc", "val", "tb", "pending"),
    "wait": ("timeout", "daemon"),
    "run": ("timeout", "threadblock", "soft", "ignore_nesting", "totaltimeout", "hub", "slice"),
    "schedule": ("retval",),
    "schedule_remove": ("retval",),
    "get_thread_info": ("thread_id", "flags"),
    "tasklet": ("func", "args", "kwargs"),
}


def perform(subject: Any, member: str, arguments: list[Any], keyword: str) -> object:
    """Call, read, write or delete."""
    verb, _, name = member.partition(" ")
    if verb == "get":
        return getattr(subject, name)
    if verb == "set":
        return setattr(subject, name, *(arguments or [None])[:1])
    if verb == "del":
        return delattr(subject, name)
    if member == "weakref":
        return weakref.ref(subject, lambda _: quietly(weft.schedule))
    if member == "__new__":
        return type(subject).__new__(type(subject), *arguments)
    if member == "drop":
        return None
    if keyword:
        return getattr(subject, member)(*arguments[1:], **{keyword: arguments[0]})
    return getattr(subject, member)(*arguments)


# ---- where it is called ----


def in_main(world: World, thunk: Thunk) -> None:
    thunk()


def in_tasklet(world: World, thunk: Thunk) -> None:
    world.tasklet(thunk)
    for _ in range(3):
        weft.schedule()


def in_tasklet_twice(world: World, thunk: Thunk) -> None:
    """From a tasklet, while another waits that was started by it."""

    def function() -> None:
        weft.tasklet(weft.schedule)()
        thunk()

    in_tasklet(world, function)


def in_atomic_code(world: World, thunk: Thunk) -> None:
    def function() -> None:
        with weft.atomic():
            thunk()

    in_tasklet(world, function)


def in_schedule_callback(world: World, thunk: Thunk) -> None:
    core.set_schedule_callback(lambda previous, following: thunk())
    in_tasklet(world, weft.schedule)
    core.set_schedule_callback(None)


def in_channel_callback(world: World, thunk: Thunk) -> None:
    core.set_channel_callback(lambda *args: thunk())
    channel = world.channel()
    world.tasklet(channel.receive)
    channel.send(1)
    core.set_channel_callback(None)


def in_error_handler(world: World, thunk: Thunk) -> None:
    def fails() -> None:
        raise Boom

    core.set_error_handler(lambda *args: thunk())
    world.tasklet(fails)
    core.set_error_handler(None)


class Dropped:
    def __init__(self, thunk: Thunk) -> None:
        self.thunk = thunk

    def __call__(self, *args: Any) -> None:
        pass

    def __del__(self) -> None:
        self.thunk()


def in_destructor_of_a_dying_tasklet(world: World, thunk: Thunk) -> None:
    weft.tasklet(lambda dropped: None)(Dropped(thunk))
    weft.schedule()


def in_destructor_of_the_function(world: World, thunk: Thunk) -> None:
    weft.tasklet(Dropped(thunk), ())


def in_weakref_callback(world: World, thunk: Thunk) -> None:
    made = weft.tasklet(int, ())
    world.keep.append(weakref.ref(made, lambda _: thunk()))
    del made


def in_finally_of_a_dropped_tasklet(world: World, thunk: Thunk) -> None:
    def function() -> None:
        try:
            weft.schedule_remove()
        finally:
            thunk()

    weft.tasklet(function)()
    weft.schedule()


def in_the_hub(world: World, thunk: Thunk) -> None:
    called: list[int] = []

    def poll(timeout: float | None) -> None:
        called.append(1)
        if len(called) == 1:
            thunk()
        waiter.succeed()

    core.set_clock()
    waiter = core.Waiter()
    wake = os.eventfd(0)
    core.install_hub(poll, wake)
    try:
        waiter.wait()
    finally:
        core.install_hub(None, -1)
        os.close(wake)
        core.set_clock(lambda: world.now, world.advance)


def in_the_clock(world: World, thunk: Thunk) -> None:
    def advance(seconds: float) -> None:
        thunk()
        world.advance(seconds)

    core.set_clock(lambda: world.now, advance)
    weft.sleep(1)


def in_a_signal_handler(world: World, thunk: Thunk) -> None:
    signal.signal(signal.SIGUSR1, lambda *args: thunk())
    world.tasklet(lambda: signal.raise_signal(signal.SIGUSR1))


def in_a_sort_key(world: World, thunk: Thunk) -> None:
    in_tasklet(world, lambda: sorted([2, 1], key=lambda value: [thunk(), value][1]))


def in_a_generator(world: World, thunk: Thunk) -> None:
    in_tasklet(world, lambda: list(thunk() for _ in (1,)))  # noqa: C400 - a generator is what is meant


def in_a_trace_function(world: World, thunk: Thunk) -> None:
    called: list[int] = []

    def trace(*args: Any) -> None:
        if not called:
            called.append(1)
            thunk()

    def function() -> None:
        sys.settrace(trace)
        refuses(0)
        sys.settrace(None)

    in_tasklet(world, function)


def in_an_except_block(world: World, thunk: Thunk) -> None:
    def function() -> None:
        try:
            raise Boom
        except Boom:
            thunk()

    in_tasklet(world, function)


def in_a_foreign_greenlet(world: World, thunk: Thunk) -> None:
    greenlet.greenlet(thunk).switch()


def in_a_thread(world: World, thunk: Thunk) -> None:
    thread = threading.Thread(target=lambda: quietly(thunk))
    thread.start()
    while thread.is_alive():
        quietly(weft.schedule)
        thread.join(0.002)
        try:  # whatever it waits for
            core.get_thread_info(thread.ident)[0].kill()
        except (RuntimeError, AttributeError):  # it has ended, or has not begun
            continue


def in_run(world: World, thunk: Thunk) -> None:
    weft.tasklet(thunk)()
    weft.run(hub=False)


def under_a_watchdog(world: World, thunk: Thunk) -> None:
    weft.tasklet(lambda: [thunk(), [0 for _ in range(50)]])()
    interrupted: list[Any] = []
    quietly(lambda: interrupted.append(weft.run(20, hub=False)))
    world.tasklets += [tasklet for tasklet in interrupted if tasklet is not None]


def in_slices(world: World, thunk: Thunk) -> None:
    weft.tasklet(thunk)()
    quietly(lambda: weft.run(slice=0.001, hub=False))


PLACES: dict[str, Callable[[World, Thunk], None]] = {
    "main": in_main,
    "tasklet": in_tasklet,
    "tasklet twice": in_tasklet_twice,
    "atomic": in_atomic_code,
    "schedule callback": in_schedule_callback,
    "channel callback": in_channel_callback,
    "error handler": in_error_handler,
    "destructor": in_destructor_of_a_dying_tasklet,
    "function's destructor": in_destructor_of_the_function,
    "weakref callback": in_weakref_callback,
    "finally": in_finally_of_a_dropped_tasklet,
    "hub": in_the_hub,
    "clock": in_the_clock,
    "signal handler": in_a_signal_handler,
    "sort key": in_a_sort_key,
    "generator": in_a_generator,
    "trace function": in_a_trace_function,
    "except block": in_an_except_block,
    "greenlet": in_a_foreign_greenlet,
    "thread": in_a_thread,
    "run": in_run,
    "watchdog": under_a_watchdog,
    "slices": in_slices,
}

TASKLET_PLACES = ["tasklet", "tasklet twice", "atomic", "sort key", "generator"]
TAKES_NOTHING = {
    *("insert", "remove", "run", "switch", "receive", "close", "open", "__next__", "__iter__", "__repr__", "__enter__"),
    *("getcurrent", "getmain", "getruncount", "getcurrentid", "started", "threads", "trim", "end_thread"),
    *("get_schedule_callback", "get_channel_callback", "weakref", "drop"),
}

TASKLET_PLACES = ["tasklet", "tasklet twice", "atomic", "sort key", "generator"]
TAKES_NOTHING = {
    *("insert", "remove", "run", "switch", "receive", "close", "open", "__next__", "__iter__", "__repr__", "__enter__"),
    *("getcurrent", "getmain", "getruncount", "getcurrentid", "started", "threads", "trim", "end_thread"),
    *("get_schedule_callback", "get_channel_callback", "weakref", "drop"),
}

# Main waits for ever where another thread may still wake it, as for a Waiter: such calls are made from tasklets.
NEEDS_A_TASKLET = ("another thread", "waiter/", "tasklet/waiting/")


# ---- one case, and the world after it ----


def alarm(*args: object) -> None:
    raise Hang


def attempt(world: World, subject: Any, member: str, kinds: list[str], keyword: str, failures: list[str]) -> None:
    if subject is None:
        subject = weft.getcurrent()
    arguments = [KINDS[kind](world, subject) for kind in kinds]
    try:
        result = perform(subject, member, arguments, keyword)
        if isinstance(result, weft.tasklet):
            world.tasklets.append(result)
    except SystemError as error:
        failures.append(f"SystemError: {error}")
    except (Exception, weft.TaskletExit) as error:
        if not isinstance(error, Exception):
            raise
        repr(error) if kinds.count("failing") == 0 else None


def run_step(world: World, step: str, failures: list[str]) -> None:
    subject_kind, state, member, argument_text, place = step.split("/")
    if subject_kind not in SUBJECTS or state not in SUBJECTS[subject_kind][0] or place not in PLACES:
        failures.append("no such case")
        return
    keyword, _, listed = argument_text.rpartition("=")
    kinds = [kind for kind in listed.split("+") if kind]
    subject = SUBJECTS[subject_kind][0][state](world)
    if subject_kind == "tasklet" and subject not in (None, weft.getmain()):
        world.tasklets.append(subject)
    if subject_kind == "channel":
        world.channels.append(subject)
    if member == "drop":
        world.tasklets.clear()
        world.channels.clear()
        PLACES[place](world, Dropping(subject))
    else:
        PLACES[place](world, lambda: attempt(world, subject, member, kinds, keyword, failures))


# A debug build of CPython 3.12 or later aborts where a suspended frame goes on after tracing was switched on or off: of the
# frames that were begun before, it prepares those alone that a thread has on its stack.
TRACES = ("trace_function", "profile_function", "/traced/", "/trace function")
MAY_TRACE = sys.version_info < (3, 12) or not hasattr(sys, "gettotalrefcount")


def run_case(case: str) -> str:
    """Run one case, of one step or several in the same world; what was wrong, or nothing."""
    if not MAY_TRACE and any(text in case for text in TRACES):
        return ""
    world, failures = World(), list[str]()
    core.set_clock(lambda: world.now, world.advance)
    signal.setitimer(signal.ITIMER_REAL, 8, 4)
    for step in case.split(";"):
        try:
            run_step(world, step, failures)
        except (Exception, weft.TaskletExit) as error:
            if isinstance(error, SystemError):
                failures.append(f"SystemError: {error}")
            del error
        except Hang:
            failures.append("hangs")
            break
    try:
        for _ in range(5):
            try:
                clean_up(world)
                break
            except Exception:  # of a trace function that the case has set; raising ends it
                continue
        failures += look_around()
    except Hang:
        failures.append("hangs afterwards")
    signal.setitimer(signal.ITIMER_REAL, 0)
    return "; ".join(failures)


class Dropping:
    """Drops what it holds when it is called."""

    def __init__(self, thing: Any) -> None:
        self.things = [thing]

    def __call__(self) -> None:
        self.things.clear()


def clean_up(world: World) -> None:
    """End all tasklets, and undo what they have set meanwhile."""
    reset(world)
    main = weft.getmain()
    for _ in range(60):
        for tasklet in [*world.tasklets, *HostileTasklet.revived, *core.started()]:
            if tasklet.alive and tasklet is not main and tasklet.thread_id == main.thread_id:
                tasklet.block_trap = False
                quietly(tasklet.kill)
        for _ in range(100):
            if weft.getruncount() == 1:
                break
            quietly(weft.schedule)
        reset(world)
        if weft.getruncount() == 1 and not core.started():
            break
    for stop in world.stop:
        stop()
    world.__dict__.clear()
    HostileTasklet.revived.clear()
    quietly(weft.schedule)  # raises what another thread has thrown into main
    for _ in range(10):
        if weft.getruncount() == 1:
            break
        quietly(weft.schedule)


def reset(world: World) -> None:
    """Undo what was set for the whole thread or process."""
    main = weft.getmain()
    sys.settrace(None)
    sys.setprofile(None)
    core.set_schedule_callback(None)
    core.set_channel_callback(None)
    core.set_error_handler(None)
    core.install_hub(None, -1)
    core.set_clock(lambda: world.now, world.advance)
    core.switch_trap(-core.switch_trap())
    main.block_trap = False
    main.set_atomic(False)
    main.set_ignore_nesting(False)
    del main.trace_function
    del main.profile_function
    for _ in range(100):
        if not main.atomic:
            break
        weft.atomic().__exit__(None, None, None)


def look_around() -> list[str]:
    """What is not as it should be where nothing runs."""
    wrong = []
    main = weft.getmain()
    if weft.getcurrent() is not main:
        wrong.append("main does not run")
    if weft.getruncount() != 1:
        wrong.append(f"{weft.getruncount()} tasklets are runnable")
    if core.started():
        wrong.append(f"{len(core.started())} tasklets have not ended")
    if main.next is not main or main.prev is not main:
        wrong.append("main has neighbours")
    flags = (main.alive, main.blocked, main.scheduled, main.paused, main.is_main, main.is_current, main.atomic)
    if flags != (True, False, True, False, True, True, False):
        wrong.append(f"main is strange: {flags}")
    channel, got = weft.channel(), []
    core.set_clock()
    try:
        weft.tasklet(lambda: got.append(channel.receive()))()
        weft.run()
        if channel.balance != -1:
            wrong.append(f"a receiver waits and balance is {channel.balance}")
        channel.send("there")
        weft.tasklet(channel.send)("back")
        got.append(channel.receive())
        weft.run()
        with weft.atomic():
            weft.schedule()
        try:
            weft.channel().receive()
            wrong.append("received from nobody")
        except weft.Deadlock:
            pass
    except BaseException as error:
        wrong.append(f"a message raises {error!r}")
    if got != ["there", "back"] or channel.balance != 0:
        wrong.append(f"messages arrived as {got}")
    if sys.exc_info() != (None, None, None):
        wrong.append("an exception is being handled")
    return wrong


# ---- which cases there are ----


def places_for(subject: str, state: str) -> list[str]:
    if any(text in f"{subject}/{state}/" for text in NEEDS_A_TASKLET):
        return TASKLET_PLACES
    return list(PLACES)


def exhaustive(subject: str, state: str, share: int) -> Iterator[str]:
    """All members with no argument, with each kind and with some pairs; of those with arguments one in `share`."""
    generator = random.Random(f"{subject} {state}")
    places = [place for place in ("main", "tasklet") if place in places_for(subject, state)]
    for member in SUBJECTS[subject][1]:
        for place in places:
            yield f"{subject}/{state}/{member}//{place}"
            if member.startswith(("get ", "del ")) or member in ("weakref", "drop"):
                continue
            for kind in KINDS:
                if generator.randrange(share) == 0:
                    yield f"{subject}/{state}/{member}/{kind}/{place}"
                for keyword in KEYWORDS.get(member, ()):
                    if generator.randrange(3 * share) == 0:
                        yield f"{subject}/{state}/{member}/{keyword}={kind}/{place}"
            for _ in range(40 // share):
                kinds = generator.choices(list(KINDS), k=generator.choice([2, 2, 3, 4]))
                yield f"{subject}/{state}/{member}/{'+'.join(kinds)}/{place}"


def random_step(generator: random.Random) -> str:
    while True:
        subject = generator.choices(list(SUBJECTS), [8, 4, 2, 4, 1])[0]
        states, members = SUBJECTS[subject]
        state, member = generator.choice(list(states)), generator.choice(members)
        place = generator.choice(places_for(subject, state))
        if member == "__enter__" and place in ("hub", "clock", "schedule callback"):
            continue  # who enters atomic there and stays in it keeps it from everybody for ever, himself included
        # What takes no arguments is mostly called without.
        counts = (
            [0, 0, 0, 0, 0, 1] if member in TAKES_NOTHING or member.startswith(("get", "del")) else [0, 1, 1, 1, 2, 3]
        )
        kinds = generator.choices(list(KINDS), k=generator.choice(counts))
        keyword = generator.choice(["", "", *KEYWORDS.get(member, ())]) if kinds else ""
        return f"{subject}/{state}/{member}/{keyword}{'=' if keyword else ''}{'+'.join(kinds)}/{place}"


def at_random(seed: int, count: int) -> Iterator[str]:
    """Cases of one to four steps."""
    generator = random.Random(seed)
    for _ in range(count):
        steps = [random_step(generator) for _ in range(generator.choice([1, 2, 3, 4]))]
        # Main waits for ever where another thread lives, or for a Waiter: all steps are made from tasklets then.
        if any(text in step for step in steps for text in NEEDS_A_TASKLET):
            steps = [f"{step.rpartition('/')[0]}/{generator.choice(TASKLET_PLACES)}" for step in steps]
        yield ";".join(steps)


def main(words: list[str]) -> int:
    gc.disable()
    sys.unraisablehook = lambda _: None
    signal.signal(signal.SIGALRM, alarm)
    for number in (signal.SIGALRM, signal.SIGUSR1):  # the cases expect to be told of deadlocks
        core.mark_service_signal(number)
    if words[0] == "--random":
        cases = at_random(int(words[1]), int(words[2]))
    elif words[0] == "--exhaustive":
        cases = (case for state in words[3:] for case in exhaustive(words[2], state, int(words[1])))
    else:
        cases = iter(words)
    count = 0
    for case in cases:
        # What is written last is what a crash is blamed on.
        os.write(1, f"{case}\n".encode())
        wrong = run_case(case)
        count += 1
        if wrong:
            os.write(1, f"WRONG {wrong}\n".encode())
            os._exit(1)
        if count % 50 == 0:
            gc.collect()
    gc.collect()
    os.write(1, f"DONE {count}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
