"""`roamlet pstree`: the tasklets of a process as a tree, by threads and by the scopes in which they were spawned."""

import argparse
from typing import TYPE_CHECKING

from roamlet.cli.commands.seeing import add_parser_of, see

if TYPE_CHECKING:
    from roamlet.diagnose.model import Process

DESCRIPTION = """\
The tasklets of a process as a tree: below each thread its tasklets, below those the tasklets that were spawned in their scopes.
Otherwise like `roamlet ps`."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet pstree`."""
    parser = add_parser_of(commands, "pstree", "the tasklets of a process as a tree", DESCRIPTION)
    parser.set_defaults(command=pstree)


def pstree(options: argparse.Namespace) -> int:
    """Carry the command out. Raises UsageError."""

    def text(process: "Process", width: int | None) -> str:
        # Inside: loading it takes longer than all of `roamlet --help`.
        from roamlet.diagnose import render

        return render.tree(process, width=width, each=options.each)

    return see(options, text)
