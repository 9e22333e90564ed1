"""What `roamlet put` and `roamlet get` share: the options of a transfer, and how its outcome is printed."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any

from roamlet.cli._errors import UsageError
from roamlet.cli.output.hints import for_command_line
from roamlet.cli.output.outcomes import Lines, Style, carry_out
from roamlet.cli.output.progress import Progress
from roamlet.cli.reaching.declaring import add_hosts, add_limits, add_way, check_limits
from roamlet.cli.reaching.inventory import Host, Inventory
from roamlet.cli.reaching.options import hops, inventory_of, targets_of

if TYPE_CHECKING:
    from roamlet import remote
    from roamlet.remote import Context

# The last argument is the options as Context.put and Context.get take them.
Transfer = Callable[["Context", Host, dict[str, Any]], "remote.Transferred"]


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    summary: str,
    description: str,
    epilog: str,
) -> argparse.ArgumentParser:
    """Declare a command with the options of a transfer, and those that say where. Returns its parser."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_hosts(parser, required=True)
    add_way(parser)
    add_limits(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line and host, for other programs")
    parser.add_argument("--mode", metavar="OCTAL", help="permissions of a file, such as 640, instead of its own")
    parser.add_argument("--owner", action="store_true", help="user and group too")
    parser.add_argument("--no-times", action="store_true", help="do not copy the time of the last change")
    parser.add_argument("--no-overwrite", action="store_true", help="refuse what is there already")
    parser.add_argument("--parents", action="store_true", help="make the folders that are missing on the way")
    parser.add_argument("--resume", action="store_true", help="go on with what an interrupted transfer has left")
    parser.add_argument(
        "--symlinks", choices=("keep", "follow", "skip"), default="keep", help="within a folder (default: keep)"
    )
    return parser


def checked(options: argparse.Namespace) -> tuple[list[Host], Inventory]:
    """The hosts and the inventory that the options name. Raises UsageError for options that make no transfer possible."""
    inventory = inventory_of(options)
    targets = targets_of(options.hosts, options, inventory)
    check_limits(options)
    _settings_of(options)
    return targets, inventory


def _settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """The options as Context.put and Context.get take them. Raises UsageError."""
    mode = None
    if options.mode is not None:
        try:
            mode = int(options.mode.removeprefix("0o"), 8)
        except ValueError:
            mode = -1
        if not 0 <= mode <= 0o7777:
            raise UsageError(f"--mode {options.mode}: give octal permissions, for example --mode 640")
    return {
        "mode": mode,
        "owner": options.owner,
        "times": not options.no_times,
        "overwrite": not options.no_overwrite,
        "parents": options.parents,
        "resume": options.resume,
        "symlinks": options.symlinks,
    }


def copy(
    options: argparse.Namespace,
    targets: Sequence[Host],
    inventory: Inventory,
    transfer: Transfer,
    *,
    size: int | None = None,
    out: IO[str] | None = None,
) -> int:
    """Do it for every target, print the outcomes, and return the exit code. `size`: the bytes for each, where that is known.

    Blocks until all are done.
    """
    # Inside: loading the core and the remote layer takes longer than all of `roamlet --help`.
    from roamlet import timeout

    out = out or sys.stdout
    progress = Progress(len(targets), sys.stderr, size=size)
    lines = Lines(progress)
    with hops(options, inventory) as way:

        def work(target: Host) -> "remote.Transferred":
            def count(now: "remote.Progress") -> None:
                progress.count(target.name, now.bytes)

            settings = _settings_of(options)
            try:
                with progress.through(target.name, way.opened(target, lines)) as context:
                    limit = timeout(options.timeout)
                    try:
                        with limit:
                            return transfer(context, target, {**settings, "progress": count})
                    except TimeoutError as error:
                        if not limit.expired:
                            raise  # a file system's own, of either side
                        raise TimeoutError(_too_late(options)) from error
            except OSError as error:
                told = _told(error)
            try:
                raise told  # out here, so that it holds no other one with its frames
            finally:
                del told  # its traceback holds this frame

        style = Style(_shown, _fields, as_json=options.json)
        return carry_out(targets, work, out, style, options.at_once, progress, lines)


def _told(error: OSError) -> OSError:
    """The error as a command says it: the path in front, and no traceback of roamlet's own code, which is all that has run."""
    if type(error).__module__ != "builtins" or not error.strerror:
        return error
    where = f"{error.filename}: " if error.filename else ""
    return type(error)(where + for_command_line(error.strerror))


def _too_late(options: argparse.Namespace) -> str:
    hint = (
        "The same command goes on with what has arrived."
        if options.resume
        else "With --resume, what has arrived is kept."
    )
    return (
        f"not done within {options.timeout:g} seconds; no file is half there.\n    Give it a longer --timeout. {hint}"
    )


def _shown(done: "remote.Transferred") -> str:
    files = "" if done.checksum is not None else f" in {done.files} file{'' if done.files == 1 else 's'}"
    resumed = f", {done.resumed:,} of them were there" if done.resumed else ""
    skipped = f", left out: {', '.join(done.skipped)}" if done.skipped else ""
    return f"{done.path}  {done.bytes:,} bytes{files}{resumed}{skipped}"


def _fields(done: "remote.Transferred") -> dict[str, Any]:
    return {
        "path": done.path,
        "bytes": done.bytes,
        "files": done.files,
        "checksum": done.checksum,
        "resumed": done.resumed,
        "skipped": list(done.skipped),
    }
