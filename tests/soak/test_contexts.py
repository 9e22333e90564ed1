"""A thousand contexts at once, and contexts that are killed at any moment: what it costs, and that nothing is lost."""

import os
import random
import resource
import signal
import time
from pathlib import Path

import pytest

import roamlet
from roamlet import remote
from tests.soak import work

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

CONTEXTS = 1_000
MOST_CPU = 2.0  # milliseconds of this process for each: opened, called, closed
MOST_MEMORY = 80  # kB of this process for each, open
RUNS = 500
JOBS = 60  # for each run


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@pytest.fixture
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 4 * CONTEXTS + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"{needed} descriptors are needed, and this user may have {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_contexts_at_once(many_descriptors, capsys):
    with remote.open_all([remote.local] * 5) as opened:  # what is made once
        list(remote.gather(opened.contexts, os.getpid))
    cpu_before, memory_before, begun = cpu(), resident(), time.monotonic()
    with remote.open_all([lambda: remote.local(timeout=600)] * CONTEXTS, at_once=8) as opened:
        assert opened.failed == []
        memory = (resident() - memory_before) / CONTEXTS / 1024
        pids = {result.get() for result in remote.gather(opened.contexts, os.getpid, at_once=100)}
        assert pids == {context.facts.pid for context in opened.contexts}
        assert len(pids) == CONTEXTS
    each = (cpu() - cpu_before) / CONTEXTS * 1000
    with capsys.disabled():
        print(
            f"\n{CONTEXTS} contexts in {time.monotonic() - begun:.0f} s: {each:.2f} ms of CPU and {memory:.0f} kB for each here"
        )
    assert each <= MOST_CPU
    assert memory <= MOST_MEMORY


def taken_out(channel):
    """Everything that can be had without waiting."""
    found = []
    while channel.balance > 0:
        found.append(channel.receive())
    return found


def test_contexts_behind_two_hops_that_are_killed_at_any_moment_lose_nothing(capsys):
    """Jobs come by a channel, results go by another. A worker is killed, or the hop that both are behind.

    Each job was answered, or is back in its channel, or went with a worker that had taken it: one job for each that died.
    """
    dice = random.Random(20)
    lost = 0
    with remote.local() as outer:
        for run in range(RUNS):
            window = dice.choice([0, 0, 5, 200])
            jobs = roamlet.channel(window) if window else roamlet.channel()
            results = roamlet.channel(1000)
            feeding = [roamlet.spawn(lambda number=number, jobs=jobs: jobs.send(number)) for number in range(JOBS)]
            with remote.local(via=outer) as hop, remote.local(via=hop) as first, remote.local(via=hop) as second:
                calls = [context.spawn(work.answer_jobs, (jobs, results)) for context in (first, second)]
                said = [results.receive() for _ in range(dice.randrange(JOBS // 2))]
                victim = dice.choice([first, hop])
                os.kill(victim.facts.pid, signal.SIGKILL)
                dead = [calls[0]] if victim is first else calls
                for call in dead:
                    with pytest.raises(remote.ContextDied):
                        call.join(60)
                while victim is first and len(said) < JOBS - 1:
                    said.append(results.receive())
                said += taken_out(results)
                jobs.close()
                if victim is first:
                    calls[1].join(60)
            said += taken_out(results)
            left = taken_out(jobs)
            for sender in feeding:
                sender.join(60)
            assert sorted({*said, *left}) == sorted([*said, *left]), f"run {run}: something came twice"
            missing = set(range(JOBS)).difference(said, left)
            assert len(missing) <= len(dead), f"run {run}: {sorted(missing)} were lost"
            lost += len(missing)
    with capsys.disabled():
        print(f"\n{RUNS} kills: {lost} of {RUNS * JOBS} jobs went with the worker that had taken them, none came twice")


def test_calls_into_contexts_that_are_killed_at_any_moment_all_end(capsys):
    """Every call gets its answer or an error that says how it ended; nothing waits on; no process is left."""
    dice = random.Random(21)
    answered = refused = 0
    for _ in range(RUNS):
        with remote.local(output=lambda *_: None) as context:
            pid = context.facts.pid
            context.call(work.write_and_return, (0,))
            calls = [context.spawn(work.write_and_return, (number,)) for number in range(20)]
            roamlet.sleep(dice.random() * 0.01)
            os.kill(pid, signal.SIGKILL)
            for number, call in enumerate(calls):
                try:
                    assert call.join(60) == number
                    answered += 1
                except remote.ContextDied:
                    refused += 1
        assert not Path(f"/proc/{pid}").exists()
    with capsys.disabled():
        print(f"\n{RUNS} contexts killed: {answered} calls answered, {refused} told that their context had died")
    assert answered + refused == 20 * RUNS
