"""An interpreter on a machine that OpenSSH's client reaches, with the user's own configuration, agent and known hosts.

Its exit code is 255 for every failure of its own, so only its messages give the reason. They are not translated and have been the
same for many releases; what is not recognised is shown as it came.
"""

import errno
import functools
import os
import re
import shlex
import sys
from collections.abc import Sequence

from roamlet.remote.errors import (
    AuthenticationFailed,
    BadHostName,
    ConnectError,
    ConnectTimeout,
    HostKeyRefused,
    HostKeyUnknown,
    HostUnknown,
    HostUnreachable,
    NoPython,
)
from roamlet.remote.terminal.prompts import NOTHING, Answers, Held, Run
from roamlet.remote.transports import Transport, ended, none_of, quoted
from roamlet.remote.transports.command import checked_arguments
from roamlet.remote.transports.local import checked_python
from roamlet.wire import build

# Names, addresses, user@name. ssh:// is left out: it could name another port and user than port= and user=.
HOST = re.compile(r"(?:[\w.+~-]+@)?[\w.:%\[\]+~-]+")
USER = re.compile(r"[\w.+~$\\-]+")

# A host that has vanished is noticed within a minute; without this, after hours, because TCP alone keeps a silent connection.
OPTIONS = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
NO_QUESTIONS = ("-o", "BatchMode=yes")
ASK_ONCE = ("-o", "NumberOfPasswordPrompts=1")
PASSWORD_PROMPT = re.compile(
    r"(?P<whose>\S+)'s password:|\((?P<named>\S+)\) .*password|(?P<unnamed>password:)", re.IGNORECASE
)

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


class Ssh(Transport):
    """Starts a Python on `host`: the parent's minor version, then python3, then python, or the one asked for.

    ssh's own configuration decides everything that is not given here. `ssh_args` come first on the command
    line, so that they win.
    """

    def __init__(
        self,
        host: str,
        *,
        python: str | None = None,
        user: str | None = None,
        port: int | None = None,
        password: Held = NOTHING,
        ssh_args: Sequence[str] = (),
        timeout: float = 30,
    ) -> None:
        self.host: str = _checked_host(host)
        self.user: str | None = _checked_user(user)
        self.port: int | None = _checked_port(port)
        self.ssh_args: tuple[str, ...] = checked_arguments(ssh_args, "ssh_args")
        self.timeout = timeout
        ask = ("ssh", "-G", *self.ssh_args, "-T", *self.where(), "--", self.host)
        # ssh puts names before what a server asks, which may have any number of lines.
        answers = Answers(password, "ROAMLET_SSH_PASSWORD", self.to, functools.partial(_is_for, ask), one_line=True)
        self.answers: Answers | None = answers if answers.available else None
        own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.pythons: tuple[str, ...] = (own, "python3", "python") if python is None else (checked_python(python),)

    @property
    def name(self) -> str:
        return self.host

    @property
    def to(self) -> str:
        return f"ssh to {self.host!r}"

    def argv(self, token: str) -> list[str]:
        command = build.shell_command(self.pythons, token)
        return ["ssh", *self.ssh_args, "-T", *self._options(), "--", self.host, command]

    def _options(self) -> list[str]:
        ask = NO_QUESTIONS if self.answers is None else ASK_ONCE
        return [*ask, *OPTIONS, "-o", f"ConnectTimeout={max(1, round(self.timeout))}", *self.where()]

    def where(self) -> list[str]:
        """The options for user and port, as far as they were given."""
        user = [] if self.user is None else ["-l", self.user]
        port = [] if self.port is None else ["-p", str(self.port)]
        return user + port

    def by_hand(self, *command: str, verbose: bool = False) -> str:
        """The command line that connects to the same host as the same user, to find the fault by hand."""
        return shlex.join(["ssh", *(["-v"] if verbose else []), *self.ssh_args, *self.where(), self.host, *command])

    def cannot_start(self, number: int) -> ConnectError:
        if number != errno.ENOENT:
            return ConnectError(f"ssh could not be started: {os.strerror(number)}")
        return ConnectError(
            "ssh was not started: there is no program `ssh` on PATH. roamlet uses OpenSSH's client; "
            "on Debian: apt install openssh-client"
        )

    def missing(self) -> NoPython:
        return NoPython(
            f"no context on {self.host!r}: {none_of(self.pythons, 'that ssh commands get there')}.\n"
            "    Give the path of one: remote.ssh("
            f"{self.host!r}, python='/path/to/python3'); a target needs CPython 2.7, or 3.6 and later."
        )

    def explain(self, exit_code: int | None, said: list[str]) -> ConnectError:
        text = "\n".join(said)
        for detect in (_host_key, _host, _authentication, _network):
            error = detect(self, text, said)
            if error is not None:
                return error
        if WINDOWS.search(text):
            return windows(self.to, said)
        if CONFIGURATION.search(text):
            return ConnectError(f"{self.to} was not tried: ssh refuses its configuration or ssh_args:\n{quoted(said)}")
        hint = f"    Does the login shell there run commands? Try: {self.by_hand('echo', 'hello')}"
        return ConnectError(f"{self.to} {ended(exit_code)} before a Python answered, and said:\n{quoted(said)}\n{hint}")

    def describe_end(self, exit_code: int | None, said: Sequence[str] = ()) -> str:
        if exit_code == 255:
            return "the connection was lost, or its process was killed (ssh ended with exit code 255)"
        if exit_code is not None and exit_code < 0:
            return f"the ssh to it {ended(exit_code)}"
        return super().describe_end(exit_code, said)


