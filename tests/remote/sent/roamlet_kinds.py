"""Classes and functions that the tests of values send to their contexts. The common syntax of 2.7 and 3.6+."""

import collections
import sys
import threading

Point = collections.namedtuple("Point", "x y")
made = []


class Thing(object):
    def __init__(self, name, inside):
        made.append(name)
        self.name = name
        self.inside = inside

    def described(self, more):
        return "%s: %r, %r" % (self.name, self.inside, more)

    @classmethod
    def named(cls, name):
        return cls(name, None)

    @staticmethod
    def twice(number):
        return 2 * number


class OwnError(ValueError):
    def __init__(self, text, code):
        ValueError.__init__(self, text, code)
        made.append("error")
        self.code = code


def echo(value):
    return value


def text(value):
    return repr(value)


def kind(value):
    return type(value).__name__


def a_thing(name="a thing"):
    return {"rows": [0, Thing(name, [Point(1, 2)])]}


def a_thing_with_a_lock():
    return {"rows": [0, 1, 2, Thing("locked", threading.Lock())]}


def raise_own(text="why", code=7):
    raise OwnError(text, code)


def raise_with(error):
    raise error(Thing("inside", None))


def return_own():
    return [OwnError("kept", 9)]


def describe(thing):
    return [thing.name, repr(thing.inside), type(thing).__module__, thing.described(1), list(made)]


def generator():
    return (number for number in range(3))


def opened():
    return {"file": open("/dev/null")}


def leave():
    sys.exit(3)


def size_of(data):
    return len(data)


def big(size):
    return b"\xff" * size


def sum_of(rows):
    return sum(rows)


def apply(function, *args):
    return function(*args)
