"""Puts the core's ModuleLock where the import system makes its locks of modules, and takes it away again."""

import sys
import weakref
from _thread import get_ident
from typing import Any

from roamlet.core._core import ModuleLock

# importlib's own code. What is used of it is private, and the same in 3.11 to 3.15: `_get_module_lock(name)` calls the
# `_ModuleLock` of the module's namespace, and the rest of the import system calls acquire() and release() of what it returns.
_importlib: Any = sys.modules["_frozen_importlib"]


def _replaced() -> Any:
    """CPython's own class while ModuleLock is in its place; it is kept there, for a roamlet that is imported once more."""
    return getattr(_importlib, "_ModuleLock_of_threads", None)


def install() -> None:
    """Let the locks of all modules belong to tasklets.

    A module that this thread imports right now is held by its main tasklet. One that another thread imports right now
    keeps its lock, which belongs to that thread. Where importlib is not as expected nothing happens.
    """
    makes = getattr(_importlib, "_get_module_lock", None)
    if makes is None or "_ModuleLock" not in makes.__code__.co_names or _replaced() is not None:
        return
    _importlib._ModuleLock_of_threads = _importlib._ModuleLock
    _importlib._ModuleLock = ModuleLock
    for reference in list(_importlib._module_locks.values()):
        lock = reference()
        if isinstance(lock, _replaced()) and lock.count and lock.owner == get_ident():
            _lend(lock)


def uninstall() -> None:
    """Undo install(): locks made from now on are CPython's. Those that exist stay with their owners."""
    if _replaced() is not None:
        _importlib._ModuleLock = _replaced()
        del _importlib._ModuleLock_of_threads


def _lend(lock: Any) -> None:
    """Let tasklets take turns at a lock of CPython's, which this thread holds, until it is gone."""
    kind, weak, turn = type(lock), weakref.ref(lock), ModuleLock(lock.name)  # weak: they are attributes of the lock

    def acquire() -> bool:
        turn.acquire()
        try:
            return bool(kind.acquire(weak()))
        except BaseException:
            turn.release()
            raise

    def release() -> None:
        kind.release(weak())
        turn.release()

    for _ in range(lock.count if isinstance(lock.count, int) else len(lock.count)):
        turn.acquire()
    lock.acquire, lock.release = acquire, release
