"""What the commands share: the network of the file, its servers, sudo's password, and a question before a change."""

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from roamlet.cli import UsageError
from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.file import read
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.servers import Servers


class NotAsked(VpnError):
    """There is no terminal on which to confirm."""


def network_of(options: argparse.Namespace) -> Network:
    """The network of the file. Raises what model.file.read does."""
    network = read(options.file)
    return replace(network, ssh_config=options.ssh_config) if options.ssh_config else network


@contextlib.contextmanager
def opened(options: argparse.Namespace) -> Iterator[tuple[Network, Servers]]:
    """The network of the file, and its servers, not yet connected to; closed at the end."""
    network = network_of(options)
    with Servers(network, password=sudo_password(options, network.sites)) as servers:
        yield network, servers


def sudo_password(options: argparse.Namespace, sites: Iterable[Site]) -> str | None:
    """The password typed at the terminal, where --ask-password asks for it; None leaves it to ROAMLET_SUDO_PASSWORD.
    Raises UsageError.
    """
    if not getattr(options, "ask_password", False):
        return None
    if not any(site.sudo for site in sites):
        raise UsageError("--ask-password asks for sudo's password, and no site has `sudo = true`: leave it out")
    # Inside: hardly any command asks.
    from getpass import getpass

    try:
        return getpass("password for sudo: ")
    except EOFError:
        raise UsageError(
            "--ask-password: there is no terminal to ask on; give the password in ROAMLET_SUDO_PASSWORD"
        ) from None


def asked(options: argparse.Namespace, question: str) -> None:
    """Return after a yes, on the terminal or by --yes. Raises VpnError after anything else."""
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise NotAsked("there is no terminal to ask on, and nothing was changed; say yes beforehand with --yes")
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise NotAsked("nothing was changed")
