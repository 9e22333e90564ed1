"""The end of a target: in order when the parent says so, within seconds when the parent is gone."""

import atexit
import os
import threading
import time

from roamlet.wire import protocol
from roamlet.wire.link.link import start_thread

GRACE = 2.0  # seconds that exit handlers may take


class Life(object):
    """Decides that this process ends, once, and ends it whatever the calls' threads are doing."""

    def __init__(self, link):
        self._link = link
        self._lock = threading.Lock()
        self._ends = False
        self.before_goodbye = []  # called one after another when an orderly end sends its last frames
        self.on_loss = []  # called with a sentence when the link is lost

    def end(self, orderly, reason="the link to the parent is lost"):
        """Begin to end; return at once. Only the first call counts.

        Exit handlers run either way, for at most GRACE seconds. `orderly`: the parent is there, and is told that all output
        has been sent.
        """
        with self._lock:
            if self._ends:
                return
            self._ends = True
        try:
            start_thread("roamlet-end", self._kill)
            start_thread("roamlet-end", self._finish, orderly, reason)
        except (RuntimeError, EnvironmentError, MemoryError):  # no thread can be had
            os._exit(1)

    def _kill(self):
        time.sleep(GRACE)
        os._exit(1)

    def _finish(self, orderly, reason):
        try:
            for function in self.on_loss:
                function(reason)
            atexit._run_exitfuncs()
        finally:
            try:
                if orderly:
                    for function in self.before_goodbye:
                        function()
                    self._link.send(protocol.GOODBYE, 0, b"")
            finally:
                os._exit(0)
