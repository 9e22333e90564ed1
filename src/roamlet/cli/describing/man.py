"""`roamlet man`: a command's manual page, or the pages of all commands as files."""

import argparse
import sys
from pathlib import Path

from roamlet.cli._errors import UsageError

DESCRIPTION = """\
Write the manual page of a command to standard output, or the pages of all commands into a folder. They have what --help has, of
roamlet and of all of its apps that are installed.

  roamlet man run | man -l -
  roamlet man --into ~/.local/share/man       # then: man roamlet-run"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet man`."""
    parser = commands.add_parser(
        "man",
        help="manual pages of the commands",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", metavar="COMMAND", nargs="*", help="the command, for example: vpn apply")
    parser.add_argument("--into", metavar="PATH", type=Path, help="write all pages into its folder man1")
    parser.set_defaults(command=man)


def man(options: argparse.Namespace) -> int:
    """Carry the command out. Raises UsageError for an unknown command, and for a folder that cannot be written to."""
    # Inside: it imports all apps, and roamlet.cli imports this module; reading the version takes longer than all parsing.
    from importlib.metadata import version

    from roamlet.cli import described_command
    from roamlet.cli.describing.pages import page, page_name

    roamlet = described_command()
    known = {command.words: command for command in roamlet.all()}
    if options.into is not None and options.words:
        raise UsageError("--into writes the pages of all commands: leave out the COMMAND")
    words = ("roamlet", *options.words)
    if words not in known:
        raise UsageError(f"there is no command {' '.join(options.words)}; `roamlet --help` lists them")

    def text(words: tuple[str, ...]) -> str:
        above = [known[words[:-1]]] if len(words) > 1 else []
        return page(known[words], version("roamlet"), [*above, *known[words].commands])

    if options.into is None:
        sys.stdout.write(text(words))
        return 0
    folder = options.into / "man1"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for words, command in known.items():
            (folder / f"{page_name(command)}.1").write_text(text(words), "utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from error
    print(f"{len(known)} pages in {folder}")
    return 0
