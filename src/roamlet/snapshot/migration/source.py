"""A tasklet that migrates, in the process that it leaves: suspended there, then put back or ended."""

import sys
import weakref
from typing import Any

from roamlet._migration import MigrationDecision
from roamlet.core import channel, tasklet
from roamlet.snapshot import _native
from roamlet.snapshot.state import Flag, Wait
from roamlet.sync._spawn import Body


class Suspended:
    """A tasklet that nothing wakes but a kill, and that can be put back where it was. In move_to() even a kill does not wake it."""

    def __init__(self, item: "tasklet[...]", decision: MigrationDecision | None = None) -> None:
        """`decision`: what it waits for, if it has called move_to() itself."""
        self.tasklet = item
        self.wait: Wait = Wait(*_native.detach(item))
        self.decision = decision
        self._begun = item.frame is not None
        self._nowhere: channel[None] = channel()
        self._held = False
        if decision is not None:
            decision.wait = self._nowhere.receive
        if self._begun:  # insert() and run() refuse what is blocked
            _native.settle(item, -1, self._nowhere, None, self.wait.flags & Flag.ATOMIC, self.wait.atomic)
        migrating.add(item)

    @property
    def is_unchanged(self) -> bool:
        """Whether it is still as it was left: not killed, and not begun."""
        if self.decision is not None and self.decision.killed is not None:
            return False
        return self._is_here

    @property
    def _is_here(self) -> bool:
        item = self.tasklet
        if self._begun:
            return self._nowhere.queue is item
        return item.alive and item.paused and item.frame is None

    def hold(self) -> None:
        """The commit is about to be sent: from now on, keep a kill for the process where the tasklet is then."""
        if self.decision is None:
            _native.hold(self.tasklet, True)
            self._held = True

    def release(self) -> bool:
        """It is decided where the tasklet is. Whether it was killed meanwhile."""
        if self.decision is not None:
            return self.decision.killed is not None
        held, self._held = self._held, False
        return held and _native.hold(self.tasklet, False)

    def put_back(self) -> None:
        """Let it wait where it did, as the last there, or end it there if a kill was kept."""
        killed = self.release() and self.decision is None
        migrating.discard(self.tasklet)
        if not self._is_here:
            return
        if self._begun:
            _native.detach(self.tasklet)
            _native.settle(self.tasklet, *self.wait)
        elif self.wait.flags & Flag.SCHEDULED:
            self.tasklet.insert()
        if killed:
            self.tasklet.kill(pending=True)

    def end(self, generators: list[Any], body: "Body[Any] | None") -> bool:
        """It lives in the destination: end what is left here. Callers that join a tasklet of roamlet.spawn() go on waiting.

        Whether it was killed when it was too late for it to stay.
        """
        killed = self.release()
        migrating.discard(self.tasklet)
        if body is not None:
            del body.outcome
        if self._is_here:
            discard(self.tasklet, generators)
        return killed


migrating: "weakref.WeakSet[tasklet[...]]" = weakref.WeakSet()  # the tasklets of Suspended


def discard(item: tasklet[...], generators: list[Any]) -> None:
    """End a detached tasklet of this thread, without any of its handlers and finally blocks. Switches to it and back.

    Of `generators`, which is emptied, those end in the same way that nothing else refers to.
    """
    kept = _native.defuse(item)
    item.kill()
    del kept
    ended = True
    while ended:
        ended = False
        for number in range(len(generators) - 1, -1, -1):
            if sys.getrefcount(generators[number]) == _REFERENCES_OF_ONE_LIST:
                _native.generator_drop(generators[number])
                del generators[number]
                ended = True
    generators.clear()


_REFERENCES_OF_ONE_LIST = 2  # to its item, where that is counted: the list's, and the call's
