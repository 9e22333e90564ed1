"""Contexts: Pythons in other processes and on other machines, whose functions are called from here.

    with remote.ssh("alpha") as alpha:
        print(alpha.call(platform.platform))

Nothing is installed over there and nothing is written to its disk: a Python 2.7, or 3.6 and later, is enough.
"""

from weft.remote._facts import Facts
from weft.remote._gather import Opened, Result, gather, map, open_all
from weft.remote._open import (
    doas,
    docker,
    fork,
    incus,
    kubectl,
    local,
    lxc,
    nspawn,
    podman,
    setns,
    slurm,
    ssh,
    su,
    sudo,
)
from weft.remote._output import OutputFunction
from weft.remote._prompts import PasswordFunction
from weft.remote._spawn import RemoteCall, Stream
from weft.remote._values import register
from weft.remote._window import WindowChannel, channel
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
    DamagedFile,
    FileChanged,
    ForkedContext,
    FunctionExited,
    FunctionNotFound,
    HostKeyRefused,
    HostKeyUnknown,
    HostUnknown,
    HostUnreachable,
    NoAllocation,
    NoPython,
    NotAllowed,
    NoTasklets,
    ProtocolError,
    PythonTooOld,
    RemoteError,
    RemoteModuleNotFound,
    TargetNotFound,
    TargetNotRunning,
    UnsafeFork,
    UnsafeName,
)
from weft.remote.files import Progress, Transferred
from weft.remote.modules import Modules

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
    "DamagedFile",
    "Facts",
    "FileChanged",
    "ForkedContext",
    "FunctionExited",
    "FunctionNotFound",
    "HostKeyRefused",
    "HostKeyUnknown",
    "HostUnknown",
    "HostUnreachable",
    "Modules",
    "NoAllocation",
    "NoPython",
    "NoTasklets",
    "NotAllowed",
    "Opened",
    "OutputFunction",
    "PasswordFunction",
    "Progress",
    "ProtocolError",
    "PythonTooOld",
    "RemoteCall",
    "RemoteError",
    "RemoteModuleNotFound",
    "Result",
    "Stats",
    "Stream",
    "TargetNotFound",
    "TargetNotRunning",
    "Transferred",
    "UnsafeFork",
    "UnsafeName",
    "WindowChannel",
    "channel",
    "doas",
    "docker",
    "fork",
    "gather",
    "incus",
    "kubectl",
    "local",
    "lxc",
    "map",
    "nspawn",
    "open_all",
    "podman",
    "register",
    "setns",
    "slurm",
    "ssh",
    "su",
    "sudo",
]
