"""A load of everything at once on loopback, with random disconnects, kills and time-outs, that leaves nothing behind.

`make soak` runs it for half an hour; ROAMLET_SOAK_SECONDS says how long instead, ROAMLET_SOAK_SEED with which seed. `make test`
runs the same code for some seconds. That no descriptor, tasklet, thread or object is left is checked as after every test
(tests/conftest.py), with the cyclic collector off.
"""

import os
import time

import pytest

from roamlet.io import workers
from tests.soak.load import Load
from tests.soak.work import Shared, work_of

SECONDS = float(os.environ.get("ROAMLET_SOAK_SECONDS", "1800"))

# How far the median of the last quarter may lie above that of the second one. What leaks one object a request reaches it within
# seconds; what does not leak stays far below, though how many are at it at once is never the same.
BYTES = 4_000_000
BLOCKS = 5_000

WHAT_HAPPENS = (
    *("kills", "time-outs", "broken connections", "failed scopes"),
    *("lock", "rlock", "fair", "semaphore", "condition", "event", "producer", "consumer", "simple queue", "channel"),
    *("client", "call_async", "scope", "futures"),
)


@pytest.fixture
def abandoned_jobs_are_no_news():
    workers.configure(on_abandoned=lambda function, result, error: None)
    yield
    workers.configure(on_abandoned=None)


def loaded(seconds, seed, say):
    load = Load(seed, seconds)
    shared = Shared(load.threads)
    load.run(work_of(shared), say)
    assert load.failures == []
    shared.check(load.total)
    assert [what for what in WHAT_HAPPENS if not load.total[what]] == []
    return load


def test_a_load_for_some_seconds_leaves_nothing_behind(abandoned_jobs_are_no_news):
    said = []
    load = loaded(15, 20261121, said.append)
    assert "seed 20261121" in said[-1]
    assert load.growth("blocks") < BLOCKS


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 300)
def test_a_load_for_long_leaves_nothing_behind_and_takes_no_more_memory(abandoned_jobs_are_no_news, told):
    seed = int(os.environ.get("ROAMLET_SOAK_SEED") or time.time())
    load = loaded(SECONDS, seed, told)
    told(f"growth: {load.growth('resident') / 1e6:+.2f} MB resident, {load.growth('blocks'):+.0f} blocks\n")
    assert load.growth("resident") < BYTES
    assert load.growth("blocks") < BLOCKS
