"""What roamlet.dask calls on hosts: a worker or scheduler of Dask in a context's process, and questions about the host.

A module beside roamlet, as targets have no roamlet to import. Results are data: an address, a reason.
"""

import contextlib
import fcntl
import logging
import os
import queue
import socket
import threading
from collections.abc import Iterator
from typing import Any

ROLES = ("client", "scheduler", "worker")
RETIRED = "it was retired"  # by a client or by adapt(), which want no successor
ADD_SEALS, SEALS = 1033, 15  # fcntl's, which Python knows by name from 3.12 on: no change and no other size
PREFIX = "roamlet-dask-"

# What Dask would write to a folder stays where it is, as the folder is memory, too.
IN_MEMORY = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
}

_PATIENCE = 15.0  # seconds for a connection


def in_memory(name: str, text: str) -> int:
    """The descriptor of a file in memory, closed on exec and never written again; it is read as /proc/self/fd/N."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(fd), "w") as file:
            file.write(text)
        fcntl.fcntl(fd, ADD_SEALS, SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def security_fields(names: dict[str, str]) -> dict[str, Any]:
    """Arguments of distributed's Security, from the paths of "ca" and of a certificate and a key for each role."""
    fields: dict[str, Any] = {"require_encryption": True, "tls_ca_file": names["ca"]}
    for role in ROLES:
        fields[f"tls_{role}_cert"], fields[f"tls_{role}_key"] = names[f"{role}-cert"], names[f"{role}-key"]
    return fields


def came_from() -> str:
    """The address that the host has been reached from, as its sshd says; else ""."""
    return os.environ.get("SSH_CONNECTION", "").partition(" ")[0]


def reaches(address: str, port: int, seconds: float) -> str:
    """Why this host does not reach that address by TCP, "" if it does."""
    try:
        socket.create_connection((address, port), seconds).close()
    except OSError as error:
        return str(error)
    return ""