def _is_for(ask: tuple[str, ...], prompt: str, run: Run) -> bool:
    """Whether the host's password may be typed at `prompt`: for it, or for a key, but for no jump host.

    `ask` is the command that prints the user's configuration for the host: a prompt names it by its address or HostKeyAlias.
    """
    if prompt.startswith("Enter passphrase for"):
        return True
    match = PASSWORD_PROMPT.search(prompt)
    if match is None:
        return False
    known = dict(line.partition(" ")[::2] for line in run(list(ask)).splitlines())
    if match["unnamed"]:  # of a server through OpenSSH before 8.5
        return not {"proxyjump", "proxycommand"} & known.keys()
    hosts = {known.get("hostname", ""), known.get("hostkeyalias", "")} - {""}
    return (match["whose"] or match["named"]) in {f"{known.get('user', '')[:30]}@{host[:128]}" for host in hosts}


def _checked_host(host: str) -> str:
    if not isinstance(host, str):
        raise TypeError(f"host must be a str such as 'alpha' or 'me@alpha', not {host!r}")
    if host.startswith("-") or not HOST.fullmatch(host):
        raise BadHostName(
            f"{host!r} cannot be a host's name, so ssh was not started: give a name, an address or a Host of your ssh "
            "configuration, such as 'alpha', 'me@alpha' or '192.0.2.7'; a port goes into port="
        )
    return host


def _checked_user(user: str | None) -> str | None:
    if user is not None and (not isinstance(user, str) or user.startswith("-") or not USER.fullmatch(user)):
        raise BadHostName(f"{user!r} cannot be a user's name, so ssh was not started")
    return user


def _checked_port(port: int | None) -> int | None:
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
        raise ValueError(f"port must be a number from 1 to 65535, not {port!r}")
    return port


# ---- what its messages mean


def windows(to: str, said: list[str]) -> ConnectError:
    return ConnectError(
        f"{to} ended on a Windows machine, and contexts on Windows are not supported. What it said:\n{quoted(said)}\n"
        "    Is it the right host? If so, let an sshd run in its WSL, and give the port of that: remote.ssh(..., port=2222). A "
        "target needs a POSIX system."
    )


def _host_key(ssh: Ssh, text: str, said: list[str]) -> ConnectError | None:
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
        f"    Connect once by hand and compare the fingerprint: {ssh.by_hand()}"
    )


def _host(ssh: Ssh, text: str, said: list[str]) -> ConnectError | None:
    match = UNRESOLVED.search(text)
    if match is None:
        return None
    hint = "Is it spelt right? Names of your own belong into /etc/hosts or into a Host entry of ~/.ssh/config."
    if with_port := WITH_PORT.fullmatch(ssh.host):
        hint = f"A port is no part of the name: remote.ssh({with_port['host']!r}, port={with_port['port']})"
    elif ssh.host == "local":
        hint = "A context on this machine is made by remote.local()."
    return HostUnknown(f"{ssh.to} failed: the name {match['name']!r} cannot be resolved ({match['why']}).\n    {hint}")


def _authentication(ssh: Ssh, text: str, said: list[str]) -> ConnectError | None:
    match = DENIED.search(text)
    if match is None:
        return None
    methods = f"; it accepts {match['methods']}" if match["methods"] else ""
    if ssh.answers is not None:
        what = "does not take the password" if ssh.answers.used else "did not even ask for the password"
        return AuthenticationFailed(
            f"{ssh.to} was refused: the host {what}{methods}.\n{quoted(said)}\n"
            "    Is it the right one for this user=? It was typed once, so that no account gets locked."
        )
    return AuthenticationFailed(
        f"{ssh.to} was refused: the host does not let this user in with the keys that were offered{methods}.\n"
        "    Load the key with ssh-add, name user= and an IdentityFile, or give a password=. See what ssh offers: "
        f"{ssh.by_hand('true', verbose=True)}"
    )


def _network(ssh: Ssh, text: str, said: list[str]) -> ConnectError | None:
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
