"""An interpreter on a node of an allocation of Slurm's, by way of srun; and one beside which salloc holds a new allocation."""

import os
import re
from collections.abc import Sequence
from typing import ClassVar

from roamlet.remote.errors import HostUnreachable, NoAllocation, NoPython, NotAllowed, RequestRefused, TargetNotFound
from roamlet.remote.transports.command import Command, Meaning, checked_arguments, checked_name

JOB = re.compile(r"\d+([_+]\d+)?")
SAYS_NOTHING = Meaning(
    r"[Uu]nable to contact slurm controller|Could not establish a configuration source|slurm_load_\w+ error|Unable to contact",
    HostUnreachable,
    "Slurm's controller does not answer",
    "Does it run, and is this a node of the cluster? Ask: scontrol ping",
)
# What Slurm says when it ends a job or a step, and what that means.
ENDS = (
    (r"DUE TO TIME LIMIT|has exceeded its time limit", "its job has reached its time limit, and Slurm has ended it"),
    (r"DUE TO NODE FAILURE|Node failure on \S+", "a node of its job has failed"),
    (
        r"oom-kill|Out Of Memory|exceeded .*memory limit",
        "it took more memory than its job may have, and Slurm has ended it",
    ),
    (r"DUE TO PREEMPTION", "its job has made room for another one, and Slurm has ended it"),
    (r"CANCELLED AT|has been revoked|Force Terminated|Job step aborted", "its job was cancelled, or has ended"),
)


class Slurm(Command):
    """Starts a Python as one task on one node of the allocation `job`, beside its other steps.

    Without `job` it is the allocation that this process runs in. No new one is requested: srun would wait in a queue for it.
    """

    program = "srun"
    comes_with = "the package slurm-client"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"Unable to confirm allocation|Expired or invalid job|Invalid job id|already completing or completed|"
            r"Job has been (revoked|cancelled)|allocation .* has been revoked",
            NoAllocation,
            "the allocation does not exist, or no longer",
            "See your own: squeue --me. Get one: salloc --no-shell --nodes=2, whose number goes into job=.",
        ),
        Meaning(
            r"Invalid node name|[Rr]equired node not available|not in this job|node list.*(not|invalid)",
            TargetNotFound,
            "the allocation has no such node",
            "See its nodes: scontrol show job, and scontrol show hostnames",
        ),
        Meaning(
            r"Access/permission denied|Invalid account|User's group not permitted|[Ii]nvalid job credential",
            NotAllowed,
            "Slurm does not let this user do that",
            "Is it this user's allocation? Does munge run on each node, with the same key?",
        ),
        SAYS_NOTHING,
        Meaning(
            r"execve\(\): (?P<python>.+?): No such file",
            NoPython,
            "the node has no {python}",
            "Give the path of an interpreter there as python=: a target needs CPython 2.7, or 3.6 and later.",
        ),
        Meaning(
            r"Requested node configuration is not available|More processors requested|Memory required",
            TargetNotFound,
            "the allocation has no such node, or no room for one more task there",
            "See its nodes: scontrol show job. Ask for less: slurm_args=['--mem=0', '--cpus-per-task=1'].",
        ),
        Meaning(
            r"Invalid numeric value \"(?P<which>[^\"]+)\" for --jobid",
            NoAllocation,
            "srun takes no number of an array's job, such as {which}",
            "Ask for the job's own: squeue -h --job={which} --format=%A. remote.allocation(job='{which}') does that itself.",
        ),
    )

    def __init__(
        self,
        node: str | None = None,
        *,
        job: int | str | None = None,
        python: str | None = None,
        slurm_args: Sequence[str] = (),
        elsewhere: bool = False,
        exact: bool = False,
    ) -> None:
        """`elsewhere`: srun runs in another context, where other variables are set. `exact`: it has processors of its own."""
        self.node = None if node is None else checked_name(node, "a node")
        self.job = None if job is None else checked_name(str(job), "a job", JOB)
        if self.job is None and (elsewhere or not os.environ.get("SLURM_JOB_ID")):
            raise NoAllocation(
                "no allocation to start a task in, so srun was not started: this process runs in none, and job= names none.\n"
                "    Get one: salloc --no-shell --nodes=2, whose number goes into job=; or start this program by sbatch or salloc."
            )
        super().__init__(self.node or f"job {self.job or os.environ['SLURM_JOB_ID']}", python)
        self.slurm_args = checked_arguments(slurm_args, "slurm_args")
        self._shares = "--exact" if exact else "--overlap"

    def words(self) -> list[str]:
        job = [] if self.job is None else [f"--jobid={self.job}"]
        node = [] if self.node is None else [f"--nodelist={self.node}"]
        # --overlap: a context takes no processor away from other contexts, nor from the job's own steps. Without --unbuffered srun
        # holds output back until a line break; the terminal that it implies changes no byte.
        ours = ["--ntasks=1", "--nodes=1", self._shares, "--unbuffered", "--mpi=none"]
        return ["srun", *job, *node, *ours, *self.slurm_args, "--"]

    def describe_end(self, exit_code: int | None, said: Sequence[str] = ()) -> str:
        return _why(said) or super().describe_end(exit_code, said)


class Salloc(Command):
    """Requests an allocation, waits in the queue for it, and starts a Python where salloc runs: the allocation ends with that.

    So it ends, too, when the process that has opened this context does, however that comes about: the Python sees its end.
    """

    program = "salloc"
    comes_with = "the package slurm-client"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        SAYS_NOTHING,
        Meaning(
            r"allocation (?P<job>\d+) has been revoked|Job has been (cancelled|revoked)|Job cancelled before",
            NoAllocation,
            "the request was cancelled while it waited, or the allocation was taken away at once",
            "See why: scontrol show job, or sacct --jobs.",
        ),
        Meaning(
            r"Access/permission denied|[Ii]nvalid account|User's group not permitted|Invalid qos|violates? accounting",
            NotAllowed,
            "Slurm does not let this user have that",
            "See what you may use: sacctmgr show associations user=$USER, and sinfo",
        ),
        Meaning(
            r"[Ii]nvalid partition|Invalid node name|Invalid feature|Invalid generic resource|Invalid numeric value|"
            r"Invalid --?\S+ specification|[Ii]nvalid .*specif|Requested (node|time|partition)|More processors requested|"
            r"Memory (required|specification)|unrecognized option|invalid option|Invalid .*constraint|Node count",
            RequestRefused,
            "Slurm takes no such request",
            "See the partitions, their nodes and their limits: sinfo --long; and what can be asked for: salloc --help",
        ),
    )

    def __init__(self, job_name: str, request: Sequence[str], python: str, salloc_args: Sequence[str] = ()) -> None:
        super().__init__(job_name, python)
        self._request = tuple(request)
        self._arguments = checked_arguments(salloc_args, "salloc_args")

    @property
    def to(self) -> str:
        return "request to Slurm"

    def words(self) -> list[str]:
        # --kill-command: when Slurm takes the allocation away, what holds it ends, and not only what runs in it. Both
        # are last, where they count: by the name the request is found in the queue.
        ours = [f"--job-name={self.target}", "--kill-command=TERM"]
        return ["salloc", *self._request, *self._arguments, *ours, "--"]

    def describe_end(self, exit_code: int | None, said: Sequence[str] = ()) -> str:
        return _why(said) or super().describe_end(exit_code, said)


def _why(said: Sequence[str]) -> str | None:
    """What Slurm said about the end, in words of ours."""
    text = "\n".join(said)
    return next((meaning for words, meaning in ENDS if re.search(words, text)), None)
