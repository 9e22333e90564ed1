"""Functions that are called with values that the target keeps. In the syntax that 2.7 and 3.6+ share."""

import sys
import threading
import zlib

_held, _go, _done = threading.Event(), threading.Event(), threading.Event()


def _kept():
    return sys.modules.get("roamlet.wire.values.kept")


def count():
    """How many values this target keeps."""
    return len(_kept()._kept) if _kept() else 0


def look_up(table, key):
    return table[key]


def change(table, key, value):
    table[key] = value


def ids(values):
    return [id(values[0]), id(values[1]["inside"])]


def kind_of(value):
    return type(value).__name__


def each(values):
    for value in values:
        yield value


def receive(channel):
    return channel.receive()


def checksum(data):
    return zlib.adler32(data)


def lie_about_numbers():
    import roamlet.wire.values.kept as kept

    kept.put = lambda value: "seven"


def hold_puts():
    """Let the next put() wait for let_puts_go()."""
    import roamlet.wire.values.kept as kept

    put = kept.put

    def held(value):
        _held.set()
        _go.wait(30)
        number = put(value)
        _done.set()
        return number

    kept.put = held


def wait_for_put():
    return _held.wait(30)


def let_puts_go():
    _go.set()


def wait_for_number():
    return _done.wait(30)
