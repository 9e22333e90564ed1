"""Whole allocations of Slurm's by stand-ins for its commands, and what is refused before any is started; real ones: tests/soak."""

import os
import sys
from contextlib import contextmanager

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote import allocations
from roamlet.remote.calls.engine import calls_of, opened
from tests.remote.raising import raises
from tests.remote.transports.slurm_standin import Slurm


@pytest.fixture
def slurm(commands, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return Slurm(commands)


def test_what_is_requested_has_a_context_for_each_task_and_is_given_back(slurm):
    with remote.allocation(
        nodes=2, ntasks=3, mem="4G", partition="gpu", salloc_args=["--qos=high"], python=sys.executable
    ) as found:
        assert (found.job, found.jobs, found.nodes) == ("42", ["42"], ["node-7", "node-7", "node-8"])
        assert [context.name for context in found.contexts] == ["node-7:0", "node-7:1", "node-8"]
        assert [context.call(roamlet_sent.add, (1, 2)) for context in found.contexts] == [3, 3, 3]
        assert not slurm.given_back
    assert slurm.given_back
    (request,) = slurm.calls("salloc")
    assert request[:5] == [
        "--nodes=2",
        "--ntasks=3",
        "--mem=4G",
        "--partition=gpu",
        "--qos=high",
    ]
    assert request[5].startswith("--job-name=roamlet-")  # after all others, for it is found by this name
    assert request[6] == "--kill-command=TERM"
    layout, *steps = slurm.calls("srun")
    assert layout == ["--overlap", "--mpi=none", "--label", "printenv", "SLURMD_NODENAME"]
    assert {tuple(words[:2]) for words in steps} == {
        ("--jobid=42", "--nodelist=node-7"),
        ("--jobid=42", "--nodelist=node-8"),
    }
    assert len(steps) == 2  # one a node: what travels crosses the way to it once


def test_exact_gives_each_task_a_step_with_processors_of_its_own(slurm):
    with remote.allocation(
        ntasks=3, cpus_per_task=2, exact=True, slurm_args=["--mem=0"], python=sys.executable
    ) as found:
        assert len(found.contexts) == 3
    steps = slurm.calls("srun")[1:]
    assert len(steps) == 3
    for words in steps:
        assert {"--exact", "--cpus-per-task=2", "--mem=0"} < set(words)
        assert "--overlap" not in words


def test_the_allocation_of_this_process_is_left_as_it_is(slurm, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    with remote.allocation(python=sys.executable) as found:
        assert found.nodes == ["node-7", "node-7", "node-8"]
        assert repr(found) == "<roamlet.remote.Allocation 42: 3 contexts>"
    assert slurm.calls("salloc") == slurm.calls("scancel") == []


def test_an_array_is_all_its_running_jobs(slurm):
    slurm.says("squeue", 0, "44|RUNNING|None|43_1\n43|RUNNING|None|43_0\n45|PENDING|Resources|43_2\n")
    with remote.allocation(job=43, python=sys.executable) as found:
        assert found.jobs == ["43", "44"]
        assert len(found.contexts) == 6
    layouts = [words for words in slurm.calls("srun") if "--label" in words]
    assert [words[3:6] for words in layouts] == [[f"--jobid={job}", "--ntasks=3", "--nodes=2"] for job in (43, 44)]


@pytest.mark.parametrize(
    ("command", "said", "error", "says"),
    [
        ("salloc", "salloc: error: Job submit/allocate failed: Invalid partition name specified\n",
         remote.RequestRefused, "sinfo --long"),
        ("salloc", "salloc: error: Job submit/allocate failed: Invalid account or account/partition combination\n",
         remote.NotAllowed, "sacctmgr show associations"),
        ("salloc", "salloc: error: Unable to contact slurm controller (connect failure)\n",
         remote.HostUnreachable, "scontrol ping"),
        ("salloc", "salloc: Job allocation 42 has been revoked.\n", remote.NoAllocation, "cancelled while it waited"),
        ("srun", "srun: error: Node failure on node-7\nsrun: error: Unable to create step for job 42: Job has been cancelled\n",
         remote.NoAllocation, "does not exist, or no longer"),
    ],
)  # fmt: skip
def test_what_slurm_says_becomes_a_named_error_and_nothing_is_left(command, said, error, says, slurm):
    slurm.says(command, 1, errors=said)
    with raises(remote.ConnectError, match=says) as caught:
        remote.allocation(ntasks=3, python=sys.executable)
    assert type(caught.value) is error
    assert slurm.given_back == (command == "srun")


def test_a_job_that_waits_is_no_allocation_yet(slurm):
    slurm.says("squeue", 0, "42|PENDING|Priority|42\n")
    with raises(remote.NoAllocation, match=r"no job of 42 runs now: 42 is pending \(Priority\)"):
        remote.allocation(job=42)
    slurm.says("squeue", 1, errors="slurm_load_jobs error: Invalid job id specified\n")
    with raises(remote.NoAllocation, match="does not exist, or no longer"):
        remote.allocation(job=42)


@pytest.fixture
def waits(slurm, monkeypatch):
    """Slurm, whose queue is so long that nothing is granted."""
    (slurm.folder / "salloc").write_text("#!/bin/sh\necho 'salloc: Pending job allocation 42' >&2\nexec sleep 100\n")
    slurm.says("squeue", 0, "42|PENDING|Resources|2026-12-01T10:00:00\n")
    monkeypatch.setattr(allocations, "ASKING", 0.1)
    return slurm


def test_a_request_that_waits_too_long_says_why_and_is_taken_back(waits):
    slurm, states = waits, []
    with raises(
        remote.NotScheduled, match="within 2 seconds; the request was taken back\n *Job 42 is pending"
    ) as caught:
        remote.allocation(nodes=900, queue=2, progress=states.append)
    assert isinstance(caught.value, remote.ConnectTimeout)
    assert states == ["Job 42 is pending (Resources), expected to start at 2026-12-01T10:00:00."]
    (name,) = {words[1] for words in slurm.calls("squeue")}
    assert slurm.calls("scancel") == [["--quiet", name.replace("--name=", "--jobname=")]]


def test_a_request_that_could_not_be_taken_back_says_what_to_type(waits):
    waits.says("scancel", 1, errors="scancel: error: Unable to contact slurm controller\n")
    with raises(remote.NotScheduled, match=r"taken back is not known, so type: scancel --jobname=roamlet-\w{12}\n"):
        remote.allocation(nodes=900, queue=2)
    waits.says("scancel", 1, errors="scancel: error: No active jobs match ALL job filters, including: job_name=x\n")
    with raises(remote.NotScheduled, match="the request was taken back"):
        remote.allocation(nodes=900, queue=2)


def test_no_control_characters_come_from_the_queue(waits):
    waits.says("squeue", 0, "42|PENDING|\x1b[2Jgone|N/A\n")
    states = []
    with raises(remote.NotScheduled, match=r"pending \(\\x1b\[2Jgone\)"):
        remote.allocation(nodes=900, queue=2, progress=states.append)
    assert states == [r"Job 42 is pending (\x1b[2Jgone)."]


def refuses(state):
    raise ValueError(state)


def test_an_error_of_progress_is_logged_and_takes_nothing_away(waits, caplog):
    with raises(remote.NotScheduled, match="the request was taken back"):
        remote.allocation(nodes=900, queue=2, progress=refuses)
    assert len(waits.calls("scancel")) == 1
    assert "ValueError: Job 42 is pending" in caplog.text


def test_what_is_granted_while_progress_fails_is_an_allocation(slurm, monkeypatch, tmp_path):
    monkeypatch.setattr(allocations, "ASKING", 0.1)
    told, salloc = tmp_path / "told", slurm.folder / "salloc"
    text = salloc.read_text().replace('"salloc":', f'"salloc":\n    while not os.path.exists({str(told)!r}): pass')
    salloc.write_text(text)

    def progress(state):
        told.touch()
        raise ValueError(state)

    with remote.allocation(ntasks=3, python=sys.executable, progress=progress) as found:
        assert found.job == "42"
    assert slurm.given_back


def test_what_was_granted_is_given_back_by_one_who_is_killed_then(slurm, monkeypatch):
    left = allocations._watched

    @contextmanager
    def watched(*args):
        with left(*args) as waiting:
            yield waiting
        raise roamlet.TaskletExit

    monkeypatch.setattr(allocations, "_watched", watched)
    with pytest.raises(roamlet.TaskletExit):
        remote.allocation(ntasks=3, python=sys.executable)
    assert slurm.given_back


def test_a_block_that_is_left_because_its_time_is_over_gives_all_back(slurm):
    with (
        raises(TimeoutError),
        roamlet.timeout(None) as limit,
        remote.allocation(ntasks=3, python=sys.executable) as found,
    ):
        limit.reschedule(0.1)
        roamlet.sleep(100)
    assert found._holder.closed
    assert found._holder.link.ended.wait(60)
    assert slurm.given_back
    ours = [calls_of(context) for context in (*found.contexts, *found._hubs)]
    roamlet.run()  # what closes contexts goes on
    assert [one for one in opened() if one is found._holder or one in ours] == []


def test_a_job_that_completes_is_no_allocation(slurm):
    slurm.says("squeue", 0, "42|COMPLETING|None|42\n")
    with raises(remote.NoAllocation, match=r"no job of 42 runs now: 42 is completing"):
        remote.allocation(job=42)


def test_jobs_of_an_array_that_end_meanwhile_are_left_out(slurm):
    slurm.says("squeue", 0, "43|RUNNING|None|43_0\n44|RUNNING|None|43_1\n")
    slurm.has_no_more("44")
    with remote.allocation(job=43, python=sys.executable) as found:
        assert found.jobs == ["43"]
        assert len(found.contexts) == 3
    slurm.says("squeue", 0, "44|RUNNING|None|43_1\n")
    with raises(remote.NoAllocation, match="does not exist, or no longer"):
        remote.allocation(job=43, python=sys.executable)


def test_more_tasks_than_there_can_be_contexts_are_refused_before_any_is_opened(slurm):
    slurm.says("srun", 0, "".join(f"{task}: node-{task}\n" for task in range(10_001)))
    with raises(remote.ConnectError, match="Slurm names 10,001 tasks, and an Allocation has 10,000 contexts at most"):
        remote.allocation(job=42, python=sys.executable)
    assert len(slurm.calls("srun")) == 1


def test_without_a_request_and_outside_of_a_job_there_is_no_allocation(slurm):
    with raises(remote.NoAllocation, match="salloc --no-shell"):
        remote.allocation()
    with remote.local() as via, raises(remote.NoAllocation, match="job= names none"):
        remote.allocation(via=via)
    assert not (slurm.folder / "calls").exists()


def test_slurm_is_asked_in_the_place_of_via(slurm):
    with remote.local(name="login") as via:
        with remote.allocation(job=42, python=sys.executable, via=via) as found:
            assert [context.name for context in found.contexts] == ["login/node-7:0", "login/node-7:1", "login/node-8"]
            assert all(context.call(roamlet_sent.add, (1, 2)) == 3 for context in found.contexts)
        os.unlink(slurm.folder / "squeue")
        with raises(remote.ConnectError, match="no program `squeue` on PATH in 'login'.*slurm-client"):
            remote.allocation(job=42, via=via)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"job": 42, "ntasks": 2}, TypeError, "would request a new one: give one of the two"),
        ({"job": "1;id"}, remote.BadHostName, "name of a job"),
        ({"nodes": 0}, ValueError, "nodes=0 cannot be one"),
        ({"partition": "a b"}, ValueError, "partition='a b' cannot be one"),
        ({"ntasks": True}, TypeError, "ntasks must be a number"),
        ({"ntasks": 2, "queue": 0}, ValueError, "queue must be a number of seconds above 0"),
        ({"ntasks": 2, "timeout": -1}, ValueError, "timeout must be"),
        ({"ntasks": 2, "progress": "yes"}, TypeError, "progress must be a function"),
        ({"ntasks": 2, "exact": "yes"}, TypeError, "exact must be True or False"),
        ({"ntasks": 2, "via": "login"}, TypeError, "via= takes a context on a login node"),
        ({"salloc_args": "--qos=high"}, TypeError, "salloc_args takes a list"),
        ({"ntasks": 2, "python": "-c"}, ValueError, "cannot be an interpreter"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_anything_is_started(options, error, says, slurm):
    with raises(error, match=says):
        remote.allocation(**options)
    assert not (slurm.folder / "calls").exists()
