"""What needs nothing else of stacklesslib: the clock, context managers for a tasklet's flags, and a channel that never blocks its
sender.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic as time
from typing import Any

from roamlet import atomic, channel, getcurrent
from roamlet import switch_trap as change_switch_trap

__all__ = ["SignalChannel", "atomic", "block_trap", "ignore_nesting", "switch_trap", "time"]


@contextmanager
def block_trap(trap: bool = True) -> Iterator[None]:
    """Set the current tasklet's block_trap while the `with` lasts: a call that would block raises RuntimeError."""
    current = getcurrent()
    before = current.block_trap
    current.block_trap = trap
    try:
        yield
    finally:
        current.block_trap = before


@contextmanager
def ignore_nesting(flag: bool = True) -> Iterator[None]:
    """Let the current tasklet be interrupted at every nesting level while the `with` lasts."""
    current = getcurrent()
    before = current.set_ignore_nesting(flag)
    try:
        yield
    finally:
        current.set_ignore_nesting(before)


@contextmanager
def switch_trap() -> Iterator[None]:
    """Raise the thread's trap level while the `with` lasts: a call that would switch raises RuntimeError."""
    change_switch_trap(1)
    try:
        yield
    finally:
        change_switch_trap(-1)


class SignalChannel(channel[Any]):
    """A channel on which waiting tasklets can be woken, and whose sender goes on at once."""

    __slots__ = ()

    def __init__(self) -> None:
        self.preference = 1

    def signal(self, value: Any = None) -> None:
        """Send `value` if somebody waits."""
        with atomic():
            if self.balance < 0:
                self.send(value)

    def signal_all(self, value: Any = None) -> None:
        """Send `value` to each tasklet that waits now."""
        with atomic():
            for _ in range(-self.balance):
                self.send(value)

    def asignal(self) -> None:
        """signal(), for a caller that is atomic already."""
        if self.balance < 0:
            self.send(None)

    def asignal_all(self) -> None:
        """signal_all(), for a caller that is atomic already."""
        for _ in range(-self.balance):
            self.send(None)
