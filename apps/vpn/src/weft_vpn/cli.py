"""`weft vpn`: parses, and calls one function a command."""

import argparse

__all__ = ["add_parser"]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `weft vpn` and its commands."""
    parser = commands.add_parser(
        "vpn",
        help="join the LANs of several offices",
        description="Join the LANs of several offices by WireGuard, from one file, over ssh.",
        allow_abbrev=False,
    )
    parser.add_subparsers(metavar="COMMAND", dest="vpn_command", required=True)
