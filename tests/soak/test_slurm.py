"""Contexts in an allocation of a real Slurm."""

import os
import re
import socket

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from tests.remote.raising import raises
from tests.remote.transports.private_system import PYTHON
from tests.soak.slurm import NODE

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture
def job(slurm, tmp_path, monkeypatch):
    """An allocation, with the commands on PATH; it ends with the test."""
    slurm.install(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    done = slurm.run("/usr/bin/salloc", "--no-shell", "--nodes=1")
    number = int(re.search(r"Granted job allocation (\d+)", done.stderr)[1])
    yield number
    slurm.run("/usr/bin/scancel", str(number))


def test_a_context_is_a_task_of_the_allocation(job):
    with remote.slurm(job=job, python=PYTHON, timeout=30) as context:
        assert context.call(socket.gethostname) == NODE
        assert context.call(os.getenv, ("SLURM_JOB_ID",)) == str(job)
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        data = os.urandom(3 << 20)
        assert context.call(roamlet_sent.echo, (data,)) == data  # no byte is changed on the way


def test_the_allocation_of_this_process_is_used(job, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", str(job))
    with remote.slurm(NODE, timeout=30) as context:
        assert context.call(socket.gethostname) == NODE
        assert context.name == NODE


def test_many_contexts_fit_into_one_allocation(job):
    opened = roamlet.channel()

    def one(number):
        with remote.slurm(NODE, job=job, python=PYTHON, name=f"task-{number}", timeout=60) as context:
            opened.send(context.call(roamlet_sent.echo, (number,)))

    for number in range(12):
        roamlet.tasklet(one)(number)
    assert sorted(opened.receive() for _ in range(12)) == list(range(12))
    roamlet.run()


def test_refusals_are_named_with_the_next_step(job, slurm):
    with raises(remote.NoAllocation, match="the allocation does not exist, or no longer.*salloc --no-shell"):
        remote.slurm(job=job + 1000, python=PYTHON, timeout=30)
    with raises(remote.TargetNotFound, match="the allocation has no such node"):
        remote.slurm("roamlet-other-node", job=job, python=PYTHON, timeout=30)
    with raises(remote.NoPython, match="the node has no /no/such/python"):
        remote.slurm(job=job, python="/no/such/python", timeout=30)


def test_a_context_whose_allocation_is_cancelled_has_died(job, slurm):
    with remote.slurm(job=job, python=PYTHON, timeout=30) as context:
        done = roamlet.channel()

        def call():
            try:
                context.call(roamlet_sent.never_return)
            except remote.ContextDied as error:
                done.send(str(error))

        roamlet.tasklet(call)()
        roamlet.schedule()
        slurm.run("/usr/bin/scancel", str(job))
        assert "died while it ran roamlet_sent.never_return" in done.receive()
        roamlet.run()


def test_without_an_allocation_nothing_is_started(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(remote.NoAllocation, match="this process runs in none, and job= names none.*salloc --no-shell"):
        remote.slurm()
