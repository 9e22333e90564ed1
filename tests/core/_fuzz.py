"""Every method, attribute and function of the core with every kind of object, in every state: what tests/core/test_fuzz.py
runs in a process of its own, and what shows one case again:

    python -m tests.core._fuzz CASE       a line as test_fuzz prints it
    python -m tests.core._fuzz --random SEED COUNT
    python -m tests.core._fuzz --exhaustive SHARE SUBJECT STATE...

A case is "subject/state/member/arguments/place". What the call returns or raises does not matter (but SystemError and hangs
do); what matters is that the world is sane afterwards: one tasklet runs, nothing is left, a message still passes.
"""

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

import roamlet
from roamlet import core
from tests.core._fuzz_world import (
    CHANNELS,
    KINDS,
    TASKLETS,
    WAITERS,
    Boom,
    Hang,
    HostileTasklet,
    Thunk,
    World,
    quietly,
    refuses,
)

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


# After mark_service_thread(True) other threads would take main for one that wakes no tasklet.
FUNCTIONS = [name for name in core.__all__ if callable(getattr(core, name)) and name != "mark_service_thread"]
SUBJECTS: dict[str, tuple[dict[str, Callable[[World], Any]], list[str]]] = {
    "tasklet": (TASKLETS, members_of(roamlet.tasklet)),
    "channel": (CHANNELS, members_of(roamlet.channel)),
    "waiter": (WAITERS, members_of(core.Waiter)),
    "core": ({"module": lambda world: core}, FUNCTIONS),
    "atomic": ({"fresh": lambda world: roamlet.atomic()}, members_of(roamlet.atomic)),
}
KEYWORDS = {
    "bind": ("func", "args", "kwargs"),
    "__init__": ("func", "args", "kwargs", "buffer"),
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
        return weakref.ref(subject, lambda _: quietly(roamlet.schedule))
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
        roamlet.schedule()


def in_tasklet_twice(world: World, thunk: Thunk) -> None:
    """From a tasklet, while another waits that was started by it."""

    def function() -> None:
        roamlet.tasklet(roamlet.schedule)()
        thunk()

    in_tasklet(world, function)


def in_atomic_code(world: World, thunk: Thunk) -> None:
    def function() -> None:
        with roamlet.atomic():
            thunk()

    in_tasklet(world, function)


def in_schedule_callback(world: World, thunk: Thunk) -> None:
    core.set_schedule_callback(lambda previous, following: thunk())
    in_tasklet(world, roamlet.schedule)
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
    roamlet.tasklet(lambda dropped: None)(Dropped(thunk))
    roamlet.schedule()


def in_destructor_of_the_function(world: World, thunk: Thunk) -> None:
    roamlet.tasklet(Dropped(thunk), ())


def in_weakref_callback(world: World, thunk: Thunk) -> None:
    made = roamlet.tasklet(int, ())
    world.keep.append(weakref.ref(made, lambda _: thunk()))
    del made


def in_finally_of_a_dropped_tasklet(world: World, thunk: Thunk) -> None:
    def function() -> None:
        try:
            roamlet.schedule_remove()
        finally:
            thunk()

    roamlet.tasklet(function)()
    roamlet.schedule()


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
        try:
            thunk()
        finally:
            # Left with the machine's own clock, this sleep would last until that says what the virtual one said: since a boot
            # just now, a quarter of an hour.
            core.set_clock(lambda: world.now, world.advance)
        world.advance(seconds)

    core.set_clock(lambda: world.now, advance)
    roamlet.sleep(1)


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
        quietly(roamlet.schedule)
        thread.join(0.002)
        try:  # whatever it waits for
            core.get_thread_info(thread.ident)[0].kill()
        except (RuntimeError, AttributeError):  # it has ended, or has not begun
            continue


def in_run(world: World, thunk: Thunk) -> None:
    roamlet.tasklet(thunk)()
    roamlet.run(hub=False)


def under_a_watchdog(world: World, thunk: Thunk) -> None:
    roamlet.tasklet(lambda: [thunk(), [0 for _ in range(50)]])()
    interrupted: list[Any] = []
    quietly(lambda: interrupted.append(roamlet.run(20, hub=False)))
    world.tasklets += [tasklet for tasklet in interrupted if tasklet is not None]


def in_slices(world: World, thunk: Thunk) -> None:
    roamlet.tasklet(thunk)()
    quietly(lambda: roamlet.run(slice=0.001, hub=False))


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

# Main waits for ever where another thread may still wake it, as for a Waiter: such calls are made from tasklets.
NEEDS_A_TASKLET = ("another thread", "waiter/", "tasklet/waiting/")


# ---- one case, and the world after it ----


def alarm(*args: object) -> None:
    raise Hang


def attempt(world: World, subject: Any, member: str, kinds: list[str], keyword: str, failures: list[str]) -> None:
    if subject is None:
        subject = roamlet.getcurrent()
    arguments = [KINDS[kind](world, subject) for kind in kinds]
    try:
        result = perform(subject, member, arguments, keyword)
        if isinstance(result, roamlet.tasklet):
            world.tasklets.append(result)
    except SystemError as error:
        failures.append(f"SystemError: {error}")
    except (Exception, roamlet.TaskletExit) as error:
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
    if subject_kind == "tasklet" and subject not in (None, roamlet.getmain()):
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
        except (Exception, roamlet.TaskletExit) as error:
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
    main = roamlet.getmain()
    for _ in range(60):
        for tasklet in [*world.tasklets, *HostileTasklet.revived, *core.started()]:
            if tasklet.alive and tasklet is not main and tasklet.thread_id == main.thread_id:
                tasklet.block_trap = False
                quietly(tasklet.kill)
        for _ in range(100):
            if roamlet.getruncount() == 1:
                break
            quietly(roamlet.schedule)
        reset(world)
        if roamlet.getruncount() == 1 and not core.started():
            break
    for stop in world.stop:
        stop()
    world.__dict__.clear()
    HostileTasklet.revived.clear()
    quietly(roamlet.schedule)  # raises what another thread has thrown into main
    for _ in range(10):
        if roamlet.getruncount() == 1:
            break
        quietly(roamlet.schedule)


def reset(world: World) -> None:
    """Undo what was set for the whole thread or process."""
    main = roamlet.getmain()
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
        roamlet.atomic().__exit__(None, None, None)


def look_around() -> list[str]:
    """What is not as it should be where nothing runs."""
    wrong = []
    main = roamlet.getmain()
    if roamlet.getcurrent() is not main:
        wrong.append("main does not run")
    if roamlet.getruncount() != 1:
        wrong.append(f"{roamlet.getruncount()} tasklets are runnable")
    if core.started():
        wrong.append(f"{len(core.started())} tasklets have not ended")
    if main.next is not main or main.prev is not main:
        wrong.append("main has neighbours")
    flags = (main.alive, main.blocked, main.scheduled, main.paused, main.is_main, main.is_current, main.atomic)
    if flags != (True, False, True, False, True, True, False):
        wrong.append(f"main is strange: {flags}")
    channel, got = roamlet.channel(), []
    core.set_clock()
    try:
        roamlet.tasklet(lambda: got.append(channel.receive()))()
        roamlet.run()
        if channel.balance != -1:
            wrong.append(f"a receiver waits and balance is {channel.balance}")
        channel.send("there")
        roamlet.tasklet(channel.send)("back")
        got.append(channel.receive())
        roamlet.run()
        with roamlet.atomic():
            roamlet.schedule()
        try:
            roamlet.channel().receive()
            wrong.append("received without a sender")
        except roamlet.Deadlock:
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
