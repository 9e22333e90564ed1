"""Functions that stop in their middle, to go on in another process; each notes where it is."""

import contextlib
import contextvars
import gc
import os
import sys
import threading
import weakref

import roamlet

ended = []  # in which process what was left
made = []  # where somebody waits at a Gate


class Thing:
    pass


class Killer:
    """Ends the process that makes it again."""

    def __reduce__(self):
        return os._exit, (7,)


class Gate:
    """Is made again once a value comes."""

    def __init__(self, opens):
        self.opens = opens

    def __reduce__(self):
        return _gate, (self.opens,)


def _gate(opens):
    made.append(os.getpid())
    opens.receive()
    return Gate(opens)


def left():
    return [process == os.getpid() for process in ended]


def is_being_made():
    return bool(made)


def there():
    """How many tasklets have come to this process, and have not been taken from it yet."""
    return len(sys.modules["roamlet.snapshot.migration.arrivals"]._here)


def objects():
    ended.clear()
    gc.collect()
    return len(gc.get_objects())


def pid():
    return os.getpid()


def total(numbers):
    """What came, and how many processes this ran in, counted as they come."""
    so_far, processes = [], {os.getpid()}
    try:
        for number in numbers:
            so_far.append(number)
            processes.add(os.getpid())
        return so_far, len(processes)
    finally:
        ended.append(os.getpid())


def counts(numbers, totals):
    so_far = 0
    while True:
        so_far += numbers.receive()
        totals.send((so_far, os.getpid()))


variable = contextvars.ContextVar("variable", default="default")


def keeps_its_variable(channel):
    variable.set("its own")
    return channel.receive(), variable.get()


def has_its_makers_variable(channel):
    return channel.receive(), variable.get()


def begins(channel):
    return channel.receive(), os.getpid()


def paused(channel):
    roamlet.schedule_remove()
    return channel.receive(), os.getpid()


def scheduled(channel):
    roamlet.schedule()
    return channel.receive(), os.getpid()


def sends(channel):
    channel.send([channel, 1])
    return channel.receive(), os.getpid()


def sends_an_error(channel):
    channel.send_exception(ValueError, "sent")
    return channel.receive(), os.getpid()


def sends_an_object(channel):
    channel.send(Thing())


def receives(channel):
    return channel.receive(), os.getpid()


def handles(channel):
    try:
        raise LookupError("handled")
    except LookupError:
        value = channel.receive()
        try:
            raise
        except LookupError as error:
            return value if error.args == ("handled",) else error, os.getpid()
    finally:
        ended.append(os.getpid())


@contextlib.contextmanager
def manager():
    try:
        yield
    finally:
        ended.append(os.getpid())


def managed(channel):
    with manager():
        return channel.receive(), os.getpid()


def numbers():
    try:
        yield from range(10)
    finally:
        ended.append(os.getpid())


def generates(channel):
    generator = numbers()
    next(generator)
    value = channel.receive()
    assert next(generator) == 1
    generator.close()
    return value, os.getpid()


def shares(channel, generator):
    next(generator)
    channel.receive()
    return next(generator)


def recurses(channel, depth=200):
    return recurses(channel, depth - 1) if depth else receives(channel)


def calls_a_closure(channel):
    offset = channel.receive()

    def add(number):
        return number + offset

    return channel.receive(), [add(number) for number in (1, 2)]


def echoes(channel, other):
    other.send(channel.receive())
    return os.getpid()


def fails(channel):
    channel.receive()
    raise LookupError("no such thing")


def exits(channel):
    channel.receive()
    sys.exit(3)


def holds_a_lock(channel):
    lock = threading.Lock()
    channel.receive()
    return lock


def holds_a_tasklet(channel, other):
    channel.receive()
    return other


def holds(channel, thing):
    channel.receive()
    return type(thing).__name__


def notes(channel, noted):
    thing = Thing()
    noted.append(weakref.ref(thing))
    del noted
    channel.receive()
    return type(thing).__name__


def forever(channel):
    try:
        channel.send(channel.receive())
        roamlet.channel().receive()
    finally:
        ended.append(os.getpid())


def environment(names):
    """Look names up in an environment that a variable has kept from the first place, and leave one there."""
    kept = os.environ
    found = [kept.get(name) for name in names]
    kept["ROAMLET_LEFT"] = "by the tasklet"
    return kept is os.environ, found, os.getpid()
