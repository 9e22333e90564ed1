"""A tasklet between here and another process, in the process that it leaves."""

import weakref
from typing import Any

import roamlet
from roamlet._move import Leaving
from roamlet.core import tasklet
from roamlet.snapshot import _native
from roamlet.snapshot.migration.prepare import ATOMIC_FLAG, SCHEDULED, State, discard
from roamlet.sync._spawn import Body


class Suspended:
    """Nobody but who kills it wakes it, and it can be put back where it was. One in move_to() is not even killed then."""

    def __init__(self, moving: "tasklet[...]", leaving: Leaving | None = None) -> None:
        self.tasklet = moving
        self.state: State = _native.detach(moving)
        self.leaving = leaving
        self._begun = moving.frame is not None
        self._nowhere: roamlet.channel[None] = roamlet.channel()
        self._held = False
        if leaving is not None:
            leaving.wait = self._nowhere.receive
        if self._begun:  # insert() and run() refuse what is blocked
            _native.settle(moving, -1, self._nowhere, None, self.state[3] & ATOMIC_FLAG, self.state[4])
        under_way.add(moving)

    @property
    def is_ours(self) -> bool:
        """Whether it is still as it was left: nobody has killed it, or let it begin."""
        if self.leaving is not None and self.leaving.killed is not None:
            return False
        return self._is_here

    @property
    def _is_here(self) -> bool:
        moving = self.tasklet
        if self._begun:
            return self._nowhere.queue is moving
        return moving.alive and moving.paused and moving.frame is None

    def hold(self) -> None:
        """The order to go on elsewhere is about to be sent: from now on, keep a kill for where it is then."""
        if self.leaving is None:
            _native.hold(self.tasklet, True)
            self._held = True

    def let_go(self) -> bool:
        """It is decided where it is. Whether it was killed meanwhile."""
        if self.leaving is not None:
            return self.leaving.killed is not None
        held, self._held = self._held, False
        return held and _native.hold(self.tasklet, False)

    def put_back(self) -> None:
        """Let it be where it was, behind others, or end it there if a kill was kept."""
        killed = self.let_go() and self.leaving is None
        under_way.discard(self.tasklet)
        if not self._is_here:
            return
        if self._begun:
            _native.detach(self.tasklet)
            _native.settle(self.tasklet, *self.state)
        elif self.state[3] & SCHEDULED:
            self.tasklet.insert()
        if killed:
            self.tasklet.kill(pending=True)

    def end(self, generators: list[Any], body: "Body[Any] | None") -> bool:
        """It lives elsewhere: end what is left here. Whoever joins a tasklet of roamlet.spawn() goes on waiting.

        Whether it was killed when it was too late for it to stay.
        """
        killed = self.let_go()
        under_way.discard(self.tasklet)
        if body is not None:
            del body.outcome
        if self._is_here:
            discard(self.tasklet, generators)
        return killed


under_way: "weakref.WeakSet[tasklet[...]]" = weakref.WeakSet()  # the tasklets of Suspended
