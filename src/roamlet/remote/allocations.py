"""Whole allocations of Slurm's: requested, waited for and given back, with a context for each of their tasks.

One context in an allocation is remote.slurm; a function that is to outlive this process is for batch.py.
"""

import logging
import os
import re
import secrets
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import roamlet
from roamlet._escapes import escaped
from roamlet.remote.calls.engine import Calls, calls_of
from roamlet.remote.context import Context
from roamlet.remote.errors import ConnectError, ConnectTimeout, NoAllocation, NotScheduled
from roamlet.remote.fan_out import AT_ONCE, open_all
from roamlet.remote.link.output import OutputFunction
from roamlet.remote.modules import Modules
from roamlet.remote.open import TIMEOUT, local, slurm
from roamlet.remote.opening.commands import Said, ask
from roamlet.remote.opening.connect import connect
from roamlet.remote.transports.command import checked_arguments, checked_name
from roamlet.remote.transports.local import checked_python
from roamlet.remote.transports.slurm import JOB, Salloc, Slurm

__all__ = ["Allocation", "allocation"]

QUEUE = 600.0  # seconds in Slurm's queue
ASKING = 5.0  # seconds between two looks at the queue
ANSWER = 30.0  # seconds for an answer of Slurm's controller
CLIENT = "the package slurm-client"
MOST = 10_000  # tasks of an allocation
_WORD = re.compile(r"[\w.:,*&|()\[\]{}@/+=%-]+")

_log = logging.getLogger("roamlet.remote")


class Allocation:
    """Contexts in an allocation of Slurm's. remote.allocation() makes it; leaving its `with` block ends it.

    `contexts`: one for each task, in the order of Slurm's tasks. `nodes`: where each of them is. `jobs`: the numbers of the jobs,
    several where an array was given.
    """

    def __init__(
        self, jobs: list[str], nodes: list[str], contexts: list[Context], hubs: list[Context], holder: Calls | None
    ) -> None:
        self.jobs = jobs
        self.nodes = nodes
        self.contexts = contexts
        self._hubs = hubs
        self._holder = holder

    @property
    def job(self) -> str:
        """The number of the job, the first where there are several."""
        return self.jobs[0]

    def close(self) -> None:
        """Close all contexts, many at once, and give the allocation back if it was requested here.

        Blocks this tasklet only; thread-safe. Raises nothing but what ends the waiting, Cancelled where a time is over; all ends
        without this tasklet then.
        """
        try:
            for closed in [roamlet.spawn(context.close) for context in (*self.contexts, *self._hubs)]:
                closed.join()
        finally:
            if self._holder is not None:
                self._holder.close()

    def __enter__(self) -> "Allocation":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<roamlet.remote.Allocation {', '.join(self.jobs)}: {len(self.contexts)} contexts>"


