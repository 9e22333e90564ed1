"""The areas of the patch: the module of each in this folder, and the order in which they are put in place."""

from importlib import import_module
from typing import NamedTuple, Protocol, cast

from roamlet.patch.changes import Changes


class Apply(Protocol):
    """What each area's module has under the name `apply`."""

    def __call__(self, changes: Changes) -> None:
        """Replace names of the standard library. Called once before each undo(); does not switch."""


class Area(NamedTuple):
    """A part of the standard library that is made cooperative as a whole."""

    name: str
    """The argument of install()."""
    module: str
    covers: str
    """What is replaced, for status()."""

    def apply(self, changes: Changes) -> None:
        """Import the module, which imports what it is about, and let it make its changes."""
        cast(Apply, import_module(self.module).apply)(changes)


# In the order in which they are put in place: an area that needs another comes after it.
AREAS = (
    Area("dns", "roamlet.patch.areas.names", "socket.getaddrinfo, getnameinfo, gethostbyname and kin"),
    Area("sockets", "roamlet.patch.areas.sockets", "socket.socket and what makes sockets"),
    Area("tls", "roamlet.patch.areas.tls", "ssl.SSLContext.wrap_socket"),
    Area("select", "roamlet.patch.areas.selecting", "select.select, poll and epoll, selectors"),
    Area("sleep", "roamlet.patch.areas.sleeping", "time.sleep"),
    Area("locks", "roamlet.patch.areas.locks", "the locks and queues of threading and queue, Thread.join"),
    Area("local", "roamlet.patch.areas.local", "threading.local"),
    Area("threads", "roamlet.patch.areas.threads", "what starts threads: they are tasklets"),
    Area(
        "subprocess",
        "roamlet.patch.areas.children",
        "subprocess, os.system, os.popen, os.waitpid and kin, multiprocessing",
    ),
    Area("signals", "roamlet.patch.areas.waiting", "signal.sigwait, sigwaitinfo, sigtimedwait, pause"),
    Area("pipes", "roamlet.patch.areas.pipes", "os.read, write, readv, writev and close"),
    Area("asyncio", "roamlet.patch.areas.loops", "asyncio's selector event loops"),
    Area("libraries", "roamlet.patch.areas.libraries", "psycopg, psycopg2, trio"),
)

BY_NAME = {area.name: area for area in AREAS}
