"""A thousand contexts at once, and contexts that are killed at any moment: what it costs, and that nothing is lost."""

import os
import random
import resource
import signal
import time
from pathlib import Path

import pytest

import weft
from tests.soak import work
from weft import remote

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


def test_contexts_that_are_killed_at_any_moment_lose_nothing(capsys):
    """Jobs come by a channel, results go by another: each job is answered, and no answer that was given is lost.

    A worker that is killed between taking a job and answering takes it with it: at most one job for each kill, and the sender
    of jobs sees which by its own list.
    """
    dice = random.Random(20)
    lost = twice = 0
    for run in range(RUNS):
        window = dice.choice([0, 0, 5, 200])
        jobs = remote.channel(window=window) if window else weft.channel()
        results, said = remote.channel(window=1000), []
        for number in range(JOBS):
            weft.spawn(lambda number=number, jobs=jobs: jobs.send(number))
        with remote.local() as first, remote.local() as second:
            calls = [context.spawn(work.answer_jobs, (jobs, results)) for context in (first, second)]
            for _ in range(dice.randrange(JOBS // 2)):
                said.append(results.receive())
            os.kill(first.facts.pid, signal.SIGKILL)
            with pytest.raises(remote.ContextDied):
                calls[0].join(60)
            while len(set(said)) < JOBS - 1 and not (calls[1].done):
                said.append(results.receive())
            jobs.close()
            calls[1].join(60)
        while results.balance > 0:
            said.append(results.receive())
        assert set(said) <= set(range(JOBS))
        lost += JOBS - len(set(said))
        twice += len(said) - len(set(said))
        assert JOBS - len(set(said)) <= 1, f"run {run}: {sorted(set(range(JOBS)) - set(said))} were lost"
        assert len(said) == len(set(said)), f"run {run}: something was done twice"
    with capsys.disabled():
        print(
            f"\n{RUNS} workers killed: {lost} of {RUNS * JOBS} jobs went with the worker that had taken them, {twice} came twice"
        )


def test_calls_into_contexts_that_are_killed_at_any_moment_all_end(capsys):
    """Every call gets its answer or an error that says how it ended; nothing waits on; no process is left."""
    dice = random.Random(21)
    answered = refused = 0
    for _ in range(RUNS):
        with remote.local(output=lambda *_: None) as context:
            pid = context.facts.pid
            context.call(work.write_and_return, (0,))
            calls = [context.spawn(work.write_and_return, (number,)) for number in range(20)]
            weft.sleep(dice.random() * 0.01)
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
