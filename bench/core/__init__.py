"""Figures of the core: what a tasklet, a message and a switch cost, in time and in memory.

One module per figure. Each holds one function per peer, all of the form `peer(operations) -> seconds of thread CPU time` (of the
whole process, where two threads are measured), and the table `PEERS` from the peer's name to its function. A peer's library is
imported inside its function: a process that measures one peer must not carry the others, and roamlet refuses to switch inside
somebody else's greenlet.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from . import (
    across,
    buffered,
    choose,
    contended,
    create,
    exclusive,
    iterate,
    message,
    ring,
    schedule,
    scoped,
    semaphore,
    timers,
)


class Figure(NamedTuple):
    """One figure: its name in tables, what one operation is, how many operations belong together, and who can do it."""

    title: str
    operation: str
    step: int
    peers: Mapping[str, Callable[[int], float]]


FIGURES = {
    "create": Figure("create + run + finish", "one tasklet, in batches of 1000", create.STEP, create.PEERS),
    "create_with": Figure(
        "create + run + finish, with arguments", "one tasklet, f(1, 2, key=3)", create.STEP, create.PEERS_WITH
    ),
    "message": Figure("message", "send + receive, two switches", message.STEP, message.PEERS),
    "iterate": Figure("message, in a loop over the channel", "for value in channel", iterate.STEP, iterate.PEERS),
    "schedule_10": Figure("schedule, 10 tasklets", "one switch", 10, schedule.peers(10)),
    "schedule_1000": Figure("schedule, 1000 tasklets", "one switch", 1000, schedule.peers(1000)),
    "ring": Figure("ring of 1000, per hop", "one receive, one send", ring.STEP, ring.PEERS),
    "buffered": Figure("value through a buffer", "send + receive, a buffer of 1024", buffered.STEP, buffered.PEERS),
    "choose": Figure("select over 8 channels", "one wait, one value", choose.STEP, choose.PEERS),
    "across": Figure(
        "to another thread and back", "two values, CPU of both threads on one core", across.STEP, across.PEERS
    ),
    "timers": Figure("time limit not reached", "a timer started and cancelled", timers.STEP, timers.PEERS),
    "scoped": Figure("scope with one child", "enter, spawn, run, leave", scoped.STEP, scoped.PEERS),
    "semaphore": Figure("hand-over by semaphores", "there and back, two switches", semaphore.STEP, semaphore.PEERS),
    "contended": Figure("contended lock", "wait + hold + release, across a switch", contended.STEP, contended.PEERS),
    "fair": Figure("contended fair lock", "the same, handed over", contended.STEP, contended.FAIR_PEERS),
    "exclusive": Figure("exclusive block", "with roamlet.atomic() or RLock, free", exclusive.STEP, exclusive.PEERS),
}
