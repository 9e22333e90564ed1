"""What tests/core/_fuzz.py calls things with and on: arguments of every kind, hostile ones too, and tasklets, channels and
Waiters in every state."""

import contextvars
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import roamlet
from roamlet import core

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
        self.channels.append(roamlet.channel())
        return self.channels[-1]

    def tasklet(self, function: Callable[..., object], *args: Any, runs: bool = True) -> Any:
        """A tasklet of this function, kept; it has begun when `runs`."""
        made = roamlet.tasklet(function, args)
        self.tasklets.append(made)
        made.insert()
        if runs:
            roamlet.schedule()
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
            quietly(roamlet.schedule)
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
        quietly(roamlet.schedule)

    def __del__(self) -> None:
        quietly(roamlet.schedule)


class NoError(Exception):
    """An exception class that makes no exceptions."""

    def __new__(cls, *args: Any) -> Any:
        return 5


class HostileTasklet(roamlet.tasklet):  # type: ignore[type-arg]
    """Switches, comes back and kills whenever it can."""

    revived: list[Any] = []

    def __eq__(self, other: object) -> bool:
        quietly(roamlet.schedule)
        return self is other

    def __hash__(self) -> int:
        quietly(roamlet.schedule)
        return 7

    def __repr__(self) -> str:
        quietly(roamlet.schedule)
        return "hostile"

    def __del__(self) -> None:
        quietly(roamlet.schedule)
        quietly(self.kill)
        if not HostileTasklet.revived:
            HostileTasklet.revived.append(self)


class HostileChannel(roamlet.channel):  # type: ignore[type-arg]
    def __del__(self) -> None:
        quietly(roamlet.schedule)
        quietly(self.close)

    def __eq__(self, other: object) -> bool:
        quietly(roamlet.schedule)
        return self is other

    __hash__ = None  # type: ignore[assignment]


def suspended_traceback() -> types.TracebackType | None:
    try:
        raise Boom
    except Boom as error:
        return error.__traceback__


def generator_that_switches() -> Iterator[int]:
    quietly(roamlet.schedule)
    yield 1
    quietly(roamlet.schedule)


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
    "schedule": lambda world, subject: roamlet.schedule,
    "function": lambda world, subject: lambda *args, **kwargs: None,
    "blocks": lambda world, subject: lambda *args, **kwargs: roamlet.schedule_remove(),
    "fails": lambda world, subject: lambda *args, **kwargs: 1 / 0,
    "kills": lambda world, subject: lambda *args, **kwargs: quietly(getattr(subject, "kill", subject.__repr__)),
    "ValueError": lambda world, subject: ValueError,
    "ValueError()": lambda world, subject: ValueError("instance"),
    "TaskletExit": lambda world, subject: roamlet.TaskletExit,
    "ActingError": lambda world, subject: ActingError,
    "ActingError()": lambda world, subject: ActingError(),
    "NoError": lambda world, subject: NoError,
    "traceback": lambda world, subject: suspended_traceback(),
    "itself": lambda world, subject: subject,
    "main": lambda world, subject: roamlet.getmain(),
    "current": lambda world, subject: roamlet.getcurrent(),
    "tasklet": lambda world, subject: world.tasklet(roamlet.schedule, runs=False),
    "hostile tasklet": lambda world, subject: HostileTasklet(roamlet.schedule)(),
    "channel": lambda world, subject: roamlet.channel(),
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
            roamlet.schedule_remove()
        except roamlet.TaskletExit:
            continue


def dies_slowly() -> None:
    try:
        roamlet.schedule_remove()
    finally:
        roamlet.schedule()
        roamlet.schedule_remove()


def in_atomic() -> None:
    with roamlet.atomic():
        roamlet.schedule_remove()


def in_generator() -> None:
    def inner() -> Iterator[object]:
        yield roamlet.schedule_remove()

    for _ in inner():
        pass


def in_sort_key() -> None:
    sorted([2, 1], key=lambda value: roamlet.schedule_remove() and value)


def begun(made: Any) -> Any:
    roamlet.schedule()
    return made


def dying(world: World) -> Any:
    made = world.tasklet(dies_slowly)
    made.kill()
    return made


def pending(world: World, error: Any) -> Any:
    made = world.tasklet(roamlet.schedule_remove)
    made.throw(error, pending=True)
    return made


def traced(world: World) -> Any:
    made = roamlet.tasklet(roamlet.schedule_remove, ())
    made.trace_function = lambda *args: None
    made.profile_function = lambda *args: quietly(roamlet.schedule)
    world.tasklets.append(made)
    made.insert()
    roamlet.schedule()
    return made


def trapped(world: World) -> Any:
    made = world.tasklet(roamlet.schedule_remove)
    made.block_trap = True
    return made


def with_value(world: World) -> Any:
    made = world.tasklet(roamlet.schedule_remove)
    made.tempval = Acting(world)
    return made


