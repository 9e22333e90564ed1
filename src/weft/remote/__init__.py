"""Contexts: Pythons in other processes and on other machines, whose functions are called from here.

    with remote.ssh("alpha") as alpha:
        print(alpha.call(platform.platform))

Nothing is installed over there and nothing is written to its disk: a Python 2.7, or 3.6 and later, is enough.
"""

from collections.abc import Sequence

from weft.remote._connect import connect as _connect
from weft.remote._facts import Facts
from weft.remote._output import OutputFunction
from weft.remote.context import Context, Stats
from weft.remote.errors import (
    AuthenticationFailed,
    BadHostName,
    CallTimeout,
    CannotTravel,
    ConnectError,
    ConnectTimeout,
    ContextClosed,
    ContextDied,
    ForkedContext,
    FunctionExited,
    FunctionNotFound,
    HostKeyRefused,
    HostKeyUnknown,
    HostUnknown,
    HostUnreachable,
    NoPython,
    ProtocolError,
    PythonTooOld,
    RemoteError,
    RemoteModuleNotFound,
)
from weft.remote.modules import Modules
from weft.remote.transports.local import Local as _Local
from weft.remote.transports.ssh import Ssh as _Ssh

__all__ = [
    "AuthenticationFailed",
    "BadHostName",
    "CallTimeout",
    "CannotTravel",
    "ConnectError",
    "ConnectTimeout",
    "Context",
    "ContextClosed",
    "ContextDied",
    "Facts",
    "ForkedContext",
    "FunctionExited",
    "FunctionNotFound",
    "HostKeyRefused",
    "HostKeyUnknown",
    "HostUnknown",
    "HostUnreachable",
    "Modules",
    "NoPython",
    "OutputFunction",
    "ProtocolError",
    "PythonTooOld",
    "RemoteError",
    "RemoteModuleNotFound",
    "Stats",
    "local",
    "ssh",
]


def local(
    python: str | None = None,
    *,
    name: str | None = None,
    timeout: float = 30,
    output: OutputFunction | None = None,
    modules: Modules | None = None,
) -> Context:
    """Open a context in another process of this machine, run by the interpreter `python`: a path, or a name on PATH.

    None is the interpreter of this process. Everything else is as for `ssh`.
    """
    return _connect(_Local(python), name=name, timeout=timeout, output=output, policy=modules)


def ssh(
    host: str,
    *,
    python: str | None = None,
    user: str | None = None,
    port: int | None = None,
    ssh_args: Sequence[str] = (),
    name: str | None = None,
    timeout: float = 30,
    output: OutputFunction | None = None,
    modules: Modules | None = None,
) -> Context:
    """Open a context on `host`, which OpenSSH's client reaches as it would from the command line, but without asking anybody.

    `python` is a path or name over there; None tries this process's version, then python3, then python. `ssh_args` are
    further arguments of ssh; they win over what weft adds (BatchMode, ConnectTimeout, ServerAliveInterval). `name` is what
    messages and log records call it, the host by default. `output(context, stream, line)` gets what is printed over there,
    stream being "stdout" or "stderr"; None prints it here. `modules` says which modules may travel there, and whose copy of a
    package counts.

    Blocks this tasklet only; thread-safe; many can be opened at once. Raises a ConnectError that says what was wrong, after
    `timeout` seconds at the latest; nothing is left then. Close the context, best by `with`.
    """
    transport = _Ssh(host, python=python, user=user, port=port, ssh_args=ssh_args, timeout=timeout)
    return _connect(transport, name=name, timeout=timeout, output=output, policy=modules)
