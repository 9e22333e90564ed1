"""Functions that tests/remote/test_executor.py has called in contexts."""

import os
import signal
import threading
import time

_lock = threading.Lock()
_now = [0]
_calls = [0]
_begun = []


class Own(Exception):
    pass


class Odd(Exception):
    """Its constructor wants other arguments than it keeps."""

    def __init__(self, code, where):
        super(Odd, self).__init__("code %d at %s" % (code, where))


class Thing(object):
    def __init__(self, number):
        self.number = number


def most_at_once(seconds):
    """How many calls of this are under way in this process, when `seconds` have passed."""
    with _lock:
        _now[0] += 1
    time.sleep(seconds)
    with _lock:
        most = _now[0]
    time.sleep(seconds)
    with _lock:
        _now[0] -= 1
    return most


def fails_at_two(number):
    _calls[0] += 1
    time.sleep(0.01)
    return number if number != 2 else 1 // 0


def calls():
    return _calls[0]


def after(seconds, value):
    time.sleep(seconds)
    return value


def begin(text):
    time.sleep(0.05)
    _begun.append(text)


def begun(_):
    return _begun[0], len(_begun)


def die(seconds):
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(marker):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except OSError:
        return "second"
    return die(0)


def raises_its_own():
    raise Own("own", 5)


def raises_odd():
    raise Odd(3, "here")


class Kept(object):
    """An object that a weak reference can be made to."""

    def __init__(self, number):
        self.number = number
