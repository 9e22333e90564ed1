"""What runs for weeks must not grow: memory and descriptors after many rounds are those after a few."""

import os
from pathlib import Path

import pytest

import roamlet
from roamlet import remote

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident():
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def growth(round_of_work, rounds, warm_up):
    """How many bytes the process grew over `rounds` rounds, after some to warm up."""
    for _ in range(warm_up):
        round_of_work()
    before = resident()
    for _ in range(rounds):
        round_of_work()
    return resident() - before


def test_contexts_that_come_and_go_leave_no_memory():
    def open_and_call():
        with remote.local() as context:
            assert context.call(max, (1, 2)) == 2

    assert growth(open_and_call, rounds=300, warm_up=30) < 3_000_000


def test_calls_of_one_context_leave_no_memory_here_nor_over_there():
    payload = {"rows": [list(range(20)), "text" * 50, b"bytes" * 50], "nested": {"a": (1, 2.5, None)}}
    with remote.local() as context:
        over_there = Path(f"/proc/{context.facts.pid}/statm")

        def call():
            assert context.call(dict, (payload,)) == payload

        here = growth(call, rounds=2_000, warm_up=500)
        before = int(over_there.read_text().split()[1])
        here += growth(call, rounds=20_000, warm_up=0)
        there = (int(over_there.read_text().split()[1]) - before) * PAGE
    assert here < 3_000_000
    assert there < 3_000_000


def test_failing_calls_leave_no_memory():
    with remote.local() as context:

        def fail():
            with pytest.raises(ValueError, match="invalid literal"):
                context.call(int, ("x",))

        assert growth(fail, rounds=3_000, warm_up=300) < 3_000_000


def test_tasklets_and_messages_leave_no_memory():
    def crowd():
        jobs, results = roamlet.channel(), roamlet.channel()

        def work():
            for job in jobs:
                results.send(job + 1)

        workers = [roamlet.tasklet(work)() for _ in range(500)]

        def feed():
            for number in range(5_000):
                jobs.send(number)
            jobs.close()

        roamlet.tasklet(feed)()
        assert sum(results.receive() for _ in range(5_000)) == 5_000 * 5_001 // 2
        roamlet.run()
        assert not any(worker.alive for worker in workers)

    assert growth(crowd, rounds=200, warm_up=20) < 3_000_000


def test_killed_tasklets_leave_no_memory():
    def kill_many():
        channel = roamlet.channel()
        waiting = [roamlet.tasklet(channel.receive)() for _ in range(2_000)]
        roamlet.schedule()
        assert channel.balance == -2_000
        for tasklet in waiting:
            tasklet.kill()

    assert growth(kill_many, rounds=100, warm_up=10) < 3_000_000


def test_timers_leave_no_memory():
    def sleep_many():
        for _ in range(1_000):
            roamlet.tasklet(roamlet.sleep)(0.001)
        roamlet.run()

    assert growth(sleep_many, rounds=200, warm_up=20) < 3_000_000
