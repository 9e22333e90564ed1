"""What is wrong with a command line, found before anything is touched; and the exit codes."""

FAILED, UNREACHABLE = 1, 3  # exit codes of commands that were carried out
USAGE = 64
"""The exit code, EX_USAGE of sysexits.h: no other outcome has it, and argparse's own 2 is a result of `roamlet vpn plan`."""


class UsageError(Exception):
    """The command cannot be carried out as written. The message says which word is wrong and shows a right one."""
