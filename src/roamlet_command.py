"""The `roamlet` command's entry point. Outside the package, so that Ctrl-C is handled while roamlet itself is imported."""

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line and return the exit code."""
    try:
        # Inside: this takes most of the time that a short command takes, and Ctrl-C may come meanwhile.
        from roamlet import cli

        return cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("roamlet: interrupted\n")
        return 130