def allocation(
    *,
    job: int | str | None = None,
    nodes: int | str | None = None,
    ntasks: int | None = None,
    ntasks_per_node: int | None = None,
    cpus_per_task: int | None = None,
    mem: str | None = None,
    time: str | int | None = None,
    partition: str | None = None,
    account: str | None = None,
    constraint: str | None = None,
    salloc_args: Sequence[str] = (),
    slurm_args: Sequence[str] = (),
    exact: bool = False,
    queue: float = QUEUE,
    progress: Callable[[str], object] | None = None,
    python: str | None = None,
    timeout: float = TIMEOUT,
    output: OutputFunction | None = None,
    modules: Modules | None = None,
    tasklets: bool = False,
    via: Context | None = None,
) -> Allocation:
    """Open a context for each task of an allocation of Slurm's: of one that is requested, of `job`, or of this process's own.

    `nodes` to `constraint` are salloc's options of the same names, and `salloc_args` further ones, but not a job name, which is
    roamlet's own; any of them requests an allocation. Without them it is that of `job`: a number, that of an array for all its
    running jobs, or one of an array, "17_3". Without `job` it is the one that this process runs in. What was requested is given
    back by close(), or when this process ends, a SIGKILL included; other allocations are left as they are. `via` is a context
    on a login node, where salloc and srun run.

    `queue`: seconds that the request may wait; `progress` is called with a line whenever its state in the queue changes. Contexts
    on one node are processes of one step: the node's processors are theirs together, and what travels crosses the way to the
    node once. `exact` gives each a step of its own with `cpus_per_task` processors (srun --exact). `slurm_args` are further
    options of srun. `timeout` is for each context, and everything else as for `ssh`.

    Blocks this tasklet only; when it is killed, the request is taken back. An error of `progress` is logged. Raises
    RequestRefused for what Slurm does not know or cannot give, NotScheduled when the queue took too long, which says what to type
    if the request could not be taken back, NoAllocation where no such job runs, NotAllowed, HostUnreachable where the controller
    is silent, ConnectError for more than 10,000 tasks, and what `slurm` raises when not all contexts come about; no context is
    left then.
    """
    named = {
        "nodes": nodes,
        "ntasks": ntasks,
        "ntasks-per-node": ntasks_per_node,
        "cpus-per-task": cpus_per_task,
        "mem": mem,
        "time": time,
        "partition": partition,
        "account": account,
        "constraint": constraint,
    }
    request = request_words(named)
    _check(job, request, salloc_args, cpus_per_task, exact, queue, progress, python, timeout, via)
    options = {"timeout": timeout, "output": output, "modules": modules, "tasklets": tasklets, "python": python}
    place = None if via is None else calls_of(via)
    holder = None
    try:
        if request or salloc_args:
            holder, held = _requested(request, salloc_args, place, queue, progress)
            jobs = [held]
            layout = _layout(held, holder, inside=True, timeout=queue)
        else:
            jobs = _existing(job, place)
            found = _layouts(jobs, place, inside=job is None, timeout=queue)
            jobs = list(found)
            layout = [task for tasks in found.values() for task in tasks]
        opening = _Opening(via, tuple(slurm_args), exact, cpus_per_task, options)
        contexts, hubs = opening.open(layout)
    except BaseException:
        if holder is not None:
            holder.close()
        raise
    return Allocation(jobs, [task.node for task in layout], contexts, hubs, holder)


class _Task(NamedTuple):
    job: str
    node: str


def request_words(named: Mapping[str, Any]) -> list[str]:
    """Options of salloc and sbatch. Raises TypeError or ValueError for what cannot be one."""
    words = []
    for name, value in named.items():
        if value is None:
            continue
        text = value if isinstance(value, str) else str(value)
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise TypeError(f"{name.replace('-', '_')} must be a number or a text, as Slurm has it, not {value!r}")
        if (isinstance(value, int) and value < 1) or not _WORD.fullmatch(text):
            raise ValueError(f"{name.replace('-', '_')}={value!r} cannot be one of Slurm's, so nothing was requested")
        words.append(f"--{name}={text}")
    return words


def _check(
    job: int | str | None,
    request: list[str],
    salloc_args: Sequence[str],
    cpus_per_task: int | None,
    exact: bool,
    queue: float,
    progress: object,
    python: str | None,
    timeout: float,
    via: Context | None,
) -> None:
    checked_arguments(salloc_args, "salloc_args")
    if job is not None and (request or salloc_args):
        asked = shlex.join([*request, *salloc_args])
        raise TypeError(
            f"job={job!r} is an allocation that exists; {asked} would request a new one: give one of the two"
        )
    if job is not None:
        checked_name(str(job), "a job", JOB)
    if exact not in (True, False):
        raise TypeError(f"exact must be True or False, not {exact!r}")
    for name, seconds in (("queue", queue), ("timeout", timeout)):
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            raise ValueError(f"{name} must be a number of seconds above 0, not {seconds!r}")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function of one text, or None, not {progress!r}")
    if python is not None:
        checked_python(python)
    if not isinstance(via, Context | None):
        raise TypeError(f"via= takes a context on a login node, such as remote.ssh('login'), not {via!r}")


# ---- a new allocation


