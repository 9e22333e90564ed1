"""A worker for gunicorn that runs WSGI applications on tasklets: `gunicorn -k roamlet.gunicorn.Worker app:app`.

One tasklet serves one connection. The standard library is made cooperative before the application is loaded, so that a request
that waits for a database or another server holds up no other. Parsing, responses, TLS settings and hooks are gunicorn's own.
"""

import contextlib
import os
import socket
import sys
import warnings
from time import monotonic
from types import TracebackType
from typing import Any

from gunicorn.sock import ssl_context
from gunicorn.workers.base_async import AsyncWorker

from roamlet import patch
from roamlet.core import CancelScope, TaskletExit, getcurrent, schedule, set_error_handler, sleep, tasklet
from roamlet.io._native import wait_readable
from roamlet.io._serve import GONE, NO_ROOM, PAUSE_SECONDS
from roamlet.sync import Semaphore

__all__ = ["Worker"]

# Seconds between two signs of life to the arbiter, at most; and what tasklets that were killed have to end.
_HEARTBEAT, _LAST_SECONDS = 1.0, 1.0


class _Connection:
    """What the worker knows of a connection while its tasklet serves it."""

    __slots__ = ("client", "handled", "name", "opening", "waiting")

    def __init__(self, client: Any, name: Any, opening_seconds: float | None) -> None:
        self.client = client
        self.name = name  # of its listener
        self.opening = CancelScope(opening_seconds, name="roamlet.gunicorn.Worker.opening_seconds")
        self.handled = 0  # requests
        self.waiting: CancelScope | None = None  # where the next request is read

    def getsockname(self) -> Any:
        """What gunicorn asks the listener for, which may be closed by then."""
        return self.name


