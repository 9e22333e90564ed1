"""Functions that move from place to place by themselves; each notes where it is."""

import os
import random
import threading

import roamlet

ended = []  # in which process what was left
executed = []  # what a forged pickle has done here


class Bomb:
    """Runs code where it is made again."""

    def __reduce__(self):
        return explodes, ()


def explodes():
    executed.append(os.getpid())


def forget():
    ended.clear()
    executed.clear()


def has_executed():
    return executed


def left():
    return [process == os.getpid() for process in ended]


def goes(places, numbers, visited):
    """Take one number at each place, and say where that was and what the sum is."""
    total = 0
    try:
        for place in places:
            roamlet.move_to(place)
            total += numbers.receive()
            visited.send((os.getpid(), total))
        return total, places
    finally:
        ended.append(os.getpid())


def hops(places, count, numbers, visited):
    """So many steps around the places, with one receive and one send at each. Their sum."""
    total = 0
    for hop in range(count):
        roamlet.move_to(places[hop % len(places)])
        total += numbers.receive()
        visited.send((hop, total))
    return total


def loops(places, numbers):
    """The same in one loop over the channel, which has values sent ahead of it in a context. What it has taken where."""
    taken = []
    places = iter(places)
    for number in numbers:
        taken.append((number, os.getpid()))
        if len(taken) % 3 == 0:
            roamlet.move_to(next(places))
        if len(taken) == 12:
            break
    return taken


def loops_there(place, home, numbers):
    """A loop that begins in a context, goes on at home, and back."""
    roamlet.move_to(place)
    taken = []
    for number in numbers:
        taken.append((number, os.getpid()))
        if len(taken) in (5, 10):
            roamlet.move_to(home if len(taken) == 5 else place)
    return taken


def tries(place, other):
    """Move to a place, and try to go on to another. What was said, and whether that is where it has been before."""
    roamlet.move_to(place)
    before = os.getpid()
    try:
        roamlet.move_to(other)
    except roamlet.NotMoved as error:
        return str(error), os.getpid() == before
    return "moved", os.getpid() == before


def ends(place, other):
    """The same, and it waits there with a finally block."""
    roamlet.move_to(place)
    try:
        roamlet.move_to(other)
        roamlet.channel().receive()
    finally:
        ended.append(os.getpid())


def fails(place, other):
    roamlet.move_to(place)
    roamlet.move_to(other)
    raise LookupError("no such thing")


def waits_at_home(place, channel):
    roamlet.move_to(place)
    roamlet.move_to(roamlet.home)
    try:
        return channel.receive(), os.getpid()
    finally:
        ended.append(os.getpid())


def waits(channel):
    try:
        return channel.receive(), os.getpid()
    finally:
        ended.append(os.getpid())


def ends_slowly(place, said, goes):
    roamlet.move_to(place)
    try:
        said.send("begun")
        goes.receive()
    finally:
        said.send("ending")
        goes.receive()
        said.send("ended")


def commits_and_says(said):
    """In a context: the commit is done, and answered with nonsense."""
    from roamlet.snapshot.migration import arrivals

    commit = arrivals.commit

    def commits(number):
        arrivals.commit = commit
        commit(number)
        return said()

    arrivals.commit = commits


def numbers():
    try:
        yield from range(10)
    finally:
        ended.append(os.getpid())


def holds_much(place, other):
    """What a function may hold when it moves on."""
    roamlet.move_to(place)
    offset, generator = 10, numbers()
    next(generator)

    def add(number):
        nonlocal offset
        offset += number
        return offset

    items, large = [add], bytearray(3_000_000)
    try:
        raise LookupError("handled")
    except LookupError as error:
        roamlet.move_to(other)
        items[0](next(generator))
        generator.close()
        return add(100), offset, len(large), repr(error), os.getpid()


def holds_a_lock(place, other):
    roamlet.move_to(place)
    lock = threading.Lock()
    try:
        roamlet.move_to(other)
    except TypeError as error:
        return str(error), lock.acquire(timeout=0)


def holds_a_channel_of_there(place, other):
    roamlet.move_to(place)
    channel = roamlet.channel()
    try:
        roamlet.move_to(other)
    except TypeError as error:
        return str(error), channel.balance


def visits(place, other):
    roamlet.move_to(place)
    with roamlet.at(other):
        pass


def leaves_a_block(place, other):
    with roamlet.at(place):
        roamlet.move_to(other)


def goes_home():
    roamlet.move_to(roamlet.home)


def starts_one(place):
    roamlet.move_to(place)
    return roamlet.spawn(goes_home).join()


def calls(place, other):
    roamlet.move_to(place)
    return other.call(os.getpid)


def comes_and_visits(place):
    """Home again, it uses the context for all that contexts are for."""
    roamlet.move_to(place)
    there = os.getpid()
    roamlet.move_to(roamlet.home)
    with roamlet.at(place):
        visited = os.getpid()
    roamlet.move_to(place)
    again = os.getpid()
    roamlet.move_to(roamlet.home)
    return there == visited == again == place.call(os.getpid), os.getpid()


def sends_what_it_is_told(place, other, forged):
    """In a context: let the next tasklet that moves on send a forged request."""
    roamlet.move_to(place)
    from roamlet.snapshot.migration import arrivals

    arrivals.PendingMigration.request = lambda self: arrivals.MigrationRequested(*forged)
    roamlet.move_to(other)
    return "moved"


def guests():
    """How many tasklets have come to this process, and have not been taken from it yet."""
    import sys

    return len(sys.modules["roamlet.snapshot.migration.arrivals"]._here)


def can_guests():
    """The same where perhaps none has ever come."""
    import sys

    return guests() if "roamlet.snapshot.migration.arrivals" in sys.modules else 0


def tries_at_first(place):
    try:
        roamlet.move_to(place)
    except roamlet.NotMoved as error:
        return str(error)


def goes_in_a_time_out(place, other):
    roamlet.move_to(place)
    try:
        with roamlet.timeout(100):
            roamlet.move_to(other)
    except TypeError as error:
        return str(error)


def holds_more(place, other, size):
    roamlet.move_to(place)
    large = bytes(size)
    try:
        roamlet.move_to(other)
    except TypeError as error:
        return str(error) if len(large) == size else ""


def steps(places):
    for place in places:
        roamlet.move_to(place)
        yield os.getpid()


def generates(places):
    found = []
    for pid in steps(places):
        found += [pid]
    return found


def wanders(places, seed, said):
    """From place to place until it is killed. Counts its steps, and says -1 in the end."""
    chance, step = random.Random(seed), 0
    try:
        while True:
            roamlet.move_to(chance.choice(places))
            step += 1
            said.send((seed, step))
    finally:
        if step:
            said.send((seed, -1))


def comes_home_and_tries(place, other):
    roamlet.move_to(place)
    there = os.getpid()
    roamlet.move_to(roamlet.home)
    said = tries_at_first(other)
    roamlet.move_to(place)
    assert os.getpid() == there
    return said, there


def is_killed_there(place, other):
    roamlet.move_to(place)
    roamlet.tasklet(roamlet.getcurrent().kill)()
    try:
        roamlet.move_to(other)
    finally:
        ended.append(os.getpid())


def wanders_for(places, seed, steps, ended):
    """So many steps, wherever they lead; those that fail lead nowhere. Says so in the end."""
    chance, step = random.Random(seed), 0
    try:
        while step < steps:
            step += 1
            try:
                roamlet.move_to(chance.choice(places))
            except roamlet.RoamletError:
                continue
        return step
    finally:
        ended.send(seed)
