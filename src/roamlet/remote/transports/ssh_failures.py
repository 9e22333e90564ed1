"""Explains the messages of OpenSSH's client when a connection does not come about.

Its exit code is 255 for every failure of its own, so only its messages give the reason. They are not translated and have been the
same for many releases; what is not recognised is shown as it came.
"""

import errno
import os
import re
import shlex
from typing import Protocol

from roamlet.remote.errors import (
    AuthenticationFailed,
    ConnectError,
    ConnectTimeout,
    HostKeyRefused,
    HostKeyUnknown,
    HostUnknown,
    HostUnreachable,
    NoPython,
)
from roamlet.remote.terminal.prompts import Answers
from roamlet.remote.transports import ended, none_of, quoted

OFFENDING = re.compile(r"Offending .*key in (?P<file>.+):(?P<line>\d+)")
REMOVE = re.compile(r"^\s*(?P<command>ssh-keygen -f .* -R .*)$", re.MULTILINE)
UNRESOLVED = re.compile(r"Could not resolve hostname (?P<name>\S+): (?P<why>.*)")
WITH_PORT = re.compile(r"(?P<host>[^:]+):(?P<port>\d+)")
DENIED = re.compile(
    r"Permission denied \((?P<methods>[^)]*)\)|Too many authentication failures|No more authentication methods"
)
TIMED_OUT = re.compile(r"timed out|Timeout, server .* not responding", re.IGNORECASE)
REFUSED = re.compile(
    r"Connection refused|No route to host|Network is unreachable|kex_exchange_identification|Connection reset by|"
    r"Connection closed by|ssh_exchange_identification|Connection to .* closed by remote host"
)
# The words of cmd.exe, to which `</dev/null` is a file that it cannot find, and of PowerShell: ids are not translated, words are.
WINDOWS = re.compile(
    r"The system cannot find the (?:path|file) specified|is not recognized as an internal or external command|"
    r"is not recognized as a name of a cmdlet|is not recognized as the name of a cmdlet|FullyQualifiedErrorId|"
    r"Das System kann den angegebenen Pfad nicht finden|ist entweder falsch geschrieben|"
    r"Le chemin d.acc.s sp.cifi. est introuvable|n.est pas reconnu en tant que commande interne|"
    r"Microsoft Windows \[Version"
)
CONFIGURATION = re.compile(
    r"Bad configuration option|Bad owner or permissions on|unknown option|^usage: ssh", re.MULTILINE
)


class Connection(Protocol):
    """What is known of the ssh that failed: see roamlet.remote.transports.ssh.Ssh."""

    host: str
    ssh_args: tuple[str, ...]
    answers: Answers | None

    @property
    def pythons(self) -> tuple[str, ...]: ...
    @property
    def to(self) -> str: ...
    def where(self) -> list[str]: ...


def explain(ssh: Connection, exit_code: int | None, said: list[str]) -> ConnectError:
    """The error for a connection that ended with `exit_code` after ssh, or the host, had written these lines to stderr."""
    text = "\n".join(said)
    for detect in (_host_key, _host, _authentication, _network):
        error = detect(ssh, text, said)
        if error is not None:
            return error
    if WINDOWS.search(text):
        return windows(ssh.to, said)
    if CONFIGURATION.search(text):
        return ConnectError(f"{ssh.to} was not tried: ssh refuses its configuration or ssh_args:\n{quoted(said)}")
    hint = f"    Does the login shell there run commands? Try: {_by_hand(ssh, 'echo', 'hello')}"
    return ConnectError(f"{ssh.to} {ended(exit_code)} before a Python answered, and said:\n{quoted(said)}\n{hint}")


def windows(to: str, said: list[str]) -> ConnectError:
    return ConnectError(
        f"{to} ended on a Windows machine, and contexts on Windows are not supported. What it said:\n{quoted(said)}\n"
        "    Is it the right host? If so, let an sshd run in its WSL, and give the port of that: remote.ssh(..., port=2222). A "
        "target needs a POSIX system."
    )


def _by_hand(ssh: Connection, *command: str, verbose: bool = False) -> str:
    """The command line that connects to the same host as the same user, to find the fault by hand."""
    return shlex.join(["ssh", *(["-v"] if verbose else []), *ssh.ssh_args, *ssh.where(), ssh.host, *command])


