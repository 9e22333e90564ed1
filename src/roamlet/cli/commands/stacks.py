"""`roamlet stacks`: the stacks of the tasklets of a process, equal ones once."""

import argparse
from typing import TYPE_CHECKING

from roamlet.cli._errors import UsageError
from roamlet.cli.commands.seeing import add_parser_of, see

if TYPE_CHECKING:
    from roamlet.diagnose.model import Process

DESCRIPTION = """\
The stacks of all tasklets of a process, the innermost call first. Equal ones are shown once, with the tasklets that have them and
what those wait for."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet stacks`."""
    parser = add_parser_of(commands, "stacks", "the stacks of the tasklets of a process", DESCRIPTION)
    parser.add_argument(
        "--tasklet", metavar="N", help="only the tasklet with this number, as `roamlet ps` shows it: 0x7f..."
    )
    parser.set_defaults(command=stacks)


def stacks(options: argparse.Namespace) -> int:
    """Carry the command out. Raises UsageError."""
    try:
        tasklet = None if options.tasklet is None else int(options.tasklet, 0)
    except ValueError:
        raise UsageError(
            f"--tasklet {options.tasklet}: give its number as `roamlet ps` shows it, for example 0x7f1234567890"
        ) from None

    def text(process: "Process", width: int | None) -> str:
        # Inside: loading it takes longer than all of `roamlet --help`.
        from roamlet.diagnose import render

        try:
            return render.stacks(process, each=options.each, tasklet=tasklet)
        except LookupError as error:
            raise UsageError(f"--tasklet {options.tasklet}: {error.args[0] if error.args else error}") from None

    return see(options, text)
