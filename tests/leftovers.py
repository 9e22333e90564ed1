"""What a test can leave behind, and how it is found: threads, descriptors, children, tasklets and uncollected objects.

Here is no policy: tests/conftest.py decides when to look and what to do about it.
"""

import contextlib
import gc
import os
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic

import roamlet
import roamlet.core

# References are counted by tools/reference_leaks.py alone.
KINDS = ("tasklets", "threads", "fds", "children", "objects", "references")

# Where roamlet's own sources lie; whatever the folder of the repository is called.
ROAMLET = os.path.dirname(roamlet.__file__) + os.sep

# Threads, children and what they have need a moment to end after whoever ended them has returned: this long at most.
GRACE_SECONDS = 10.0

# roamlet's own daemon threads that outlive one use by design. Each name is documented where the thread is started.
SERVICE_THREAD_PREFIX = "roamlet-service-"


@dataclass
class Inventory:
    """What the process had at one moment."""

    tasklets: int
    threads: frozenset[threading.Thread]
    fds: dict[int, str]
    children: frozenset[int]

    @classmethod
    def taken(cls) -> "Inventory":
        """Look at the process now. What exists already is frozen out of later collections, which are cheap that way."""
        gc.collect()
        gc.freeze()
        return cls(len(_started()), frozenset(threading.enumerate()), _open_fds(), frozenset(_children()))

    def what_is_left(self) -> Iterator[tuple[str, str]]:
        """Yield (kind, sentence) for each thing that exists now and did not then. Collects cycles as its last act."""
        yield from (("tasklets", text) for text in self._tasklets_left())
        yield from (("threads", text) for text in self._threads_left())
        yield from (("children", text) for text in _after_a_grace(self._children_left))
        yield from (("fds", text) for text in _after_a_grace(self._fds_left))
        yield from (("objects", text) for text in _uncollected())

    def reap_children(self) -> None:
        """Wait for children that did not exist then and have ended: os.wait() of a later test must not find them."""
        for pid in _children() - self.children:
            with contextlib.suppress(ChildProcessError):  # a thread has waited for it meanwhile
                os.waitpid(pid, os.WNOHANG)

    def _tasklets_left(self) -> list[str]:
        left = []
        if roamlet.getcurrent() is not roamlet.getmain():
            left.append(f"the current tasklet is {roamlet.getcurrent()!r}, not main")
        if roamlet.getruncount() != 1:
            left.append(f"{roamlet.getruncount()} tasklets are runnable, main included")
        suspended = _started()
        if len(suspended) > self.tasklets:
            left.append(f"{len(suspended) - self.tasklets} tasklets have not ended; all there are: {suspended!r:.500}")
        return left

    def tasklets_since(self) -> list["roamlet.tasklet[...]"]:
        """This thread's tasklets that have not ended and did not exist then: those that have begun, and those that will."""
        found = _started()[self.tasklets :]
        tasklet = roamlet.getcurrent().next
        while tasklet is not None and tasklet is not roamlet.getcurrent():
            if tasklet not in found and tasklet is not roamlet.getmain():
                found.append(tasklet)
            tasklet = tasklet.next
        return found

    def end_tasklets(self) -> None:
        """End them by TaskletExit, so that the next test does not meet them. What one raises is its own affair: it is dropped."""
        for tasklet in self.tasklets_since():
            with contextlib.suppress(Exception):
                tasklet.kill()

    def _threads_left(self) -> list[str]:
        deadline = monotonic() + GRACE_SECONDS
        left = []
        for thread in set(threading.enumerate()) - self.threads:
            if thread.daemon and thread.name.startswith(SERVICE_THREAD_PREFIX):
                continue
            thread.join(max(0.0, deadline - monotonic()))
            if thread.is_alive():
                left.append(f"thread {thread.name!r} is still running")
        return left

    def _children_left(self) -> list[str]:
        return [f"child process {pid} ({_command(pid)}) was not waited for" for pid in _children() - self.children]

    def _fds_left(self) -> list[str]:
        now = _open_fds()
        return [
            f"file descriptor {fd} -> {target} is still open"
            for fd, target in sorted(now.items())
            if self.fds.get(fd) != target
        ]


def _after_a_grace(look: Callable[[], list[str]]) -> list[str]:
    """What `look` still finds when it has found something for GRACE_SECONDS: a thread gives up what it has as it ends."""
    deadline = monotonic() + GRACE_SECONDS
    while (found := look()) and monotonic() < deadline:
        Event().wait(0.005)
    return found


def _started() -> list[object]:
    """This thread's tasklets that have begun and not ended, main excepted."""
    return list(roamlet.core.started())


def _open_fds() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the descriptor that listed the folder
            continue
        found[int(name)] = target
    return found


def _children() -> frozenset[int]:
    """Children of every thread of this process, zombies too."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            pids.update(int(pid) for pid in (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):  # the thread ended meanwhile
            continue
    return frozenset(pids)


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "gone"
    return words[:120] or "a zombie"


def _uncollected() -> list[str]:
    """Objects of roamlet, and tracebacks that lead through its files, that only the cyclic collector could free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    found = [text for text in map(_blame, gc.garbage) if text]
    gc.garbage.clear()  # it is freed before the next test; `--roamlet-leaks` looks at it before that
    return found[:10] + ([f"and {len(found) - 10} more"] if len(found) > 10 else [])


def _blame(thing: object) -> str | None:
    """Say what `thing` is when it is roamlet's own, or None when it is somebody else's garbage."""
    kind = type(thing)
    if kind in weakref.ProxyTypes:
        return None  # asking it anything would ask what it stands for, which may be gone
    if isinstance(thing, types.TracebackType):
        places = list(_files_of(thing))
        if any(place.startswith(ROAMLET) for place in places):
            return f"a traceback that only the cyclic collector frees, through {' < '.join(places)}"
        return None
    if kind.__module__.split(".")[0] == "roamlet":
        return f"{_safe_repr(thing)}, a {kind.__module__}.{kind.__qualname__}, is kept by a reference cycle"
    return None


def _files_of(traceback: types.TracebackType | None) -> Iterable[str]:
    while traceback is not None:
        yield f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next


def _safe_repr(thing: object) -> str:
    try:
        return repr(thing)[:100]
    except Exception as error:  # half-collected objects may fail in any way, and the report must go on
        return f"<unprintable: {error!r}>"
