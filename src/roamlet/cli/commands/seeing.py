"""What `ps`, `pstree`, `stacks` and `top` have in common: which process is looked at, on which machine; and one look, written."""

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import IO, TYPE_CHECKING

from roamlet._escapes import print_escaped
from roamlet.cli._errors import FAILED, UsageError
from roamlet.cli.reaching.declaring import add_hosts, add_limits, add_way, check_limits

if TYPE_CHECKING:
    from roamlet.diagnose.model import Process

Render = Callable[["Process", int | None], str]

ON_A_HOST = re.compile(r"(?P<host>.+):(?P<pid>\d+)")


def add_process(parser: argparse.ArgumentParser) -> None:
    """Declare the options that name a process, and the way to the host that it is on."""
    parser.add_argument(
        "process", metavar="PID | HOST:PID", nargs="?", help="the process, on this machine or on another one"
    )
    parser.add_argument("--name", metavar="TEXT", help="every process with TEXT in its command line that uses roamlet")
    add_hosts(parser)
    add_way(parser)
    add_limits(parser)


def check_process(options: argparse.Namespace) -> None:
    """Raise UsageError for what names no process."""
    if options.process is not None and options.name is not None:
        raise UsageError("give one of PID and --name")
    if options.hosts is not None and options.process is not None:
        raise UsageError("-H looks on all of its hosts: leave out the PID, or give HOST:PID without -H")
    if options.process is not None:
        found = ON_A_HOST.fullmatch(options.process)
        if not options.process.isdigit() and not found:
            raise UsageError(
                f"{options.process!r} is no PID: give its number, or HOST:PID; `--name {options.process}` looks for it"
            )
        if len(found["pid"] if found else options.process) > 10:
            raise UsageError(f"{options.process!r} is no PID: the number is too large")
    check_limits(options)


def host_and_pid(options: argparse.Namespace) -> tuple[str | None, int | None]:
    """The host of HOST:PID, None for this machine, and the PID, None where no process is named; of checked options."""
    if options.process is None:
        return None, None
    found = ON_A_HOST.fullmatch(options.process)
    return (found["host"], int(found["pid"])) if found is not None else (None, int(options.process))


def check_machine() -> None:
    """Raise UsageError where processes of this machine cannot be read."""
    if not sys.platform.startswith("linux"):
        raise UsageError(
            "processes of this machine are read on Linux alone; -H and HOST:PID read on hosts that have it"
        )


def say_none_found(options: argparse.Namespace) -> int:
    """That no process of this machine is to be seen; the exit code."""
    named = f" with {options.name!r} in its command line" if options.name else ""
    print_escaped(
        f"roamlet {options.roamlet_command}: no process of this machine that may be looked at uses roamlet{named}",
        sys.stderr,
    )
    return FAILED


def say_not_read(options: argparse.Namespace, what: str, why: str) -> int:
    """That one process cannot be read; the exit code."""
    print_escaped(f"roamlet {options.roamlet_command}: {why if what in why else f'{what}: {why}'}", sys.stderr)
    return FAILED


def see(options: argparse.Namespace, render: Render, out: IO[str] | None = None) -> int:
    """Look at what checked options name on this machine, write it by `render`, and return the exit code. Raises UsageError."""
    out = out or sys.stdout
    if options.core is None:
        check_machine()
    # Inside: loading what reads takes longer than all of `roamlet --help`.
    from roamlet.diagnose.outside import read_core, read_process
    from roamlet.diagnose.outside.reading import collector_off
    from roamlet.diagnose.outside.system.finding import find_processes

    if options.core is not None:
        reads: list[tuple[str, Callable[[], Process]]] = [
            (options.core, lambda: read_core(options.core, options.exe, with_locals=options.locals))
        ]
    else:
        pids = [int(options.process)] if options.process is not None else find_processes(options.name)
        reads = [(f"process {pid}", partial(read_process, pid, with_locals=options.locals)) for pid in pids]
        if not reads:
            return say_none_found(options)
    with collector_off():
        return max(_one(options, what, read, render, out, first=index == 0) for index, (what, read) in enumerate(reads))


def _one(
    options: argparse.Namespace, what: str, read: Callable[[], "Process"], render: Render, out: IO[str], *, first: bool
) -> int:
    """Read one process and write it; its exit code."""
    # Inside: as in see().
    from roamlet.diagnose.outside import CannotRead

    try:
        process = read()
    except CannotRead as error:
        return say_not_read(options, what, str(error))
    _write(process, options, render, out, first=first)
    return 0


def check_look(options: argparse.Namespace) -> None:
    """Raise UsageError for what names nothing that one look could be at."""
    if options.core is not None and (options.process is not None or options.name is not None):
        raise UsageError("give one of PID, --core and --name")
    if options.exe is not None and options.core is None:
        raise UsageError("--exe is the Python of a core file: give --core FILE too")
    if options.core is not None and options.hosts is not None:
        raise UsageError("--core reads a file of this machine: leave out -H, or use `roamlet get` to fetch it")
    check_process(options)
    named = (options.process, options.core, options.name)
    if all(each is None for each in named) and options.roamlet_command != "ps":
        raise UsageError(
            f"name a process: roamlet {options.roamlet_command} PID; `roamlet ps` lists those that use roamlet"
        )


def _write(process: "Process", options: argparse.Namespace, render: Render, out: IO[str], *, first: bool) -> None:
    if options.json:
        # Inside, as the one below: few looks need it, and it is loaded for each otherwise.
        import json

        print(json.dumps(process.to_json()), file=out)
        return
    if not first:
        print(file=out)
    width = None
    if out.isatty():
        import shutil

        width = shutil.get_terminal_size().columns
    print_escaped(render(process, width), out, end="")
    print_escaped(f"read {process.how}", sys.stderr)