class _Server:
    """The worker or scheduler of this process, on an event loop in a thread of its own."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.ended = threading.Event()
        self.address = ""
        self.said: dict[str, Any] = {}
        self.error: BaseException | None = None
        self.reason = ""
        self.loop: Any = None
        self.server: Any = None

    def run(self, make: Any) -> None:
        import asyncio  # imported here because hosts that are only asked need none of it

        try:
            asyncio.run(self._serve(make))
        except BaseException as error:
            if not self.ready.is_set():  # later ones Dask has logged
                logging.getLogger("distributed").error("it did not start", exc_info=error)
            self.error = error.with_traceback(None)
        finally:
            self.ended.set()
            self.ready.set()

    async def _serve(self, make: Any) -> None:
        import asyncio

        self.loop = asyncio.get_running_loop()
        self.server = make(self)
        await self.server
        self.address = self.server.address
        self.ready.set()
        await self.server.finished()


_server: _Server | None = None
_out: "queue.SimpleQueue[Any]" = queue.SimpleQueue()  # bounded by the credit that readers give


def start_worker(
    scheduler: str,
    options: dict[str, Any],
    share: int,
    pems: dict[str, str],
    config: str,
    name: str = "",
    line: Any = None,
) -> dict[str, Any]:
    """Start the worker of this process; return its address and pid when its scheduler has it. `share`: of so many on this host.

    `name` and `line` are what it is called in `roamlet://`, and the channel by which its frames come.
    """
    from dask.system import CPU_COUNT
    from distributed import Worker
    from distributed.core import Status
    from distributed.system import MEMORY_LIMIT

    options = dict(options)
    if line is not None:
        _join(name, line)
    folder = None
    if not options.get("local_directory"):
        from roamlet.wire.files import private  # here, because only contexts of workers have this part

        folder = options["local_directory"] = private.private_folder(PREFIX)
    if not options.get("nthreads"):
        options["nthreads"] = max(1, CPU_COUNT // share)
    if options.get("memory_limit") is None:
        options["memory_limit"] = MEMORY_LIMIT // share

    class InContext(Worker):  # type: ignore[misc]
        async def close(self, *args: Any, **keywords: Any) -> Any:
            reason = keywords.get("reason", "")
            retired = self.status == Status.closing_gracefully and reason.startswith("scheduler-")
            _reason(RETIRED if retired else reason)
            return await super().close(*args, **keywords)

    def make(server: _Server) -> Any:
        return InContext(scheduler, **options)

    def _reason(reason: str) -> None:
        if _server is not None and not _server.reason:
            _server.reason = reason

    server = _start(make, options, pems, config, scheduler, IN_MEMORY if folder else {})
    worker = server.server
    return {
        "address": server.address,
        "pid": os.getpid(),
        "folder": folder or "",
        "nthreads": worker.state.nthreads,
        "memory_limit": worker.memory_manager.memory_limit or 0,
    }


def outgoing() -> Iterator[Any]:
    """The frames of `roamlet://` that this process sends."""
    while True:
        yield _out.get()


def _join(name: str, line: Any) -> None:
    import roamlet_dask_comm  # imported here because most clusters talk by TCP

    port = roamlet_dask_comm.Port(name, _out.put)

    def read() -> None:
        for frame in line:
            port.take(tuple(frame))
        port.close()

    threading.Thread(target=read, name="roamlet-dask-frames", daemon=True).start()


def start_scheduler(options: dict[str, Any], pems: dict[str, str], config: str) -> dict[str, Any]:
    """Start a scheduler in this process; return its address and the port of its dashboard."""
    from distributed import Scheduler

    server = _start(lambda _: Scheduler(**options), options, pems, config)
    return {"address": server.address, "pid": os.getpid()}


def _start(
    make: Any,
    options: dict[str, Any],
    pems: dict[str, str],
    config: str,
    peer: str = "",
    settings: "dict[str, Any] | None" = None,
) -> _Server:
    global _server  # noqa: PLW0603 - a process has one, which calls that come later find here
    import dask
    from distributed import Security

    dask.config.update(dask.config.config, dask.config.deserialize(config))
    dask.config.set(settings or {})
    if pems:
        # They stay open: what runs here reads them again whenever it connects.
        files = {name: f"/proc/self/fd/{in_memory(PREFIX + name, text)}" for name, text in pems.items()}
        options["security"] = security = Security(**security_fields(files))
        if peer:
            _greet(peer, security)
    elif peer.startswith("roamlet://"):
        options["security"] = Security(require_encryption=False)  # the links are ssh's
    _server = server = _Server()
    threading.Thread(target=server.run, args=(make,), name="roamlet-dask", daemon=True).start()
    server.ready.wait()
    if server.error is not None:
        raise server.error
    return server


def _greet(peer: str, security: Any) -> None:
    """Raise ConnectionRefusedError with the reason if the scheduler and this process do not take each other's certificate.

    A worker would try again and again.
    """
    import ssl  # not every host that is asked for its address has it

    from distributed.comm.addressing import get_address_host_port

    context = security.get_connection_args("worker")["ssl_context"]
    try:
        with socket.create_connection(get_address_host_port(peer), _PATIENCE) as plain:
            with context.wrap_socket(plain) as link:
                link.recv(1)  # the other side refuses after the handshake, and greets otherwise
    except ssl.SSLError as error:
        raise ConnectionRefusedError(
            f"the scheduler at {peer} and this worker refuse each other's certificate: {error}"
        ) from None
    except OSError as error:
        raise ConnectionRefusedError(f"this host does not reach the scheduler at {peer}: {error}") from None


def wait() -> str:
    """Return why it was closed, once it was."""
    assert _server is not None
    _server.ended.wait()
    if _server.error is not None:
        raise _server.error
    return _server.reason


def stop(seconds: float) -> None:
    """Close it, without waiting for tasks that run; return after these seconds at the latest."""
    import asyncio

    server = _server
    if server is None or server.ended.is_set():
        return
    options = {"executor_wait": False} if hasattr(server.server, "executors") else {}

    async def close() -> None:
        await server.server.close(timeout=seconds, reason="roamlet-stop", **options)

    with contextlib.suppress(RuntimeError):  # the loop has just ended
        asyncio.run_coroutine_threadsafe(close(), server.loop)
        server.ended.wait(seconds)
