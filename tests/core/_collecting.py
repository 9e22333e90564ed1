"""What the tests of the collector share: which frames it sees here, and how a test waits for it."""

import contextlib
import gc
import sys

import roamlet
from roamlet import core

SEES_FRAMES = core.backend != "greenlet"
# Whether greenlet shows frames by itself: some of what hangs from them is found then, and what is not can be killed.
GREENLET_SEES_SOME = not SEES_FRAMES and sys.version_info >= (3, 15)
STORES_OPERANDS = sys.version_info >= (3, 14)  # before every call, so that all of them are seen


def run() -> None:
    """Run until no tasklet is runnable, whatever waits."""
    roamlet.run(hub=False)


def run_and_collect() -> None:
    run()
    gc.collect()


def kill_all() -> None:
    for tasklet in core.started():
        tasklet.kill()


def ends_in(log: list[str]) -> None:
    """Check that a collection has ended the tasklets that write to `log`; on greenlet, that it has not and kill does."""
    if not SEES_FRAMES:
        assert GREENLET_SEES_SOME or (log == [] and len(core.started()) > 0)
        kill_all()
    assert set(log) == {"TaskletExit", "finally"}
    assert core.started() == []


@contextlib.contextmanager
def noting(log):
    try:
        yield
        log.append("went on")
    except roamlet.TaskletExit:
        log.append("TaskletExit")
        raise
    finally:
        log.append("finally")


def collect_or_kill_and_run() -> None:
    gc.collect()
    if not SEES_FRAMES:
        kill_all()
    roamlet.run()