def _requested(
    request: list[str],
    arguments: Sequence[str],
    place: Calls | None,
    queue: float,
    progress: Callable[[str], object] | None,
) -> tuple[Calls, str]:
    """Request it and wait for it. What is returned holds it until it is closed, or has ended; with its number."""
    name = f"roamlet-{secrets.token_hex(6)}"
    python = _python_of(place)
    holder: Calls | None = None
    late = ""
    try:
        with _watched(name, place, progress) as waiting:
            try:
                holder = connect(
                    Salloc(name, request, python, arguments), name=name, timeout=queue, output=None, via=place
                )
            except ConnectTimeout as error:
                late = str(error).partition("\n    Does the host answer")[0]
        if holder is not None:
            return holder, str(holder.call(os.getenv, ("SLURM_JOB_ID",), timeout=ANSWER))
    except BaseException:
        if holder is None:
            _take_back(name, place)
        else:
            holder.close()
        raise
    back = "the request was taken back"
    if not _take_back(name, place):
        back = f"whether the request was taken back is not known, so type: scancel --jobname={name}"
    raise NotScheduled(
        f"Slurm gave no allocation within {queue:g} seconds; {back}\n    {waiting.state or late}\n"
        "    See when such a job would start: sbatch --test-only with the same options; and what is free: sinfo.\n"
        "    Ask for less, or give a longer queue="
    )


def _take_back(name: str, place: Calls | None) -> bool:
    """Cancel the request of this name: salloc does that itself when it is told to end, but not when it is killed.

    False where Slurm does not say that it has no such request any more.
    """
    try:
        with roamlet.shield():
            said = ask(place, ["scancel", "--quiet", f"--jobname={name}"], ANSWER, comes_with=CLIENT)
    except ConnectError:
        return False
    return said.exit_code == 0 or "No active jobs match" in said.errors


def _python_of(place: Calls | None) -> str:
    """An interpreter where salloc runs: that of this process, or of `place`."""
    return sys.executable if place is None else place.facts.executable or "python3"


class _Waiting:
    state = ""


@contextmanager
def _watched(name: str, place: Calls | None, progress: Callable[[str], object] | None) -> Iterator[_Waiting]:
    """Have a tasklet look at the request of this name in the queue, every few seconds."""
    waiting = _Waiting()

    def look() -> None:
        while True:
            roamlet.sleep(ASKING if waiting.state or progress is None else ASKING / 5)
            with suppress(ConnectError):  # the next look may be luckier, and salloc says itself what it cannot do
                said = ask(
                    place, ["squeue", "--noheader", f"--name={name}", "--format=%A|%T|%r|%S"], ANSWER, comes_with=CLIENT
                )
                state = _state(said.text)
                if state and state != waiting.state:
                    waiting.state = state
                    report(state)

    def report(state: str) -> None:
        _log.info("%s", state)
        try:
            if progress is not None:
                progress(state)
        except Exception:
            _log.exception("progress= failed, and the request still waits")

    watcher = roamlet.spawn(look)
    try:
        yield waiting
    finally:
        if watcher.alive:
            watcher.kill()
        watcher.wait()


def _state(text: str) -> str:
    """A line of squeue's in words."""
    fields = text.strip().partition("\n")[0].split("|")
    if len(fields) != 4:
        return ""
    job, state, reason, start = fields
    expected = f", expected to start at {start}" if start not in ("N/A", "") and state == "PENDING" else ""
    why = f" ({reason})" if reason not in ("None", "") else ""
    return escaped(f"Job {job} is {state.lower()}{why}{expected}.")


# ---- one that exists


def _existing(job: int | str | None, place: Calls | None) -> list[str]:
    """The numbers of the running jobs that `job` names, or of the one that this process runs in."""
    if job is None:
        own = Slurm(elsewhere=place is not None)  # raises NoAllocation
        return [own.target.removeprefix("job ")]
    said = ask(
        place, ["squeue", "--noheader", "--array", f"--jobs={job}", "--format=%A|%T|%r|%i"], ANSWER, comes_with=CLIENT
    )
    if said.exit_code:
        raise _named(said, str(job))
    found = [line.strip().split("|") for line in said.text.splitlines() if line.count("|") == 3]
    running = [fields[0] for fields in found if fields[1] in ("RUNNING", "CONFIGURING")]
    if not running:
        state = "; ".join(f"{fields[3]} is {fields[1].lower()} ({fields[2]})" for fields in found[:4])
        raise NoAllocation(
            f"no job of {job} runs now: {state or 'the queue has none of this number'}.\n"
            "    See your own: squeue --me. Request one: remote.allocation(ntasks=4)."
        )
    return sorted(running, key=int)


def _layouts(jobs: list[str], place: Calls | None, inside: bool, timeout: float) -> dict[str, list[_Task]]:
    """The tasks of each job that still runs: those of an array end one by one. Raises NoAllocation when none is left."""
    found: dict[str, list[_Task]] = {}
    for job in jobs:
        try:
            found[job] = _layout(job, place, inside, timeout)
        except NoAllocation:
            if job == jobs[-1] and not found:
                raise
    return found


