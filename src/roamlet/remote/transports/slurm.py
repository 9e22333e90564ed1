"""An interpreter on a node of an allocation of Slurm's, by way of srun."""

import os
import re
from collections.abc import Sequence

from roamlet.remote.errors import HostUnreachable, NoAllocation, NoPython, NotAllowed, TargetNotFound
from roamlet.remote.transports.command import Command, Meaning, checked_arguments, checked_name

JOB = re.compile(r"\d+([_+]\d+)?")


class Slurm(Command):
    """Starts a Python as one task on one node of the allocation `job`, beside its other steps.

    Without `job` it is the allocation that this process runs in. No new one is requested: srun would wait in a queue for it.
    """

    program = "srun"
    comes_with = "the package slurm-client"
    meanings = (
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
        Meaning(
            r"[Uu]nable to contact slurm controller|Could not establish a configuration source|"
            r"slurm_load_\w+ error|Unable to contact",
            HostUnreachable,
            "Slurm's controller does not answer",
            "Does it run, and is this a node of the cluster? Ask: scontrol ping",
        ),
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
    )

    def __init__(
        self,
        node: str | None = None,
        *,
        job: int | str | None = None,
        python: str | None = None,
        slurm_args: Sequence[str] = (),
        elsewhere: bool = False,
    ) -> None:
        """`elsewhere`: srun runs in another context, where other variables are set."""
        self.node = None if node is None else checked_name(node, "a node")
        self.job = None if job is None else checked_name(str(job), "a job", JOB)
        if self.job is None and (elsewhere or not os.environ.get("SLURM_JOB_ID")):
            raise NoAllocation(
                "no allocation to start a task in, so srun was not started: this process runs in none, and job= names none.\n"
                "    Get one: salloc --no-shell --nodes=2, whose number goes into job=; or start this program by sbatch or salloc."
            )
        super().__init__(self.node or f"job {self.job or os.environ['SLURM_JOB_ID']}", python)
        self.slurm_args = checked_arguments(slurm_args, "slurm_args")

    def words(self) -> list[str]:
        job = [] if self.job is None else [f"--jobid={self.job}"]
        node = [] if self.node is None else [f"--nodelist={self.node}"]
        # --overlap: a context takes no processor away from other contexts, nor from the job's own steps. Without --unbuffered srun
        # holds output back until a line break; the terminal that it implies changes no byte.
        ours = ["--ntasks=1", "--nodes=1", "--overlap", "--unbuffered", "--mpi=none"]
        return ["srun", *job, *node, *ours, *self.slurm_args, "--"]
