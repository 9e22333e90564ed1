"""The broker's process: accepts workers, answers their requests, and ends with the controller."""

import logging
import os
import shutil
import socket as system_socket
import struct
from collections.abc import Callable, Sequence

import roamlet
from roamlet import io
from roamlet.remote import AuthenticationFailed, ConnectError, NoPython, PythonTooOld, RemoteError
from roamlet_ansible.cores import packed

from . import protocol
from .hosts import Hosts
from .session import Lost, Session

CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid: the kernel's struct ucred
POLL = 0.5  # seconds between two looks at the controller, where the system has no pidfd

_log = logging.getLogger("roamlet_ansible.broker")

Answer = tuple[protocol.Header, Sequence[bytes]]


def main(descriptor: int, folder: str, controller: int, run: str) -> None:
    """Serve the listening socket `descriptor`, in the private folder `folder`, until the process `controller` has ended.

    `run` is the folder of the run, in which core stores packed modules. Blocks. Contexts are closed, and with them the processes
    on the targets end; the folder is removed.
    """
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s")
    hosts = Hosts(packed.Keeper(run))
    listener = io.socket(fileno=descriptor)
    try:
        with roamlet.scope() as scope:
            hosts.spawn = scope.service
            scope.service(io.serve, (listener, lambda connection, _: _served(connection, hosts)))
            _wait_for_end(controller)
            listener.close()
    finally:
        hosts.close()
        hosts.packed.write()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_end(process: int) -> None:
    try:
        descriptor = os.pidfd_open(process)
    except AttributeError:  # not Linux
        pass
    except ProcessLookupError:
        return
    except OSError:  # a kernel before 5.3
        pass
    else:
        try:
            io.wait_readable(descriptor)
        finally:
            os.close(descriptor)
        return
    while True:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        roamlet.sleep(POLL)


def _served(connection: io.socket, hosts: Hosts) -> None:
    """_conversation(), whose errors end no other worker's: this one finds the connection closed."""
    try:
        _conversation(connection, hosts)
    except OSError:
        raise
    except Exception:
        _log.exception("a worker's connection")


def _conversation(connection: io.socket, hosts: Hosts) -> None:
    """Answer the requests of one worker, one after the other, until it closes the connection."""
    _refuse_others(connection)
    session = Session(hosts)
    try:
        while True:
            try:
                header, blobs = protocol.receive(connection)
            except protocol.Ended:
                return
            if header["do"] == "ahead":
                session.begin(header)
                continue
            answer, parts = _while_connected(connection, session, lambda: _answered(session, header, blobs))  # noqa: B023
            protocol.send(connection, answer, parts)
    finally:
        session.close()


def _refuse_others(connection: io.socket) -> None:
    """The folder keeps other users away; where the system tells the user of a connection, that is checked too."""
    if hasattr(system_socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(system_socket.SOL_SOCKET, system_socket.SO_PEERCRED, CREDENTIALS.size)
        if CREDENTIALS.unpack(credentials)[1] != os.getuid():
            raise ConnectionError("a process of another user has connected to the broker")


def _while_connected(connection: io.socket, session: Session, work: Callable[[], Answer]) -> Answer:
    """What `work()` returns. When the worker goes away meanwhile, what it has begun on the target is ended."""
    answer: list[Answer] = []
    with roamlet.scope() as scope:
        scope.service(_cancel_at_end, (connection, session))
        answer.append(work())
    return answer[0]


def _cancel_at_end(connection: io.socket, session: Session) -> None:
    io.wait_readable(connection.fileno(), daemon=True)  # a worker sends nothing until it is answered: this is its end
    session.cancel()


def _answered(session: Session, header: protocol.Header, blobs: list[bytes]) -> Answer:
    try:
        return session.answer(header, blobs)
    except (NoPython, PythonTooOld) as error:
        return _failure("no-python", error)
    except AuthenticationFailed as error:
        return _failure("authentication", error)
    except ConnectError as error:
        return _failure("unreachable", error)
    except Lost as error:
        return _failure("lost", error)
    except RemoteError as error:
        return _failure("lost" if error.sent is not False else "unreachable", error)
    except Exception as error:
        _log.exception("request %s", header.get("do"))
        return _failure("failed", error)


def _failure(kind: str, error: Exception) -> Answer:
    return {"error": kind, "text": str(error) or type(error).__name__}, ()
