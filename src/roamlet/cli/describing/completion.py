"""`roamlet completion SHELL`: what a shell reads to complete roamlet's commands, options and their values."""

import argparse
import sys

DESCRIPTION = """\
Write the completion for SHELL to standard output: commands, options and known values, of roamlet and of all of its apps
that are installed. Write it again after installing another app.

  roamlet completion bash > ~/.local/share/bash-completion/completions/roamlet
  roamlet completion zsh > ~/.zfunc/_roamlet       # a folder in fpath, named before compinit in ~/.zshrc
  roamlet completion fish > ~/.config/fish/completions/roamlet.fish

A shell that is started then has it."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet completion`."""
    parser = commands.add_parser(
        "completion",
        help="the completion for bash, zsh or fish",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    parser.set_defaults(command=completion)


def completion(options: argparse.Namespace) -> int:
    """Carry the command out."""
    # Inside: it imports all apps, and roamlet.cli imports this module.
    from roamlet.cli import described_command
    from roamlet.cli.describing import bash, fish, zsh

    script = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}[options.shell]
    sys.stdout.write(script(described_command()))
    return 0
