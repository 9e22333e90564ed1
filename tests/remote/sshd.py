"""A real sshd on loopback for the tests: own port, own host key, own user key, own configuration, one temporary folder.

It runs as the user that runs the tests and lets only that user in, with that key. The user's own ssh set-up is neither read nor
touched: what the client needs is in a private configuration that `ssh_args` names.
"""

import os
import pwd
import shutil
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from roamlet.core import mark_service_thread
from tools import account_shim, unpack_debian

REPOSITORY = Path(__file__).parents[2]
UNPACKED = REPOSITORY / ".venv" / "servers"
SEPARATION = Path("/run/sshd")


class Sshd:
    """A running server. `ssh_args` go to `remote.ssh`; `host` is the name to connect to."""

    host = "roamlet-loopback"

    def __init__(self, folder: Path, port: int, process: "subprocess.Popen[str]") -> None:
        self.folder = folder
        self.port = port
        self.process = process
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.log: deque[str] = deque(maxlen=500)
        self._reader = threading.Thread(target=self._read_log, name="sshd-log", daemon=True)
        self._reader.start()

    def _read_log(self) -> None:
        """A log that is not read would fill its pipe and stop the server."""
        mark_service_thread()  # it lives as long as the tests: it must not hide a deadlock from those after it
        assert self.process.stderr is not None
        self.log.extend(self.process.stderr)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        self._reader.join(10)
        if self.process.stderr:
            self.process.stderr.close()

    @property
    def ssh_args(self) -> tuple[str, ...]:
        return ("-F", str(self.folder / "ssh_config"))

    def write_client_configuration(self) -> None:
        """One host entry for what works, and one for each way in which a connection is refused."""
        hosts = {
            self.host: {},
            "roamlet-second-name": {},
            "roamlet-changed-key": {"UserKnownHostsFile": self.folder / "known_hosts_changed"},
            "roamlet-unknown-key": {"UserKnownHostsFile": self.folder / "known_hosts_empty"},
            "roamlet-wrong-user-key": {"IdentityFile": self.folder / "other_key"},
        }
        common = {
            "HostName": "127.0.0.1",
            "Port": self.port,
            "User": self.user,
            "IdentityFile": self.folder / "user_key",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": self.folder / "known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
        }
        lines = []
        for name, different in hosts.items():
            lines += [f"Host {name}", f"    HostKeyAlias {name}"]
            lines += [f"    {option} {value}" for option, value in {**common, **different}.items()]
        (self.folder / "ssh_config").write_text("\n".join(lines) + "\n")
        host_key = (self.folder / "host_key.pub").read_text().split()[:2]
        other_key = (self.folder / "other_key.pub").read_text().split()[:2]
        names = ",".join(hosts)
        (self.folder / "known_hosts").write_text(" ".join([names, *host_key]) + "\n")
        (self.folder / "known_hosts_changed").write_text("# a line before it\n" + " ".join([names, *other_key]) + "\n")
        (self.folder / "known_hosts_empty").write_text("")


def server_environment() -> dict[str, str]:
    """The environment in which sshd is found: this one, or one with Debian's package unpacked in front."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    if shutil.which("sshd", path=path):
        return {**os.environ, "PATH": path}
    unpack_debian.unpack(UNPACKED, ["openssh-server"])
    return {**os.environ, **unpack_debian.environment(UNPACKED)}


@contextmanager
def running_sshd(folder: Path, prefix: Sequence[str] = (), options: Sequence[str] = ()) -> Iterator[Sshd]:
    """Start sshd in `folder`, wait until it listens; afterwards it and its sessions are gone.

    `prefix` are words in front of its command; `options`, lines of its configuration, win over those that stand here.
    """
    environment = server_environment()
    for name in ("host_key", "user_key", "other_key"):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "roamlet-test", "-f", str(folder / name)]
        subprocess.run(keygen, check=True, stdin=subprocess.DEVNULL)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    with _separation_of_privileges(folder, environment) as environment:
        process, port = _start(folder, environment, prefix, options)
        server = Sshd(folder, port, process)
        try:
            server.write_client_configuration()
            yield server
        finally:
            server.stop()


def _parts_of(program: str) -> list[str]:
    """Since OpenSSH 9.8 sshd executes other programs, which it looks for where Debian would have installed them."""
    place = Path(program).resolve().parent.parent / "lib/openssh"
    names = {"SshdSessionPath": "sshd-session", "SshdAuthPath": "sshd-auth"}
    return [f"{option} {place / name}" for option, name in names.items() if (place / name).exists()]


def _start(
    folder: Path, environment: dict[str, str], prefix: Sequence[str], options: Sequence[str]
) -> "tuple[subprocess.Popen[str], int]":
    """sshd on a free port; another one when somebody else took it in between."""
    program = shutil.which("sshd", path=environment["PATH"])
    assert program is not None
    for _ in range(5):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (folder / "sshd_config").write_text(
            "\n".join(
                [
                    *options,
                    *_parts_of(program),
                    f"Port {port}",
                    "ListenAddress 127.0.0.1",
                    f"HostKey {folder}/host_key",
                    f"AuthorizedKeysFile {folder}/authorized_keys",
                    "PidFile none",
                    "UsePAM no",
                    "UseDNS no",
                    "StrictModes no",
                    "PasswordAuthentication no",
                    "KbdInteractiveAuthentication no",
                    "PermitRootLogin prohibit-password",
                    "MaxStartups 300:30:400",
                    "MaxSessions 300",
                    "LogLevel INFO",
                    "SetEnv SHLVL=1",  # else bash takes itself for the first shell and reads the user's ~/.bashrc
                    "KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org",  # the default takes a client 0.1 s
                ]
            )
            + "\n"
        )
        process = subprocess.Popen(
            [*prefix, program, "-D", "-e", "-f", str(folder / "sshd_config")],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if "listening on 127.0.0.1" in line:
                return process, port
        process.wait(10)
        process.stderr.close()
        if "Address already in use" not in "".join(said):
            break
    raise RuntimeError(f"sshd did not start: {''.join(said)}")


@contextmanager
def _separation_of_privileges(folder: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """What sshd's own package would have set up for root: an account, and an empty folder in /run. That stays: the sshd of another
    run of the tests, beside this one, may have been started since.
    """
    if os.geteuid() != 0:
        yield environment
        return
    SEPARATION.mkdir(mode=0o755, exist_ok=True)
    try:
        pwd.getpwnam("sshd")
    except KeyError:
        # sshd wants it when it is root, and an unpacked package has made none.
        shim = account_shim.build(folder, "sshd")
        environment = {**environment, "LD_PRELOAD": str(shim)}
    yield environment
