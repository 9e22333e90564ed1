"""What is refused before srun is started, and srun's words by a stand-in; the real one is tried in tests/soak."""

import sys

import pytest
import roamlet_sent

from roamlet import remote
from tests.remote.raising import raises
from tests.remote.transports.standin import StandIn

SRUN = StandIn(
    "srun",
    ("--",),
    flags=("--overlap", "--unbuffered"),
    values=("--jobid", "--nodelist", "--ntasks", "--nodes", "--mpi", "--mem"),
    not_found="slurmstepd: error: execve(): %s: No such file or directory\n",
    not_found_code=2,
)


def test_a_context_is_one_task_of_the_job_on_the_node(commands):
    command = SRUN.install(commands)
    with remote.slurm("node-7", job=42, python=sys.executable, slurm_args=["--mem=0"]) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        assert context.name == "node-7"
    (words,) = command.calls
    ours = ["--ntasks=1", "--nodes=1", "--overlap", "--unbuffered", "--mpi=none", "--mem=0", "--"]
    assert words[: 2 + len(ours)] == ["--jobid=42", "--nodelist=node-7", *ours]


def test_the_allocation_of_this_process_is_not_taken_for_one_elsewhere(commands, monkeypatch):
    SRUN.install(commands)
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    with remote.local() as via:
        with raises(remote.NoAllocation, match="so srun was not started"):
            remote.slurm(via=via)
        with remote.slurm(via=via, job=42, python=sys.executable) as context:
            assert context.call(roamlet_sent.add, (1, 2)) == 3


@pytest.mark.parametrize(
    ("said", "error", "says"),
    [
        ("srun: error: Unable to confirm allocation for job 42: Invalid job id specified\n", remote.NoAllocation, "squeue --me"),
        ("srun: error: Unable to create step for job 42: Invalid node name specified\n", remote.TargetNotFound, "no such node"),
        ("srun: error: Unable to allocate resources: Unable to contact slurm controller (connect failure)\n",
         remote.HostUnreachable, "scontrol ping"),
        ("srun: error: Unable to create step for job 42: Access/permission denied\n", remote.NotAllowed, "does not let this user"),
    ],
)  # fmt: skip
def test_what_srun_says_becomes_a_named_error(said, error, says, commands):
    SRUN.install(commands).fails(said)
    with raises(remote.ConnectError, match=says) as caught:
        remote.slurm("node-7", job=42, python=sys.executable)
    assert type(caught.value) is error


@pytest.mark.parametrize(("options", "says"), [({"node": "-x"}, "name of a node"), ({"job": "1;id"}, "name of a job")])
def test_names_that_cannot_be_are_refused(options, says, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(remote.BadHostName, match=says):
        remote.slurm(**{"job": 42, **options})
