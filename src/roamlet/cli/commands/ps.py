"""`roamlet ps`, `pstree` and `stacks`: one look at the tasklets of a process, written in three ways."""

import argparse
from typing import TYPE_CHECKING, NamedTuple

from roamlet.cli._errors import UsageError
from roamlet.cli.commands.seeing import add_process, check_look, host_and_pid, see

if TYPE_CHECKING:
    from roamlet.diagnose.model import Process


class Look(NamedTuple):
    """One of the three commands."""

    name: str
    what: str  # in the list of commands
    description: str


LOOKS = (
    Look(
        "ps",
        "what the tasklets of a process do and wait for",
        """\
The tasklets of a running process, or of one that has died, by thread: what each does or waits for, and where. Those that are alike
are one line with their number. Cycles of tasklets that wait for each other come first. Without a process: all on this machine, or
on the hosts of -H, that use roamlet and may be looked at.""",
    ),
    Look(
        "pstree",
        "the tasklets of a process as a tree",
        """\
The tasklets of a process as a tree: below each thread its tasklets, below those the tasklets that were spawned in their scopes.
Otherwise like `roamlet ps`.""",
    ),
    Look(
        "stacks",
        "the stacks of the tasklets of a process",
        """\
The stacks of all tasklets of a process, the innermost call first. Equal ones are shown once, with the tasklets that have them and
what those wait for.""",
    ),
)

EPILOG = """\
The process runs nothing for it, and need not be prepared: one that hangs in C code, or never gives up the GIL, is seen too. It is
stopped only while it runs, for milliseconds. It has to be one of the same user; the message says what helps otherwise.

  roamlet {command} 4711
  roamlet {command} --core core.4711 --exe /usr/bin/python3.12
  roamlet {command} web01:4711
  roamlet {command} -H 'web[01-20]' --name worker

Exit code: 0 all was read, 1 something was not, 3 hosts out of reach, 64 the command line is wrong."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the three."""
    for look in LOOKS:
        parser = commands.add_parser(
            look.name,
            help=look.what,
            description=look.description,
            epilog=EPILOG.format(command=look.name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_process(parser)
        parser.add_argument("--core", metavar="FILE", help="read a core file instead of a process")
        parser.add_argument(
            "--exe", metavar="PYTHON", help="with --core: the program's file, if it is not where it was"
        )
        if look.name == "stacks":
            parser.add_argument(
                "--tasklet", metavar="N", help="only the tasklet with this number, as `roamlet ps` shows it: 0x7f..."
            )
        parser.add_argument("--each", action="store_true", help="a line for each tasklet, also where many are alike")
        parser.add_argument(
            "--locals",
            action="store_true",
            help="with --json, and in stacks: local variables too, shortened; each tasklet by itself then",
        )
        parser.add_argument("--json", action="store_true", help="one JSON object per process, for other programs")
        parser.set_defaults(command=ps, tasklet=None)


def ps(options: argparse.Namespace) -> int:
    """Carry one of the three out. Raises UsageError."""
    try:
        tasklet = None if options.tasklet is None else int(options.tasklet, 0)
    except ValueError:
        raise UsageError(
            f"--tasklet {options.tasklet}: give its number as `roamlet ps` shows it, for example 0x7f1234567890"
        ) from None
    if tasklet is not None and options.process is None and options.core is None:
        raise UsageError("--tasklet N is of one process: give its PID too, or --core FILE")
    if tasklet is not None and options.json:
        raise UsageError("--tasklet is for text: --json has all tasklets, each with its id")

    def text(process: "Process", width: int | None) -> str:
        # Inside: loading it takes longer than all of `roamlet --help`.
        from roamlet.diagnose import render

        if options.roamlet_command == "ps":
            return render.table(process, width=width, each=options.each)
        if options.roamlet_command == "pstree":
            return render.tree(process, width=width, each=options.each)
        try:
            return render.stacks(process, each=options.each, tasklet=tasklet)
        except LookupError as error:
            raise UsageError(f"--tasklet {options.tasklet}: {error.args[0] if error.args else error}") from None

    check_look(options)
    if options.hosts is not None or host_and_pid(options)[0] is not None:
        # Inside: what opens contexts is loaded where some are opened.
        from roamlet.cli.commands.seeing_on_hosts import see_on_hosts

        return see_on_hosts(options, text)
    return see(options, text)
