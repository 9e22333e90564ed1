"""Functions with a block that runs in another process. `away(here)` says whether this is another one than `here`."""

import os
import sys
import threading

import roamlet

ended = []  # in which process what was left
here = os.getpid


def away(first):
    return os.getpid() != first


def left():
    return [process == os.getpid() for process in ended]


def changes(context):
    first, found, same = os.getpid(), [1], ("same",)
    before, unknown = same, object()
    kept = unknown
    with roamlet.at(context):
        there = away(first)
        found.append(2)
        first = first
    return there, away(first), found, same is before, kept is unknown


def in_a_loop(context):
    first, found = os.getpid(), []
    for number in range(5):
        if number % 2:
            with roamlet.at(context):
                number = number * 10, away(first)
        found.append(number)
    return found


def returns(context):
    first = os.getpid()
    try:
        for number in range(3):
            with roamlet.at(context):
                if number == 1:
                    return number, away(first)
    finally:
        ended.append(os.getpid())


def breaks_and_continues(context):
    count = 0
    while True:
        with roamlet.at(context):
            count += 1
            if count > 3:
                break
            if count:
                continue
        count = -100
    return count


def nests(context):
    first = os.getpid()
    with open(os.devnull) as file:
        file = file.name
        with roamlet.at(context):
            try:
                with open(os.devnull) as other:
                    other = other.name
            finally:
                inner = away(first)
    try:
        with roamlet.at(context):
            last = away(first)
    finally:
        ended.append(os.getpid())
    return file == other, inner, last


def shares_a_variable(context):
    count = 1

    def add():
        nonlocal count
        count += 1
        return count

    with roamlet.at(context):
        add()
        add()
    return count, add()


def in_a_handler(context):
    try:
        raise LookupError("handled")
    except LookupError:
        with roamlet.at(context):
            there = 1
        return there, repr(sys.exc_info()[1])


def deletes(context):
    one, two = 1, 2
    with roamlet.at(context):
        del one
        two += 1
    return sorted(locals()), two


def calls(context, channel):
    def double(number):
        return 2 * number

    with roamlet.at(context):
        value = double(channel.receive())
        channel.send(value)
    return value


def below(context):
    with threading.Lock():  # of a caller's, which stays here
        return changes(context)


def raises(context):
    count = 1
    try:
        with roamlet.at(context):
            count = 2
            raise LookupError("there")
    except LookupError as error:
        return str(error), count


def always_raises(context):
    with roamlet.at(context):
        raise SystemExit(3)


def brings_a_function(context):
    with roamlet.at(context):
        made = lambda: 1  # noqa: E731
    return made  # noqa: RET504 - it is a variable that comes back


def dies(context):
    try:
        with roamlet.at(context):
            os._exit(3)
    finally:
        ended.append(os.getpid())


def waits(context, channel):
    try:
        with roamlet.at(context):
            try:
                channel.send("there")
                roamlet.channel().receive()
            finally:
                ended.append(os.getpid())
    finally:
        ended.append(os.getpid())


def holds_a_lock(context):
    lock = threading.Lock()
    try:
        with roamlet.at(context):
            pass
    except TypeError as error:
        return str(error), lock.acquire(timeout=0)


def in_a_time_out(context):
    with roamlet.timeout(100), roamlet.at(context):
        pass


def in_a_generator(context):
    def generator():
        with roamlet.at(context):
            yield 1

    for _ in generator():
        pass


def by_hand(context):
    roamlet.at(context).__enter__()
