"""The hosts that the options of declaring.py name, and the way to them. Touches no network."""

import argparse
import os
from dataclasses import replace
from functools import partial
from typing import Any

from roamlet.cli._errors import UsageError
from roamlet.cli.reaching.inventory import Host, Inventory, hosts_from, read_inventory
from roamlet.cli.reaching.opening import Hops


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


def reach(targets: list[Host], way: Hops, options: argparse.Namespace, inventory: Inventory) -> list[Host]:
    """Let `way` reach the targets through hubs if --hubs says so; return them in the order in which they are best opened.

    Raises UsageError before anything is touched; looks names up for --hubs subnets.
    """
    if not options.hubs:
        return targets
    # Inside: loading the remote layer takes longer than all of `roamlet --help`.
    from roamlet.remote import Hubs, subnet

    words = [word.strip() for given in options.hubs for word in given.split(",")]
    if words == ["subnets"]:
        by: Any = subnet
    else:
        unknown = [word for word in words if word not in inventory.groups]
        if unknown:
            raise UsageError(
                f"--hubs {unknown[0]!r} is no group of -i; give names of groups, or the word subnets for groups by address"
            )
        by = {word: [str(host.address) for host in hosts_from([word], inventory)] for word in words}
    return way.through_hubs(targets, Hubs(by, beyond=options.hubs_beyond), partial(_behind_hub, options=options))


def _behind_hub(host: Host, options: argparse.Namespace) -> Host:
    """A file with configuration is one of this machine, and not of the hub."""
    near = ("-F", options.ssh_config)
    return replace(host, ssh_args=host.ssh_args[2:]) if host.ssh_args[:2] == near else host


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
