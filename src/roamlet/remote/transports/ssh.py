"""An interpreter on a machine that OpenSSH's client reaches, with the user's own configuration, agent and known hosts."""

import functools
import re
import sys
from collections.abc import Sequence

from roamlet.remote.errors import BadHostName, ConnectError, NoPython
from roamlet.remote.terminal.prompts import NOTHING, Answers, Held, Run
from roamlet.remote.transports import ended, ssh_failures
from roamlet.remote.transports.local import checked_python, hint
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


class Ssh:
    """Starts a Python on `host`: the parent's minor version, then python3, then python, or the one asked for.

    ssh's own configuration decides everything that is not given here. `ssh_args` come first on the command
    line, so that they win.
    """

    asks_on_stdin = False
    translated = False

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
        self.host = _checked_host(host)
        self.user = _checked_user(user)
        self.port = _checked_port(port)
        self.ssh_args = _checked_args(ssh_args)
        self.timeout = timeout
        ask = ("ssh", "-G", *self.ssh_args, "-T", *self.where(), "--", self.host)
        # ssh puts names before what a server asks, which may have any number of lines.
        answers = Answers(password, "ROAMLET_SSH_PASSWORD", self.to, functools.partial(_is_for, ask), one_line=True)
        self.answers = answers if answers.available else None
        own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.pythons = (own, "python3", "python") if python is None else (checked_python(python),)

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

    def cannot_start(self, number: int) -> ConnectError:
        return ssh_failures.cannot_start(number)

    def missing(self) -> NoPython:
        return ssh_failures.no_python(self)

    def explain(self, exit_code: int | None, said: list[str]) -> ConnectError:
        return ssh_failures.explain(self, exit_code, said)

    def describe_end(self, exit_code: int | None) -> str:
        if exit_code == 255:
            return "the connection was lost, or its process was killed (ssh ended with exit code 255)"
        if exit_code is not None and exit_code < 0:
            return f"the ssh to it {ended(exit_code)}"
        return f"its process {ended(exit_code)}{hint(exit_code)}"


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


def _checked_args(ssh_args: Sequence[str]) -> tuple[str, ...]:
    if isinstance(ssh_args, str) or not all(isinstance(arg, str) and "\0" not in arg for arg in ssh_args):
        raise TypeError(f"ssh_args takes a list of single arguments, such as ['-F', 'my_config'], not {ssh_args!r}")
    return tuple(ssh_args)
