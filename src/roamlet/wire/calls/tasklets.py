"""Calls as tasklets: roamlet's own core, which has come from the parent, in place of the pool of threads.

Sent after the bundle that contains roamlet itself.

One thread runs all calls, each as a tasklet. The threads of the pool go on reading and hand the calls over. What blocks in
roamlet blocks its call only; what blocks the thread blocks all of them.
"""

import collections
import os
import sys
import threading

from roamlet.wire.link import link
from roamlet.wire.modules import standin

# A backend that the environment may ask for: the one that comes serves as well.
_NOT_SENT = "greenlet"
_runner = None


def install(child):
    """Begin to load roamlet and to run calls as tasklets. Returns at once: the files of the core come behind this frame."""
    global _runner
    if isinstance(sys.modules["roamlet"], standin.Module):  # else this process was forked from one that has roamlet
        for name in [name for name in sys.modules if name.partition(".")[0] == "roamlet"]:
            if name.split(".")[:2] != ["roamlet", "wire"]:
                del sys.modules[name]
    _runner = Runner(child.pool)
    child.pool.runner = _runner
    link.start_thread("roamlet-tasklets", _runner.serve)


def ready():
    """Return the name of the switching backend, in a call of its own; raise what has kept the core from being loaded."""
    if _runner.problem is not None:
        raise ImportError(_runner.problem)
    return sys.modules["roamlet.core"].backend


class _Call(object):
    """One call: its frame, and its tasklet once it has one."""

    def __init__(self, frame):
        self.frame = frame
        self.tasklet = None
        self.begun = False
        self.cancelled = False  # before it had begun, perhaps


class Runner(object):
    """Takes calls from the threads that read, in `take` and `cancel`; `serve` is the life of the thread that runs them."""

    def __init__(self, pool):
        self.problem = None
        self._pool = pool
        self._early = collections.deque()  # what came before the core was there
        self._queue = None  # of _Call, and of (id, source) of those that are to end
        self._running = {}  # (id, source) -> _Call
        self._lock = threading.Lock()

    def take(self, frame):
        """Take a call over. Never blocks."""
        if not self._put(_Call(frame)):
            self._pool.begin(frame)

    def cancel(self, identifier, source):
        """End a call whose caller does not wait any more. Never blocks."""
        call = self._running.get((identifier, source))
        if call is not None:
            call.cancelled = (
                True  # now: it may begin before the other thread, which a call holds up, looks at its queue
            )
        self._put((identifier, source))

    def _put(self, what):
        with self._lock:
            if self._queue is not None:
                self._queue.put(what)
            elif self.problem is None:
                self._early.append(what)
            return self.problem is None

    def serve(self):
        """Load the core, then run calls until the process ends. Returns when it cannot be loaded: threads run the calls then."""
        asked = os.environ.get("ROAMLET_SWITCH")
        if asked == _NOT_SENT:
            del os.environ["ROAMLET_SWITCH"]
        try:
            from roamlet.core import tasklet
            from roamlet.sync import SimpleQueue

            sys.modules["roamlet"].wire = sys.modules["roamlet.wire"]
        except BaseException:
            self._give_up("%s: %s" % (sys.exc_info()[0].__name__, sys.exc_info()[1]))
            return
        finally:
            if asked == _NOT_SENT:
                os.environ["ROAMLET_SWITCH"] = asked
        with self._lock:
            # A queue, and no waiter: run() in a call waits for sleeps and descriptors, and must not wait for the next call.
            self._queue = SimpleQueue()
            while self._early:
                self._queue.put(self._early.popleft())
        while True:
            what = self._queue.get()
            if isinstance(what, _Call):
                self._running[what.frame[2], what.frame[1]] = what
                what.tasklet = tasklet(self._run)(what)
            else:
                self._end(what)
            what = None  # nothing of a call is kept while the next one is waited for

    def _give_up(self, problem):
        with self._lock:
            self.problem = problem
            self._pool.runner = None
            waiting = [what.frame for what in self._early if isinstance(what, _Call)]
        self._pool.take(waiting)
        self._pool._turns.wake()

    def _run(self, call):
        call.begun = not call.cancelled
        try:
            if call.begun:
                self._pool._run(call.frame)
            else:
                self._pool.drop(call.frame)
        finally:
            self._running.pop((call.frame[2], call.frame[1]), None)

    def _end(self, key):
        call = self._running.get(key)
        if call is None:
            return  # it has ended
        if not call.begun:
            del self._running[key]
            self._pool.drop(call.frame)
        call.tasklet.kill(pending=True)
