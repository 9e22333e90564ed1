"""The link of a context, as a test needs it: cut, stalled, counted, and asked what it still holds."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import roamlet
from roamlet.remote import Context, Stats
from roamlet.remote.calls.engine import calls_of
from roamlet.remote.link.link import Link
from roamlet.remote.link.process import Process

__all__ = ["Counted", "Holds", "counted", "cut", "flush_output", "holds", "stalled"]

STOPPED = 5.0  # seconds within which every thread of a process that was sent SIGSTOP stands still
ENDED = 30.0  # seconds within which a link whose process was killed has ended


class Holds(NamedTuple):
    """What a context has of this process at one moment; all zero once each call and channel has been given back."""

    calls: int
    """Calls that were sent and not answered."""
    channels: int
    """Channels that were given to the context and not let go by it."""


@dataclass
class Counted:
    """What a block has cost on a context: filled when the block ends. Attributes as those of `remote.Stats`."""

    calls: int = 0
    modules: int = 0
    round_trips: int = 0
    bytes_down: int = 0
    bytes_up: int = 0


def cut(context: Context) -> None:
    """Break the link to `context` at once, as a lost network or a killed ssh does: nothing is said to the target.

    The process at this end of the link is killed: ssh, sudo or docker, or the interpreter itself of a local context; behind other
    contexts, the one that the last hop started. Calls in flight raise ContextDied. Blocks this tasklet until the link has ended.
    """
    link = _link_of(context)
    link.process.kill()
    if not link.ended.wait(ENDED):
        raise TimeoutError(f"the link to {context.name!r} was cut {ENDED:g} seconds ago and has not ended")


@contextmanager
def stalled(context: Context) -> Iterator[None]:
    """For the length of a `with` block nothing passes the link to `context`, and nothing says that it is broken.

    The process at this end of the link is stopped by SIGSTOP, and goes on after the block unless it has ended
    meanwhile. Blocks this tasklet until it stands still. Raises ValueError for a context behind another one, which has
    no process of its own here: stall the context that it goes through.
    """
    link = _link_of(context)
    if not isinstance(link.process, Process):
        raise ValueError(
            f"{context.name!r} is behind another context and has no process of its own here: stall the context it goes through"
        )
    pid = link.process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        _wait_until_stopped(pid)
        yield
    finally:
        if link.process.exit_code is None:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def counted(context: Context) -> Iterator[Counted]:
    """Count what the `with` block costs on `context`: calls, modules that were sent, round trips of imports, and bytes.

    Does not block or switch. What other tasklets cost meanwhile is counted too.
    """
    counts, before = Counted(), context.stats
    try:
        yield counts
    finally:
        after: Stats = context.stats
        for name in vars(counts):
            setattr(counts, name, getattr(after, name) - getattr(before, name))


def holds(context: Context) -> Holds:
    """Return what `context` has of this process now. Neither blocks nor switches; another thread may change it at once."""
    link = _link_of(context)
    return Holds(len(link.in_flight.calls), len(link.channels))


def flush_output(context: Context, seconds: float = ENDED) -> None:
    """Wait until all that `context` has printed and logged so far, as far as it has arrived, was given to its output function.

    Blocks this tasklet only. Raises TimeoutError after `seconds`.
    """
    if not _link_of(context).output.wait_until_delivered(seconds):
        raise TimeoutError(
            f"output of {context.name!r} was not delivered within {seconds:g} seconds: its function blocks"
        )


def _link_of(context: Context) -> Link:
    return calls_of(context).link


def _wait_until_stopped(pid: int) -> None:
    # The signal alone takes a moment: each thread stops on its own.
    limit = time.monotonic() + STOPPED
    while not all(_state(thread) == "T" for thread in Path(f"/proc/{pid}/task").iterdir()):
        if time.monotonic() > limit:
            raise TimeoutError(f"process {pid} was sent SIGSTOP {STOPPED:g} seconds ago and still runs")
        roamlet.call_async(lambda: time.sleep(0.002))


def _state(thread: Path) -> str:
    try:
        line = (thread / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has ended since the folder was listed
        return "T"
    return line.rpartition(")")[2].split()[0]  # "pid (name) state ...", and the name may hold anything
