"""`roamlet ps`: a line for each tasklet of a process, read from outside."""

import argparse
from typing import TYPE_CHECKING

from roamlet.cli.commands.seeing import add_parser_of, see

if TYPE_CHECKING:
    from roamlet.diagnose.model import Process

DESCRIPTION = """\
The tasklets of a running process, or of one that has died, by thread: what each does or waits for, and where. Those that are alike
are one line with their number. Cycles of tasklets that wait for each other come first. Without a process: all on this machine that
use roamlet and may be looked at."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet ps`."""
    parser = add_parser_of(commands, "ps", "what the tasklets of a process do and wait for", DESCRIPTION)
    parser.set_defaults(command=ps)


def ps(options: argparse.Namespace) -> int:
    """Carry the command out. Raises UsageError."""

    def text(process: "Process", width: int | None) -> str:
        # Inside: loading it takes longer than all of `roamlet --help`.
        from roamlet.diagnose import render

        return render.table(process, width=width, each=options.each)

    return see(options, text)
