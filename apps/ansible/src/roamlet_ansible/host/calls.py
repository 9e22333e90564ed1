"""What runs now, by the token of the call that started it, so that another call can end it."""

import itertools
import threading

MOST_CANCELLED = 1000  # tokens that were cancelled before their call came


class Cancelled(Exception):
    """cancel() was called with the token of this call, which is over or was never begun."""


LOCK = threading.Lock()
NUMBERS = itertools.count(1)
PROCESSES = {}  # token -> Process, for cancel(), and between calls of start() and talk()
MODULES = {}  # token -> (Zygote, number)
CANCELLED = []  # tokens whose call has not come yet


def enter(token, process):
    with LOCK:
        if token in CANCELLED:
            CANCELLED.remove(token)
            process.kill()
        PROCESSES[token] = process


def leave(token, process):
    with LOCK:
        if PROCESSES.get(token) is process:
            del PROCESSES[token]
        process.close()


def cancel(token):
    """Kill what runs under this token, or will: a command, a process of start(), a module. True if something did."""
    with LOCK:
        process = PROCESSES.get(token)
        if process is not None:
            process.kill()
            return True
        module = MODULES.get(token)
        if module is None:
            CANCELLED.append(token)
            del CANCELLED[:-MOST_CANCELLED]
            return False
    zygote, number = module
    zygote.cancel(number)
    return True
