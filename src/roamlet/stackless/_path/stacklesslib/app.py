"""What a program takes from here, sleep() and locks, it gets for the mode that it runs in: with tasklets, or with threads alone.

Unlike in the old library the mode at first is that of tasklets: its locks and its sleep() do in a thread without tasklets what
those of `threading` and `time` do, so nothing has to be pumped before they can be used.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import roamlet

from . import events, locks

__all__ = [
    "Condition",
    "Event",
    "Lock",
    "RLock",
    "Semaphore",
    "event_queue",
    "install_stackless",
    "install_vanilla",
    "sleep",
]


def _sleep_tasklet(delay: float) -> None:
    roamlet.sleep(max(delay, 0))


class _Installed(dict[str, Any]):
    """What the mode gives out, by name. Installs the mode of tasklets when something is asked for before anything was installed."""

    def __missing__(self, name: str) -> Any:
        install_stackless()
        return self[name]


_installed = _Installed()
_LOCKS = ("Event", "Lock", "RLock", "Condition", "Semaphore")


def sleep(delay: float) -> None:
    """Block this tasklet for so many seconds; 0 and less let others run. After install_vanilla() it blocks the thread."""
    _installed["sleep"](delay)


def _of_the_mode(name: str) -> Callable[[], Any]:
    def make() -> Any:
        return _installed[name]()

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The {name} of the mode that is installed."
    return make


Event, Lock, RLock, Condition, Semaphore = map(_of_the_mode, _LOCKS)


class _EventQueue:
    """The event queue of the installed mode, also for code that imported this name before the mode was installed."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(_installed["event_queue"], name)
        return function

    def __len__(self) -> int:
        return len(_installed["event_queue"])


event_queue = _EventQueue()


def install_vanilla() -> None:
    """Install the calls that block the thread: time.sleep() and the locks of threading. Events are not pumped."""
    _installed.update({name: getattr(threading, name) for name in _LOCKS})
    _installed.update(sleep=time.sleep, event_queue=events.DummyEventQueue())


def install_stackless() -> None:
    """Give out what blocks the tasklet only."""
    _installed.update({name: getattr(locks, name) for name in _LOCKS})
    _installed.update(sleep=_sleep_tasklet, event_queue=events.event_queue)
