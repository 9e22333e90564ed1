"""`roamlet put`: a file or folder of this machine to many hosts."""

import argparse
import os

from roamlet.cli._errors import UsageError
from roamlet.cli.commands import copying

DESCRIPTION = """\
Copy the file or folder LOCAL to REMOTE on every host. A file comes into being whole or not at all: under its name there is never
half a file. A REMOTE that ends in a slash is the folder to put a file into; of a folder, what is in it goes into the folder REMOTE,
whose other files stay. A relative REMOTE is in the home directory, where a login starts."""

EPILOG = """\
  roamlet put -H 'web[01-20]' nginx.conf /etc/nginx/ --sudo
  roamlet put -H web -i hosts.toml --parents site/ /srv/www/site

Exit code: 0 it is on all hosts, 1 it failed on at least one, 64 wrong command line (nothing was touched), 3 it failed nowhere, but
some hosts could not be reached, 130 interrupted."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet put`."""
    parser = copying.add_command(commands, "put", "copy a file or folder to many hosts", DESCRIPTION, EPILOG)
    parser.add_argument("local", metavar="LOCAL")
    parser.add_argument("remote", metavar="REMOTE")
    parser.set_defaults(command=put)


def put(options: argparse.Namespace) -> int:
    """Carry the command out and return its exit code. Raises UsageError before anything is touched."""
    targets, inventory = copying.checked(options)
    local, remote = options.local, options.remote
    if not os.path.exists(local):
        raise UsageError(f"LOCAL {local!r}: there is no such file or folder on this machine")
    if not os.access(local, os.R_OK):
        raise UsageError(f"LOCAL {local!r}: this user may not read it")
    if not (os.path.isfile(local) or os.path.isdir(local)):
        raise UsageError(f"LOCAL {local!r} is neither a file nor a folder")
    if options.mode is not None and os.path.isdir(local):
        raise UsageError("--mode is for one file; the files of a folder keep their own permissions")
    if not remote or "\0" in remote:
        raise UsageError("REMOTE is empty: give a path on the hosts, ./ for the home directory")
    size = os.path.getsize(local) if os.path.isfile(local) else None
    return copying.copy(
        options, targets, inventory, lambda context, _, settings: context.put(local, remote, **settings), size=size
    )