def cannot_start(number: int) -> ConnectError:
    if number != errno.ENOENT:
        return ConnectError(f"ssh could not be started: {os.strerror(number)}")
    return ConnectError(
        "ssh was not started: there is no program `ssh` on PATH. roamlet uses OpenSSH's client; "
        "on Debian: apt install openssh-client"
    )


def no_python(ssh: Connection) -> NoPython:
    return NoPython(
        f"no context on {ssh.host!r}: {none_of(ssh.pythons, 'that ssh commands get there')}.\n"
        "    Give the path of one: remote.ssh("
        f"{ssh.host!r}, python='/path/to/python3'); a target needs CPython 2.7, or 3.6 and later."
    )


def _host_key(ssh: Connection, text: str, said: list[str]) -> ConnectError | None:
    if "Host key verification failed" not in text and "REMOTE HOST IDENTIFICATION HAS CHANGED" not in text:
        return None
    if "HAS CHANGED" in text or "REVOKED" in text:
        offending = OFFENDING.search(text)
        where = f" (line {offending['line']} of {offending['file']})" if offending else ""
        what = "is marked as revoked" if "REVOKED" in text else "is not the one in known_hosts"
        remove = REMOVE.search(text)
        command = remove["command"] if remove else f"ssh-keygen -R {ssh.host.rpartition('@')[2]}"
        return HostKeyRefused(
            f"{ssh.to} was refused: the host key {what}{where}.\n"
            f"    If the machine was reinstalled, remove it with: {command}\n"
            "    If it was not, another machine may be in between: do not connect."
        )
    return HostKeyUnknown(
        f"{ssh.to} was refused: no host key is known for it, and ssh cannot ask.\n"
        f"    Connect once by hand and compare the fingerprint: {_by_hand(ssh)}"
    )


def _host(ssh: Connection, text: str, said: list[str]) -> ConnectError | None:
    match = UNRESOLVED.search(text)
    if match is None:
        return None
    hint = "Is it spelt right? Names of your own belong into /etc/hosts or into a Host entry of ~/.ssh/config."
    if with_port := WITH_PORT.fullmatch(ssh.host):
        hint = f"A port is no part of the name: remote.ssh({with_port['host']!r}, port={with_port['port']})"
    return HostUnknown(f"{ssh.to} failed: the name {match['name']!r} cannot be resolved ({match['why']}).\n    {hint}")


def _authentication(ssh: Connection, text: str, said: list[str]) -> ConnectError | None:
    match = DENIED.search(text)
    if match is None:
        return None
    methods = f"; it accepts {match['methods']}" if match["methods"] else ""
    if ssh.answers is not None:
        return _with_password(ssh, said, methods)
    return AuthenticationFailed(
        f"{ssh.to} was refused: the host does not let this user in with the keys that were offered{methods}.\n"
        "    Load the key with ssh-add, name user= and an IdentityFile, or give a password=. See what ssh offers: "
        f"{_by_hand(ssh, 'true', verbose=True)}"
    )


def _with_password(ssh: Connection, said: list[str], methods: str) -> ConnectError:
    typed = ssh.answers is not None and ssh.answers.used
    what = "does not take the password" if typed else "did not even ask for the password"
    return AuthenticationFailed(
        f"{ssh.to} was refused: the host {what}{methods}.\n{quoted(said)}\n"
        "    Is it the right one for this user=? It was typed once, so that no account gets locked."
    )


def _network(ssh: Connection, text: str, said: list[str]) -> ConnectError | None:
    if TIMED_OUT.search(text):
        return ConnectTimeout(
            f"{ssh.to} failed: the host did not answer in time.\n{quoted(said)}\n"
            "    Is it switched on, is the address right, does a firewall drop the packets? A slow one needs a longer timeout="
        )
    if REFUSED.search(text):
        return HostUnreachable(
            f"{ssh.to} failed: no ssh server answers there.\n{quoted(said)}\n"
            "    Is sshd running, is the port right (port=), is there a route and no firewall in between?"
        )
    return None
