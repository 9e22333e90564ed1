"""`roamlet show FILE`: what is in a checkpoint or another snapshot, without running anything of it."""

import argparse
import json
import sys
import time

from roamlet._escapes import print_escaped
from roamlet.cli._errors import UsageError


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet show`."""
    parser = commands.add_parser(
        "show",
        help="the stack of what is in a checkpoint",
        description="The stack of each tasklet in a checkpoint, or in another snapshot, as a traceback, with its variables and "
        "their sizes in FILE. Nothing of FILE is run or imported, so that it may come from anywhere.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, for other programs")
    parser.add_argument("file", metavar="FILE")
    parser.set_defaults(command=show)


def show(options: argparse.Namespace) -> int:
    """Carry the command out. Raises UsageError for what is no snapshot."""
    # Inside: loading the core takes longer than all of `roamlet --help`.
    from roamlet.snapshot import BadSnapshot, showing

    try:
        with open(options.file, "rb") as stream:
            what = showing.described_file(stream)
    except OSError as error:
        raise UsageError(f"{options.file}: {error.strerror}") from error
    except BadSnapshot as error:
        raise UsageError(f"{options.file}: {error}") from error
    if options.json:
        print(json.dumps({"file": options.file, **what}))
    else:
        # Its names and texts are somebody else's, as what targets send.
        print_escaped(showing.text_of(what, options.file, _when(what.get("saved"))), sys.stdout, end="")
    return 0


def _when(saved: float | None) -> str:
    """When that was, by this machine's clock."""
    if not isinstance(saved, (int, float)):
        return ""
    try:
        return time.strftime("written %Y-%m-%d %H:%M:%S", time.localtime(saved))
    except (ValueError, OverflowError, OSError):
        return f"written at {saved!r}"
