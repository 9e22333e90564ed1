"""The main loop: waits, makes the calls that are due, runs tasklets, again and again. And the queue of calls, event_queue.

Sleeping tasklets, those that wait for locks or descriptors and those whose time is over wake while it waits, by themselves. What
it adds is for programs that have it: pumps, calls of the event queue, and errors of tasklets that are printed instead of raised.
"""

import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from roamlet import getruncount, stackless, sync

from .app import sleep
from .base import atomic
from .base import time as elapsed_time
from .events import event_queue

__all__ = ["MainLoop", "atomic", "elapsed_time", "event_queue", "mainloop", "mainloopClass", "sleep"]

ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class MainLoop:
    """Made to be subclassed: interruptable_wait(), raw_sleep() and handle_error() are what programs replace."""

    def __init__(self) -> None:
        # The interval at which the pumps are called when nothing else happens: they cannot wake this tasklet themselves.
        self.max_wait_time = 0.01
        self.running = True
        self.break_wait = sync.Event()
        self.pumps: list[Callable[[], object]] = []
        self.event_queue = event_queue

    def add_pump(self, pump: Callable[[], object]) -> None:
        """Call `pump` in each turn of the loop."""
        if pump not in self.pumps:
            self.pumps.append(pump)

    def remove_pump(self, pump: Callable[[], object]) -> None:
        """Undo add_pump; nothing when it was not added."""
        if pump in self.pumps:
            self.pumps.remove(pump)

    def pump_pumps(self) -> None:
        """Call every pump."""
        for pump in list(self.pumps):
            pump()

    def get_wait_time(self, time: float) -> float:
        """Seconds to wait before the next turn: 0 while tasklets can run, at most max_wait_time."""
        del time
        if getruncount() > 1:
            return 0.0
        delay = self.event_queue.due_delay()
        return self.max_wait_time if delay is None else max(0.0, min(self.max_wait_time, delay))

    def adjust_wait_times(self, deltaSeconds: float) -> None:
        """Put off all queued calls by so many seconds. Tasklets in sleep() are not concerned."""
        self.event_queue.reschedule(deltaSeconds)

    def interruptable_wait(self, delay: float) -> None:
        """Wait for `delay` seconds or until interrupt_wait(). Tasklets run meanwhile."""
        self.break_wait.wait(delay)
        self.break_wait.clear()

    def interrupt_wait(self) -> None:
        """End the wait of the loop. Thread-safe."""
        self.break_wait.set()

    def raw_sleep(self, delay: float) -> None:
        """Sleep with the whole thread."""
        time.sleep(delay)

    def pump(self, run_for: int = 0) -> None:
        """Call the pumps, and make the calls that are due."""
        del run_for
        self.pump_pumps()
        self.event_queue.pump()

    def run_tasklets(self, run_for: int = 0) -> Any:
        """Run tasklets until none can, or one has executed `run_for` opcodes, which is returned. An error is handled."""
        try:
            return stackless.run(run_for)
        except Exception:
            self.handle_error(sys.exc_info())
            return None

    def handle_error(self, ei: ExcInfo) -> None:
        """What becomes of the error of a tasklet: it is printed."""
        traceback.print_exception(*ei)

    def wait(self) -> None:
        """Wait until there is something to do. Errors of tasklets that run meanwhile are handled."""
        delay = self.get_wait_time(elapsed_time())
        if delay:
            try:
                self.interruptable_wait(delay)
            except Exception:
                self.handle_error(sys.exc_info())

    def loop(self) -> None:
        """One turn: wait, pump, run."""
        self.wait()
        self.pump()
        self.run_tasklets()

    def run(self) -> None:
        """Turn until stop()."""
        while self.running:
            self.loop()

    def stop(self) -> None:
        """End run() after this turn."""
        self.running = False


mainloopClass = MainLoop
mainloop = mainloopClass()
