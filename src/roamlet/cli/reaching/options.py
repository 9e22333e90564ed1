"""Options that commands share: -H, -i, --via, --sudo, --at-once, --timeout and their like, defaults and checks; and their hosts.

Touches no network. What `put` and `get` share besides is in commands/copying.py.
"""

import argparse
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from roamlet.cli._errors import UsageError
from roamlet.cli.reaching.inventory import Host, Inventory, hosts_from, read_inventory
from roamlet.cli.reaching.opening import Hops

AT_ONCE = 50  # hosts; each is a process of ssh here while its context is open

HOSTS = "hosts that ssh reaches: [USER@]HOST[:PORT], ranges as in web[01-20], groups of -i, @FILE with one a line"


def add_hosts(parser: "argparse._ActionsContainer", *, required: bool = False) -> None:
    """Declare -H."""
    parser.add_argument(
        "-H",
        "--hosts",
        metavar="HOST[,HOST...]",
        action="append",
        required=required,
        help=HOSTS,
    )


def add_way(parser: argparse.ArgumentParser, *, ssh_options: bool = True) -> None:
    """Declare the options that say how to get to a host; `ssh_options`: with -o, unless the command means something else by it."""
    parser.add_argument(
        "-i",
        "--inventory",
        metavar="FILE",
        type=Path,
        help="groups and settings of hosts: TOML, or Ansible's INI or JSON",
    )
    parser.add_argument("--via", metavar="HOST", help="go through this host, which then runs the rest of the way")
    parser.add_argument("--sudo", action="store_true", help="as root on the target, by sudo")
    parser.add_argument(
        "--ask-password", action="store_true", help="ask for sudo's password once, before anything is touched"
    )
    parser.add_argument("--python", metavar="PATH", help="the interpreter on the target, instead of the one found")
    parser.add_argument("--ssh-config", metavar="FILE", help="for ssh -F, on this machine")
    parser.set_defaults(ssh_options=[])
    if ssh_options:
        _add_ssh_options(parser)


def _add_ssh_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        dest="ssh_options",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of ssh's own; may be repeated",
    )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Declare --timeout and --at-once."""
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="how long it may take on each host")
    parser.add_argument(
        "--at-once", metavar="N", type=int, default=AT_ONCE, help=f"at most N hosts at a time (default: {AT_ONCE})"
    )


def check_limits(options: argparse.Namespace) -> None:
    """Raise UsageError for what is no length of time, and what is no number of hosts."""
    if options.timeout is not None and not 0 < options.timeout < float("inf"):
        raise UsageError(f"--timeout {options.timeout:g}: give a number of seconds above 0, for example --timeout 10")
    if options.at_once < 1:
        raise UsageError(f"--at-once {options.at_once}: give a number of hosts, 1 or more")


def check_python(python: str | None) -> None:
    """Raise UsageError for what is no name of an interpreter."""
    if python is not None and (not python.strip() or python.startswith("-")):
        raise UsageError(f"--python {python!r}: give the name or path of an interpreter, for example python3.8")


def inventory_of(options: argparse.Namespace) -> Inventory:
    """What -i names; empty without. Raises UsageError."""
    return read_inventory(options.inventory) if options.inventory else Inventory()


def targets_of(words: list[str], options: argparse.Namespace, inventory: Inventory) -> list[Host]:
    """The hosts that the words name, each once, with the settings of the command line, which win over the inventory.

    Raises UsageError for anything about them that is wrong.
    """
    check_python(options.python)
    _check_ssh(options)
    hosts = hosts_from(words, inventory)
    if options.via is not None:
        hosts_from([options.via], inventory)  # so that a word which names none is refused before anything is touched
    changed = {key: value for key, value in (("via", options.via), ("python", options.python)) if value is not None}
    return [configured(replace(host, **changed), options) for host in hosts]


def configured(host: Host, options: argparse.Namespace) -> Host:
    """The host with the arguments of ssh that the command line gives; ssh takes the first value of an option, which is that.

    A configuration file is one of this machine: a host behind another one is reached with the configuration of that one.
    """
    if host.address is None:
        return host
    words = [word for option in options.ssh_options for word in ("-o", option)]
    if options.ssh_config is not None and host.via is None:
        words = ["-F", options.ssh_config, *words]
    return replace(host, ssh_args=(*words, *host.ssh_args))


def _check_ssh(options: argparse.Namespace) -> None:
    """Raises UsageError for what ssh would refuse once for each host, as if that one were out of reach."""
    for option in options.ssh_options:
        if not option.replace("=", " ").strip()[:1].isalpha() or len(option.replace("=", " ").split()) < 2:
            raise UsageError(f"-o {option!r}: give an option of ssh and its value, for example -o ConnectTimeout=5")
    path = options.ssh_config
    if path is None or path == "none":  # which is ssh's word for no file
        return
    if os.path.isdir(path) or not os.access(path, os.R_OK):
        why = "there is no such file" if not os.path.exists(path) else "ssh needs a file that this user may read"
        raise UsageError(f"--ssh-config {path}: {why}")


def hops(options: argparse.Namespace, inventory: Inventory) -> Hops:
    """What opens contexts as the command line says; asks for a password if the options say so. Raises UsageError when it cannot."""
    password = None
    if options.ask_password:
        if not options.sudo:
            raise UsageError("--ask-password asks for sudo's password: give --sudo too, or leave it out")
        # Inside: few command lines ask.
        from getpass import getpass

        try:
            password = getpass("password for sudo: ")
        except EOFError:
            raise UsageError(
                "--ask-password: there is no terminal to ask on; give the password in ROAMLET_SUDO_PASSWORD"
            ) from None
    return Hops(partial(_hop, options=options, inventory=inventory), sudo=options.sudo, password=password)


def _hop(name: str, options: argparse.Namespace, inventory: Inventory) -> Host:
    """A host on the way to others."""
    return configured(hosts_from([name], inventory)[0], options)
