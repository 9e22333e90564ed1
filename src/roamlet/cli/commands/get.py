"""`roamlet get`: a file or folder from many hosts to this machine."""

import argparse
import os
import posixpath
from collections.abc import Sequence

from roamlet.cli._errors import UsageError
from roamlet.cli.commands import copying
from roamlet.cli.reaching.inventory import Host

DESCRIPTION = """\
Copy the file or folder REMOTE of every host to LOCAL. A file comes into being whole or not at all. From several hosts LOCAL is a
folder, in which each host has one of its own: LOCAL/HOST/NAME. From one host LOCAL is the path itself, or a folder to put it
into, if it is one already or ends in a slash; --by-host has it as from several."""

EPILOG = """\
  roamlet get -H web01 /etc/nginx/nginx.conf .
  roamlet get -H 'web[01-20]' /var/log/nginx/error.log logs/      logs/web01/error.log, logs/web02/error.log, ...

Exit code: 0 it has come from all hosts, 1 it failed on at least one, 64 wrong command line (nothing was touched), 3 it failed
nowhere, but some hosts could not be reached, 130 interrupted."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet get`."""
    parser = copying.add_command(commands, "get", "copy a file or folder from many hosts", DESCRIPTION, EPILOG)
    parser.add_argument("--by-host", action="store_true", help="a folder for each host, for a single one too")
    parser.add_argument("remote", metavar="REMOTE")
    parser.add_argument("local", metavar="LOCAL")
    parser.set_defaults(command=get)


def get(options: argparse.Namespace) -> int:
    """Carry the command out and return its exit code. Raises UsageError before anything is touched."""
    targets, inventory = copying.checked(options)
    remote = options.remote
    if not remote or "\0" in remote:
        raise UsageError("REMOTE is empty: give a path on the hosts")
    by_host = options.by_host or len(targets) > 1
    goals = _goals_by_host(targets, options) if by_host else {targets[0].name: _goal(options.local, options)}
    made = {"parents": True} if by_host else {}  # the folder of each host
    return copying.copy(
        options,
        targets,
        inventory,
        lambda context, host, settings: context.get(remote, goals[host.name], **{**settings, **made}),
    )


def _goal(local: str, options: argparse.Namespace) -> str:
    """The path for the only host."""
    if not local:
        raise UsageError("LOCAL is empty: give a path on this machine, . for the current folder")
    into = os.path.isdir(local) or local.endswith("/")
    folder = local if into else os.path.dirname(local) or "."
    _check_folder(folder, options)
    # The whole path: what is got again goes where it went before, whether that is there by now or not.
    return os.path.join(local, _name(options)) if into else local


def _goals_by_host(targets: Sequence[Host], options: argparse.Namespace) -> dict[str, str]:
    """For each host the path of its copy."""
    local, name = options.local, _name(options)
    if not local:
        raise UsageError("LOCAL is empty: give a folder on this machine, . for the current one")
    if os.path.exists(local) and not os.path.isdir(local):
        raise UsageError(
            f"LOCAL {local!r} is a file, and {len(targets)} hosts cannot all be written to it; give a folder, "
            f"and they go to FOLDER/{targets[0].name}/{name} and so on"
        )
    if not os.path.isdir(local) and not local.endswith("/"):
        raise UsageError(
            f"{len(targets)} hosts would write the one file {local!r}; if that is to be a folder, say {local + '/'!r}, and they "
            f"go to {os.path.join(local, targets[0].name, name)!r} and so on"
        )
    _check_folder(local if os.path.isdir(local) else os.path.dirname(local.rstrip("/")) or ".", options)
    for host in targets:
        if "/" in host.name or host.name in (".", ".."):
            raise UsageError(
                f"the host {host.name!r} cannot have a folder of its name; give it another one in an inventory"
            )
    return {host.name: os.path.join(local, host.name, name) for host in targets}


def _name(options: argparse.Namespace) -> str:
    """What the copy is called in a folder on this machine."""
    name: str = posixpath.basename(options.remote.rstrip("/"))
    if name in ("", ".", "..", "~"):
        raise UsageError(
            f"REMOTE {options.remote!r} has no name that its copy could have in a folder; give the path of a file or folder"
        )
    return name


def _check_folder(folder: str, options: argparse.Namespace) -> None:
    if os.path.isdir(folder):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"LOCAL {options.local!r}: this user may not write into {folder!r}")
    elif os.path.exists(folder):
        raise UsageError(f"LOCAL {options.local!r}: {folder!r} is no folder")
    elif not options.parents:
        raise UsageError(f"LOCAL {options.local!r}: there is no folder {folder!r}; --parents makes it")
