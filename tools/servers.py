"""Servers of Debian's packages, private to the caller: their data and their Unix socket are in a folder that goes with them.

One that knows no Unix sockets is given a listening socket of the loopback device; its port is in the file `port` of the folder.
"""

import contextlib
import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools import account_shim, unpack_debian

START = 60.0  # seconds that a server has to make its data, to be ready, and to end


class CannotRun(Exception):
    """This machine lacks what a server needs; the message says what."""


class Server(NamedTuple):
    """How one is started, in a folder of its own."""

    package: str
    program: str
    """Its place in the package; PostgreSQL's folder has the version in its name."""
    arguments: tuple[str, ...]
    listens: tuple[str, ...] = ()
    """Arguments with which it listens on its usual port of the loopback device as well."""
    silent: tuple[str, ...] = ()
    """Arguments with which it has its Unix socket alone."""
    socket: str = ""
    """Its Unix socket; else its standard input is a socket that listens."""
    before: tuple[str, ...] = ()
    """What makes its data, a program beside its own."""
    end: signal.Signals = signal.SIGKILL
    not_root: bool = False
    account: str = ""
    """A user and a group that its package would have made, and that it does not start without."""
    configuration: str = ""
    """What its file `configuration` has; FOLDER, USER and GROUP are replaced."""


# It takes each message and keeps it in spool/input. With a socket `gate` in its folder, a message is accepted when that answers.
EXIM = """
primary_hostname = localhost
spool_directory = FOLDER/spool
log_file_path = FOLDER/spool/%slog
exim_user = USER
exim_group = GROUP
smtp_accept_max = 200
queue_only
host_lookup =
helo_lookup_domains =
tls_advertise_hosts =
keep_environment =
never_users =
acl_smtp_rcpt = everybody
acl_smtp_data = gate
begin acl
everybody:
  accept
gate:
  accept !condition = ${if exists{FOLDER/gate}}
  accept condition = ${readsocket{FOLDER/gate}{message}{60s}}
  deny
"""

SERVERS = {
    "redis-server": Server(
        package="redis-server",
        program="usr/bin/redis-server",
        arguments=("--save", "", "--dir", ".", "--unixsocket", "redis.sock"),
        listens=("--bind", "127.0.0.1"),
        silent=("--port", "0"),
        socket="redis.sock",
    ),
    "postgresql": Server(
        package="postgresql",
        program="usr/lib/postgresql/*/bin/postgres",
        arguments=("-D", "data", "-k", "..", "-F", "-c", "max_prepared_transactions=10", "-c", "max_connections=150"),
        listens=("-h", "127.0.0.1"),
        silent=("-h", ""),
        socket=".s.PGSQL.5432",
        before=("initdb", "-D", "data", "-N", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8"),
        end=signal.SIGQUIT,
        not_root=True,
    ),
    # Without the tables that name its users: it takes everybody.
    "mariadb": Server(
        package="mariadb-server-core",
        program="usr/sbin/mariadbd",
        arguments=(
            "--no-defaults",
            "--skip-grant-tables",
            "--datadir=.",
            "--socket=mariadb.sock",
            "--user=root",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
        ),
        listens=("--bind-address=127.0.0.1",),
        silent=("--skip-networking",),
        socket="mariadb.sock",
    ),
    "exim": Server(
        package="exim4-daemon-light",
        program="usr/sbin/exim4",
        arguments=("-C", "FOLDER/configuration", "-bw"),
        account="Debian-exim",
        configuration=EXIM,
    ),
}


@contextlib.contextmanager
def running(name: str, unpacked: Path, *, listens: bool = False) -> Iterator[Path]:
    """The server `name`: the folder that has its socket. It ends with the block, and the folder is removed.

    It is the installed one, else it is unpacked to the folder `unpacked`. CannotUnpack where neither can be had,
    CannotRun where this machine does not let it run, RuntimeError where it ends at once or is not ready in time.
    """
    server = SERVERS[name]
    words, environment = program(name, unpacked)
    if server.not_root and os.geteuid() == 0:  # it refuses: a user namespace shows it another number
        namespace = ["unshare", "--user", "--map-user=65534", "--map-group=65534", "--"]
        quiet = subprocess.DEVNULL
        if not shutil.which("unshare") or subprocess.run([*namespace, "true"], stderr=quiet, check=False).returncode:
            raise CannotRun(f"{name} does not run as root, and no user namespaces are to be had here")
        words = [*namespace, *words]
    with tempfile.TemporaryDirectory() as folder, open(Path(folder, "log"), "wb") as log:

        def start(words: list[str], stdin: socket.socket | None = None) -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                words, cwd=folder, env=environment, stdin=stdin or subprocess.DEVNULL, stdout=log, stderr=log
            )

        if server.before:
            maker = [*words[:-1], str(Path(words[-1]).with_name(server.before[0])), *server.before[1:]]
            with _ended_after(start(maker), signal.SIGKILL) as making:
                if not _ends(making) or making.returncode:
                    raise RuntimeError(f"{maker} has failed: {_end_of(folder)}")
        if server.configuration:
            environment = _configure(server, Path(folder), environment)
        arguments = [each.replace("FOLDER", folder) for each in server.arguments]
        words = [*words, *arguments, *(server.listens if listens else server.silent)]
        with contextlib.ExitStack() as stack:
            listener = None
            if not server.socket:
                listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=200))
                Path(folder, "port").write_text(str(listener.getsockname()[1]))
            process = start(words, listener)
        with _ended_after(process, server.end):
            _wait_for(process, name, folder)
            yield Path(folder)


