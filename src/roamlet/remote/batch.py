"""Functions as batch jobs of Slurm's: they wait in the queue and run when no process of roamlet's is left.

Contexts in allocations that end with this process are for allocations.py.
"""

import os
import re
import shlex
import time as clock
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roamlet.remote.allocations import CLIENT, request_words
from roamlet.remote.calls.engine import calls_of
from roamlet.remote.context import Context
from roamlet.remote.errors import ConnectError, ConnectTimeout, RequestRefused
from roamlet.remote.modules import Modules
from roamlet.remote.opening.commands import ask
from roamlet.remote.opening.recording import script
from roamlet.remote.transports import ended, quoted
from roamlet.remote.transports.command import checked_arguments
from roamlet.remote.transports.local import checked_python
from roamlet.remote.transports.slurm import Salloc

__all__ = ["sbatch"]

LARGEST = 4_000_000  # bytes of a script: Slurm takes 4 MiB, unless its configuration says otherwise
LINE = 200  # characters of a line of sbatch's in an error
_NUMBER = re.compile(r"^(?:Submitted batch job )?(\d+)(?:;\S+| on cluster \S+)?\s*$", re.MULTILINE)
_ARRAY = re.compile(r"[\d,:%-]+")


def sbatch(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    array: str | None = None,
    output: str | os.PathLike[str] | None = None,
    nodes: int | str | None = None,
    ntasks: int | None = None,
    cpus_per_task: int | None = None,
    mem: str | None = None,
    time: str | int | None = None,
    partition: str | None = None,
    account: str | None = None,
    constraint: str | None = None,
    sbatch_args: Sequence[str] = (),
    python: str | None = None,
    modules: Modules | None = None,
    timeout: float = 120.0,
    via: Context | None = None,
) -> str:
    """Submit `function(*args, **kwargs)` as a batch job of Slurm's; return the job's number.

    The job needs this process no more: it may end, and so may the login shell. The script that Slurm keeps has the modules that
    are known to be needed, as for `Context.detach`, and runs the call once on the first node of the job, or once for each job
    of `array`, "0-9%4" for instance, where the variable SLURM_ARRAY_TASK_ID says which one it is. What it prints, logs and raises
    goes to `output`, Slurm's own file "slurm-%j.out" if None; an error makes the job fail. Modules are chosen for the interpreter
    that is here, or in `via`, a context on a login node where sbatch runs: `python` and the packages should be those of the nodes.

    `nodes` to `constraint` are sbatch's options of the same names, `sbatch_args` further ones. Blocks this tasklet only, `timeout`
    seconds at most. Raises RequestRefused for what Slurm does not take, a script of more than 4 MB among it, NotAllowed,
    HostUnreachable, and what Context.detach does for what cannot travel; no job is submitted then. Raises ConnectTimeout when
    sbatch did not end in time, and ConnectError for what else it says: whether there is a job is not known then.
    """
    if array is not None and (not isinstance(array, str) or not _ARRAY.fullmatch(array)):
        raise ValueError(f"array must be numbers as sbatch has them, such as '0-9' or '1,3,5-7%2', not {array!r}")
    path = None if output is None else os.fspath(output)
    if path is not None and (not isinstance(path, str) or not path or "\0" in path):
        raise ValueError(f"output must be the path of a file on the node, or None, not {output!r}")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    if not isinstance(via, Context | None):
        raise TypeError(f"via= takes a context on a login node, such as remote.ssh('login'), not {via!r}")
    if not isinstance(modules, Modules | None):
        raise TypeError(f"modules= takes a remote.Modules(...), not {modules!r}")
    if python is not None:
        checked_python(python)
    request = request_words(
        {
            "nodes": nodes,
            "ntasks": ntasks,
            "cpus-per-task": cpus_per_task,
            "mem": mem,
            "time": time,
            "partition": partition,
            "account": account,
            "constraint": constraint,
        }
    )
    request += [f"--{name}={value}" for name, value in (("array", array), ("output", path)) if value is not None]
    request += checked_arguments(sbatch_args, "sbatch_args")
    place = None if via is None else calls_of(via)
    deadline = clock.monotonic() + timeout
    text = script(place, python, modules or Modules(), function, args, kwargs, timeout)
    if len(text) > LARGEST:
        raise RequestRefused(
            f"the script for {getattr(function, '__qualname__', function)!s} would take {len(text) / 1e6:.1f} MB with all modules, "
            "and Slurm takes 4 MB, so no job was submitted.\n"
            "    Install the large packages where the nodes find them, and name that Python: python='/shared/venv/bin/python'."
        )
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", getattr(function, "__name__", "roamlet"))
    words = ["sbatch", "--parsable", f"--job-name={name}", *request]
    left = deadline - clock.monotonic()
    if left <= 0:
        raise ConnectTimeout(
            f"making the script took all of the {timeout:g} seconds, so no job was submitted: give a longer timeout="
        )
    own_name = any(word.startswith(("-J", "--job-name")) for word in sbatch_args)
    unknown = f"whether a job was submitted is not known; see squeue --me{'' if own_name else f' --name={name}'}"
    try:
        said = ask(place, words, left, data=text, comes_with=CLIENT)
    except ConnectTimeout as late:
        late.args = (f"{late}\n    {unknown[0].upper()}{unknown[1:]}",)
        raise
    found = _NUMBER.search(said.text)
    if found is not None:  # whatever its exit code: with --wait that is the job's
        return found[1]
    error = Salloc("job", (), "python").explain(said.exit_code, said.lines)
    if said.exit_code == 0 or type(error) is ConnectError:
        lines = [line[:LINE] for line in (*said.errors.splitlines(), *said.text.splitlines())]
        error = ConnectError(
            f"sbatch {ended(said.exit_code)} and gave no number of a job; {unknown}\n{quoted(lines)}\n"
            f"    Try it by hand: {shlex.join(words)}"
        )
    try:
        raise error
    finally:
        del error  # its traceback holds this frame