class Worker(AsyncWorker):  # type: ignore[misc] # gunicorn has no types
    """gunicorn's worker class: an option `-k`, or worker_class in its configuration.

    What gunicorn's settings mean: worker_connections limits the connections of all listeners of a worker together; keepalive
    the seconds that a client may take for each request's headers, the first included; timeout the seconds that a tasklet may
    compute without a wait, after which the arbiter ends the worker; graceful_timeout the seconds that requests have to end
    after SIGTERM, SIGHUP or max_requests, while idle connections are closed after last_request_seconds. threads is ignored.
    """

    alive: bool  # gunicorn's: false from when it is to end

    opening_seconds: float | None = 30.0
    """How long a client may take for the TLS handshake and, where keepalive is 0, for the headers of its request."""

    last_request_seconds: float = 1.0
    """How long an idle connection stays open for one more request once the worker is to end, at most keepalive.

    The response to that says that the connection closes. A client whose request meets the end of its connection fails.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sockets: list[Any]
        self._connections: dict[tasklet[...], _Connection] = {}
        self._free = Semaphore(self.worker_connections)
        self._tls: Any = None
        self._quitting = self._aborting = self._reopening = False
        self._without_room = False  # for a connection, when one was accepted last
        self._last_requests_until: float | None = None  # the worker ends, and idle connections at this time

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Called by the arbiter: say which settings do nothing."""
        if cfg.threads > 1:
            log.warning("roamlet.gunicorn.Worker has tasklets, no threads: --threads %d is ignored", cfg.threads)

    # ---- starting ----

    def patch(self) -> None:
        """Make the standard library cooperative, threading.local included; called before the application is loaded.

        A subclass that overrides it may leave areas out: roamlet.patch.install(local=True, subprocess=False).
        """
        patch.install(local=True)

    def init_process(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", patch.EarlyImportWarning)  # logged below, less what is gunicorn's
            self.patch()
        self.sockets = [
            socket.socket(each.FAMILY, socket.SOCK_STREAM, fileno=each.sock.detach()) for each in self.sockets
        ]
        self._tell_of_early_imports()
        super().init_process()

    def _tell_of_early_imports(self) -> None:
        early = [each for each in patch.status().early if each.module.partition(".")[0] not in ("", "gunicorn")]
        if not early:
            return
        cause = (
            "--preload has imported it in the arbiter, before this worker"
            if self.cfg.preload_app
            else ("the arbiter has imported it, for its configuration file perhaps")
        )
        self.log.warning(
            "%d place(s) took from the standard library what roamlet.patch replaces, before it was replaced: what is done "
            "with it blocks all requests of the worker. %s. Leave --preload out, or start the arbiter patched too: "
            "python -m roamlet.patch --local -m gunicorn ...\n%s",
            len(early),
            cause[0].upper() + cause[1:],
            "\n".join(f"    {each}" for each in early),
        )

    # ---- signals: handlers run in whatever tasklet is current, so that they only leave a note for run() ----

    def handle_quit(self, sig: int, frame: Any) -> None:
        """SIGQUIT, SIGINT: the hook worker_int, and the end at once."""
        if not self.booted:
            super().handle_quit(sig, frame)
        self.alive = False
        self._quitting = True

    def handle_usr1(self, sig: int, frame: Any) -> None:
        """SIGUSR1: open the log files anew."""
        self._reopening = True

    def handle_abort(self, sig: int, frame: Any) -> None:
        """SIGABRT: the arbiter had no sign of life. What computes gets SystemExit, whose traceback is logged."""
        self._aborting = True
        super().handle_abort(sig, frame)

    def _obey_signals(self) -> None:
        if self._aborting:
            sys.exit(1)
        if self._quitting:
            self.cfg.worker_int(self)
            sys.exit(0)
        if self._reopening:
            self._reopening = False
            self.log.reopen_files()

    # ---- the main tasklet ----

    def notify(self) -> None:
        """Give the arbiter a sign of life. Without an arbiter the worker ends as at SIGTERM."""
        super().notify()
        if self.alive and self.ppid != os.getppid():
            self.log.info("Parent changed, shutting down: %s", self)
            self.alive = False

    def run(self) -> None:
        """Serve until a signal, max_requests or the reloader ends it; then let requests end, for graceful_timeout seconds."""
        if self.cfg.is_ssl:
            self._tls = ssl_context(self.cfg)
        set_error_handler(self._log_error)
        acceptors = [tasklet(self._accept)(listener) for listener in self.sockets]
        while self.alive:
            self._stay_alive(_HEARTBEAT)
        for acceptor in acceptors:
            acceptor.kill()
        for listener in self.sockets:
            listener.close()
        self._end_idle_connections()
        if not self._all_end_within(self.cfg.graceful_timeout):
            self.log.warning("Worker graceful timeout (pid:%s)", self.pid)
            for each in list(self._connections):
                each.kill(pending=True)
            self._all_end_within(_LAST_SECONDS)

    def _log_error(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        """A tasklet that the application has started ended with an error: it is no reason to end the requests."""
        if not isinstance(error, Exception):
            raise error
        self.log.error("A tasklet of the application has failed", exc_info=(kind, error, traceback))

    def _stay_alive(self, seconds: float) -> None:
        """Wait for so long, less when a signal or a tasklet has something to tell."""
        self.notify()
        if self.timeout:  # half of the setting: several signs of life within it
            seconds = min(seconds, self.timeout / 2)
        try:
            wait_readable(self.PIPE[0], seconds)
            os.read(self.PIPE[0], 4096)
        except TimeoutError:
            pass
        self._obey_signals()

    def _wake(self) -> None:
        """Let the main tasklet look. gunicorn's pipe for signals does for tasklets as well."""
        try:
            os.write(self.PIPE[1], b"1")
        except BlockingIOError:  # full, and so read soon
            pass

    def _all_end_within(self, seconds: float) -> bool:
        end = monotonic() + seconds
        while self._connections and (left := end - monotonic()) > 0:
            self._stay_alive(min(left, _HEARTBEAT))
        return not self._connections

    def _end_idle_connections(self) -> None:
        """Let those between two requests end soon: each has its keepalive, but no more than last_request_seconds are left."""
        left = self._seconds_for_last_requests()
        for each in list(self._connections.values()):
            scope = each.waiting
            if each.handled and scope is not None and (scope.deadline is None or scope.deadline > monotonic() + left):
                with contextlib.suppress(RuntimeError):  # a request has come, and its tasklet has left the scope
                    scope.reschedule(left)

    def _seconds_for_last_requests(self) -> float:
        """How much is left of last_request_seconds. They begin when this is asked first."""
        if self._last_requests_until is None:
            self._last_requests_until = monotonic() + self.last_request_seconds
        return max(self._last_requests_until - monotonic(), 0.0)

    # ---- accepting ----

    def _accept(self, listener: socket.socket) -> None:
        try:
            listener.setblocking(False)
            name = listener.getsockname()
            while True:
                wait_readable(listener.fileno())
                self._free.acquire()  # the backlog is the kernel's meanwhile
                accepted = None
                try:
                    accepted = self._accept_one(listener)
                finally:
                    if accepted is None:
                        self._free.release()
                if accepted is not None:
                    serving = tasklet(self._serve)
                    self._connections[serving] = _Connection(accepted[0], name, self.opening_seconds)
                    serving(listener, *accepted)
                    del accepted, serving
                schedule()  # it begins before the next one is taken: another worker may be idle
        except Exception:
            self.log.exception("Accepting connections has failed")
            self.alive = False
            self._wake()

    def _accept_one(self, listener: socket.socket) -> tuple[Any, Any] | None:
        try:
            accepted = listener.accept()
            self._without_room = False
            return accepted
        except BlockingIOError:  # another worker was faster
            return None
        except OSError as error:
            if error.errno in NO_ROOM:
                if not self._without_room:
                    self.log.warning("No more connections are accepted for the moment: %s", error)
                self._without_room = True
                sleep(PAUSE_SECONDS)
            elif error.errno not in GONE:
                raise
            return None

    # ---- one connection ----

    def _serve(self, listener: socket.socket, client: Any, addr: Any) -> None:
        current = getcurrent()
        try:
            with self._connections[current].opening:
                self.handle(listener, client, addr)
        except TaskletExit:
            pass
        except Exception:
            self.log.exception("A connection has failed")
        finally:
            client.close()
            del self._connections[current]
            self._free.release()
            if not self.alive:
                self._wake()

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serve the requests of a connection, in its tasklet."""
        client.setblocking(True)
        connection = self._connections[getcurrent()]
        if self._tls is not None:
            try:
                client = self._tls.wrap_socket(
                    client, server_side=True, suppress_ragged_eofs=self.cfg.suppress_ragged_eofs
                )
            except OSError as error:
                self.log.debug("TLS handshake with %s failed: %s", addr, error)
                return
            connection.client = client
        super().handle(connection, client, addr)

    def handle_http2(self, *args: Any, **kwargs: Any) -> None:
        """Serve the requests of an HTTP/2 connection; gunicorn limits their times."""
        self._connections[getcurrent()].opening.reschedule(None)
        super().handle_http2(*args, **kwargs)

    def timeout_ctx(self) -> CancelScope:
        """gunicorn reads a request's headers in it. It ends quietly when the time is over: no request came."""
        connection = self._connections[getcurrent()]
        connection.opening.reschedule(None)
        seconds = self.cfg.keepalive
        if connection.handled and not self.alive:
            seconds = min(seconds, self._seconds_for_last_requests())
        connection.waiting = CancelScope(seconds)
        return connection.waiting

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> None:
        """Serve one request. StopIteration says to gunicorn that it was the connection's last."""
        connection = self._connections[getcurrent()]
        connection.opening.reschedule(None)
        connection.waiting = None
        connection.handled += 1
        try:
            more = super().handle_request(listener_name, req, sock, addr)
        except TaskletExit:
            raise StopIteration from None
        finally:
            if not self.alive:  # max_requests
                self._wake()
        if more is False:  # the application has taken the socket over, and is done with it
            raise StopIteration

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Log it and answer with its status; a tasklet that was killed or timed out has nothing to say."""
        if not isinstance(exc, TaskletExit):
            super().handle_error(req, client, addr, exc)
