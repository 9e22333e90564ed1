"""`weft clock`: parses, and calls one function a command. It is imported for `weft --help`, so it imports next to nothing."""

import argparse
from typing import TypeAlias

__all__ = ["add_parser"]

Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_parser(commands: Parsers) -> None:
    """Declare `weft clock` and its commands."""
    parser = commands.add_parser(
        "clock",
        help="a soft hardware clock for machines without one",
        description="Keep the time of machines without a hardware clock over restarts.",
        allow_abbrev=False,
    )
    parser.add_subparsers(metavar="COMMAND", dest="clock_command", required=True)