def _layout(job: str, place: Calls | None, inside: bool, timeout: float) -> list[_Task]:
    """The node of each task of a job, in their order, as Slurm itself lays them out. Waits until the nodes are up.

    `inside`: `place` is in the allocation, and srun reads from its variables what was asked for.
    """
    words = ["srun", "--overlap", "--mpi=none", "--label"]
    if not inside:
        found = ask(place, ["scontrol", "show", "job", "--oneliner", job], ANSWER, comes_with=CLIENT)
        if found.exit_code:
            raise _named(found, job)
        tasks = re.search(r"\bNumTasks=(\d+)", found.text)
        nodes = re.search(r"\bNumNodes=(\d+)", found.text)
        words += [f"--jobid={job}"]
        if tasks and nodes:
            count = max(int(tasks[1]), int(nodes[1]))
            words += [f"--ntasks={count}", f"--nodes={nodes[1]}"]
    said = ask(place, [*words, "printenv", "SLURMD_NODENAME"], timeout, comes_with=CLIENT)
    if said.exit_code:
        raise _named(said, job)
    lines = re.findall(r"^ *(\d+): (\S+)$", said.text, re.MULTILINE)
    if not lines:
        raise ConnectError(f"Slurm does not say on which nodes the tasks of job {job} are: {said.text!r:.200}")
    ranks = sorted((int(rank), node) for rank, node in lines)
    return [_Task(job, checked_name(node, "a node")) for _, node in ranks]


def _named(said: Said, job: str) -> ConnectError:
    """The error that a command's words mean."""
    command = Slurm(job=job if JOB.fullmatch(job) else None, elsewhere=True)
    return command.explain(said.exit_code, said.lines)


class _Opening:
    """How the contexts of an allocation are opened."""

    def __init__(
        self, via: Context | None, slurm_args: tuple[str, ...], exact: bool, cpus: int | None, options: dict[str, Any]
    ) -> None:
        self._via = via
        self._arguments = slurm_args
        self._exact = exact
        self._cpus = cpus
        self._options = options

    def open(self, layout: list[_Task]) -> tuple[list[Context], list[Context]]:
        """The contexts of the tasks, and those in between. Raises the first error; nothing is left then."""
        if len(layout) > MOST:
            raise ConnectError(
                f"Slurm names {len(layout):,} tasks, and an Allocation has {MOST:,} contexts at most, so none was opened.\n"
                "    Ask for fewer, ntasks=, and start further processes in each; or name single jobs of an array."
            )
        counts = Counter(layout)
        many = {} if self._exact else {task: count for task, count in counts.items() if count > 1}
        hubs: list[Context] = []
        try:
            hubs = _all([partial(self._step, task, f"{self._name(task)}/hub", None) for task in many])
            behind = dict(zip(many, hubs, strict=True))
            used: dict[_Task, int] = {}
            opens = []
            for task in layout:
                used[task] = number = used.get(task, -1) + 1
                name = self._name(task) + (f":{number}" if counts[task] > 1 else "")
                opens.append(partial(self._step, task, name, behind.get(task)))
            return _all(opens), hubs
        except BaseException:
            for closed in [roamlet.spawn(hub.close) for hub in hubs]:
                closed.join()
            raise

    def _name(self, task: _Task) -> str:
        return task.node if self._via is None else f"{self._via.name}/{task.node}"

    def _step(self, task: _Task, name: str, hub: Context | None) -> Context:
        options = dict(self._options, name=name)
        if hub is not None:
            del options["python"]  # that of the hub
            return local(via=hub, **options)
        if not self._exact:
            return slurm(task.node, job=task.job, slurm_args=self._arguments, via=self._via, **options)
        cpus = [] if self._cpus is None else [f"--cpus-per-task={self._cpus}"]
        return slurm(
            task.node, job=task.job, slurm_args=[*cpus, *self._arguments], exact=True, via=self._via, **options
        )


def _all(opens: Sequence[Callable[[], Context]]) -> list[Context]:
    """Open all, many at once. Raises the first error, when what was opened is closed."""
    opened = open_all(opens, at_once=AT_ONCE)
    if opened.failed:
        opened.close()
        opened.failed[0].get()
    return opened.contexts
