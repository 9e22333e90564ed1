"""A function in the main thread of a target, where signals arrive and test runners expect to be.

Calls run in any thread of the pool, of which the main thread is one.
"""

import threading

from roamlet.wire.link.link import WAKE

_PATIENCE = 0.05  # seconds in which the main thread, if it is idle, takes what was left to it

_child = None


def install(child):
    global _child  # noqa: PLW0603 - the process is the context
    _child = child
    child.pool._turns = _Turns(
        child.pool, child.pool._turns
    )  # all threads come by there: those that wait now, once they are woken


class Job(object):
    """A function that the main thread calls next; `finished()` is called there when it has ended."""

    def __init__(self, function, args, finished):
        self.error = None
        self._function = function
        self._args = args
        self._finished = finished
        self.taken = threading.Event()

    def run(self):
        try:
            self._function(*self._args)
        except BaseException as error:  # noqa: BLE001 - the caller of begin() looks at it
            error.__traceback__ = None  # with the frames of the main thread
            self.error = error
        finally:
            self._function = self._args = None
            self._finished()


def begin(function, args, finished):
    """Have the main thread call the function as soon as it runs no call; return the Job. Never blocks."""
    turns = _child.pool._turns
    job = Job(function, args, finished)
    turns.jobs.append(job)
    turns.wake()
    return job


class _Turns(object):
    """As link.turns, except that the main thread does what was left to it before it waits."""

    def __init__(self, pool, turns):
        self.jobs = []
        self._pool = pool
        self._turns = turns

    def wait(self):
        if self.jobs:
            if type(threading.current_thread()).__name__ == "_MainThread":
                self._run(self.jobs.pop(0))
                return WAKE
            # One thread is woken, and this is the wrong one. The main thread may run a call: then somebody else has to read.
            for job in self.jobs[:1]:  # none, if the main thread has taken it meanwhile
                self._turns.wake()
                job.taken.wait(_PATIENCE)
        return self._turns.wait()

    def _run(self, job):
        pool = self._pool
        job.taken.set()
        with pool._lock:
            pool._may_leave()  # starts a thread that reads where no other does; this runs without one, too
            pool._idle -= 1
        try:
            job.run()
        finally:
            with pool._lock:
                pool._idle += 1

    def __getattr__(self, name):
        return getattr(self._turns, name)
