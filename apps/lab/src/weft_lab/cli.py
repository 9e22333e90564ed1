"""`weft lab`: parses, and calls one function a command."""

import argparse

__all__ = ["add_parser"]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `weft lab` and its commands."""
    parser = commands.add_parser(
        "lab",
        help="offices on this machine",
        description="Offices in network namespaces on this machine, with an internet between them.",
        allow_abbrev=False,
    )
    parser.add_subparsers(metavar="COMMAND", dest="lab_command", required=True)