def in_another_thread(world: World, function: Callable[[], Any], *, lives: bool) -> Any:
    """What `function` returned in a thread that lives on, until the world ends, or has ended."""
    made: list[Any] = []
    ready, done = threading.Event(), roamlet.channel()

    def body() -> None:
        made.append(function())
        roamlet.schedule()
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
        roamlet.run()

    other = world.tasklet(roamlet.sleep, 60.0)
    made = world.tasklet(function)
    world.keep.append(other)
    return made


TASKLETS: dict[str, Callable[[World], Any]] = {
    "unbound": lambda world: roamlet.tasklet(),
    "uninitialised": lambda world: roamlet.tasklet.__new__(roamlet.tasklet),
    "bound": lambda world: roamlet.tasklet(lambda *args, **kwargs: None),
    "paused new": lambda world: roamlet.tasklet(lambda *args, **kwargs: None, ()),
    "scheduled new": lambda world: world.tasklet(lambda *args, **kwargs: None, runs=False),
    "paused": lambda world: world.tasklet(roamlet.schedule_remove),
    "scheduled": lambda world: world.tasklet(lambda: [roamlet.schedule() for _ in range(9)]),
    "receiving": lambda world: world.tasklet(world.channel().receive),
    "sending": lambda world: world.tasklet(world.channel().send, Acting(world)),
    "sending an error": lambda world: world.tasklet(world.channel().send_exception, Boom),
    "iterating": lambda world: world.tasklet(lambda channel: list(channel), world.channel()),
    "asleep": lambda world: world.tasklet(roamlet.sleep, 60.0),
    "waiting": lambda world: world.tasklet(core.Waiter().wait),
    "waiting with time-out": lambda world: world.tasklet(core.Waiter().wait, 60.0),
    "dead": lambda world: world.tasklet(int),
    "failed": lambda world: roamlet.tasklet(int),
    "dying": dying,
    "refusing": lambda world: world.tasklet(refuses, 3),
    "killed pending": lambda world: pending(world, roamlet.TaskletExit),
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
    "hostile paused": lambda world: begun(HostileTasklet(roamlet.schedule_remove)()),
    "current": lambda world: None,  # resolved where the call is made
    "main": lambda world: roamlet.getmain(),
    "another thread's new": lambda world: in_another_thread(world, lambda: roamlet.tasklet(int, ()), lives=True),
    "another thread's paused": lambda world: in_another_thread(
        world, lambda: begun(roamlet.tasklet(roamlet.schedule_remove)()), lives=True
    ),
    "another thread's receiver": lambda world: in_another_thread(
        world, lambda: roamlet.tasklet(world.channel().receive)(), lives=True
    ),
    "another thread's main": lambda world: in_another_thread(world, roamlet.getmain, lives=True),
    "a dead thread's unbound": lambda world: in_another_thread(world, roamlet.tasklet, lives=False),
    "a dead thread's new": lambda world: in_another_thread(world, lambda: roamlet.tasklet(int, ()), lives=False),
    "a dead thread's paused": lambda world: in_another_thread(
        world, lambda: roamlet.tasklet(roamlet.schedule_remove)(), lives=False
    ),
    "a dead thread's main": lambda world: in_another_thread(world, roamlet.getmain, lives=False),
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


def buffered(world: World, way: str, closed: bool = False) -> Any:
    """One whose buffer is empty, half full, or full while senders wait; its values act when they are dropped."""
    channel = roamlet.channel(2)
    world.channels.append(channel)
    for _ in range({"empty": 0, "half": 1, "full": 2}[way]):
        channel.send(Acting(world))
    if way == "full":
        for _ in range(2):
            world.tasklet(channel.send, Acting(world))
    if closed:
        channel.close()
    return channel


def with_another_thread(world: World) -> Any:
    channel = world.channel()
    in_another_thread(world, lambda: roamlet.tasklet(channel.receive)(), lives=True)
    world.tasklet(channel.receive)
    return channel


def closed_channel(world: World) -> Any:
    channel = roamlet.channel()
    channel.close()
    return channel


CHANNELS: dict[str, Callable[[World], Any]] = {
    "fresh": lambda world: roamlet.channel(),
    "uninitialised": lambda world: roamlet.channel.__new__(roamlet.channel),
    "closed": closed_channel,
    "with senders": lambda world: peopled(world, "senders"),
    "with receivers": lambda world: peopled(world, "receivers"),
    "with iterations": lambda world: peopled(world, "iterations"),
    "closing with senders": lambda world: peopled(world, "senders", closed=True),
    "closing with receivers": lambda world: peopled(world, "receivers", closed=True),
    "preferring the sender": lambda world: peopled(world, "senders", preference=1),
    "preferring neither": lambda world: peopled(world, "receivers", preference=0),
    "schedule_all": lambda world: peopled(world, "receivers", schedule_all=True),
    "with another thread": with_another_thread,
    "empty buffer": lambda world: buffered(world, "empty"),
    "buffer with a value": lambda world: buffered(world, "half"),
    "full buffer with senders": lambda world: buffered(world, "full"),
    "closing with a full buffer": lambda world: buffered(world, "full", closed=True),
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