@contextlib.contextmanager
def _ended_after(process: "subprocess.Popen[bytes]", by: signal.Signals) -> "Iterator[subprocess.Popen[bytes]]":
    """End it with the block by this signal, or where it does not heed that, by one that it cannot ignore."""
    try:
        yield process
    finally:
        process.send_signal(by)
        if not _ends(process):
            process.kill()
            process.wait()


def _ends(process: "subprocess.Popen[bytes]") -> bool:
    """Whether it ends in time."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(START)
    return process.returncode is not None


def _end_of(folder: str) -> str:
    return Path(folder, "log").read_text("utf-8", "replace")[-400:]


def program(name: str, unpacked: Path) -> tuple[list[str], dict[str, str]]:
    """The words that run the server `name`, and its environment; unpacks it where it has to. CannotUnpack where that cannot be."""
    server = SERVERS[name]
    if installed := sorted(Path("/").glob(server.program)):
        return [str(installed[-1])], dict(os.environ)
    unpack_debian.unpack(unpacked, [server.package])
    return unpack_debian.command(unpacked, server.program), {**os.environ, **unpack_debian.environment(unpacked)}


def _configure(server: Server, folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """Write what it reads at its start; the environment that it needs beyond that."""
    user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    (folder / "spool").mkdir()
    if os.geteuid() == 0:  # it takes messages as a user without rights
        user, group = "nobody", "nogroup"  # words: ok
        folder.chmod(0o711)
        shutil.chown(folder / "spool", user, group)
    text = server.configuration.replace("FOLDER", str(folder)).replace("USER", user).replace("GROUP", group)
    (folder / "configuration").write_text(text)
    try:
        pwd.getpwnam(server.account)
    except KeyError:
        return {**environment, "LD_PRELOAD": str(account_shim.build(folder, server.account))}
    return environment


def _wait_for(process: "subprocess.Popen[bytes]", name: str, folder: str) -> None:
    """Until it takes connections. RuntimeError when it has ended, or does not in time."""
    if not SERVERS[name].socket:
        return  # its socket listens before it does
    end = time.monotonic() + START
    while process.poll() is None and time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)  # one that accepts nothing keeps a caller waiting
            if probe.connect_ex(f"{folder}/{SERVERS[name].socket}") == 0 and _is_ready(name, folder):
                return
        time.sleep(0.05)
    status = process.poll()
    problem = "is not ready in time" if status is None else f"ended with status {status}"
    raise RuntimeError(f"{name} {problem}: {_end_of(folder)}")


def _is_ready(name: str, folder: str) -> bool:
    """PostgreSQL listens before it lets anybody in, and says in a file when it does, which goes where it ends."""
    file = Path(folder, "data", "postmaster.pid")
    return name != "postgresql" or (file.exists() and "ready" in file.read_text())
