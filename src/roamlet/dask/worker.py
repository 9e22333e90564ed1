"""One worker, or a scheduler, of Dask in a context: what Dask's SpecCluster starts, watches and ends."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import dask
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface

import roamlet_dask_worker as on_target
from roamlet import remote
from roamlet.core.os_threads import OSThread
from roamlet.dask.certificates import Certificates
from roamlet.dask.exchange import Exchange
from roamlet.dask.places import LOCAL, Place
from roamlet.remote import Context
from roamlet.remote.calls.engine import calls_of
from roamlet.remote.errors import RemoteError

START = 60.0  # seconds until a worker must be known to its scheduler
STOP = 1.0  # seconds in which it may end in order
CONFIG_OF_HERE = ("temporary-directory", "scheduler-address")

_log = logging.getLogger("roamlet.dask")


async def _send(context: Context, modules: tuple[str, ...]) -> None:
    """Send modules ahead, and the part for a worker's folder, in a thread that the end of the loop does not wait for.

    To find what pandas needs takes seconds.
    """
    loop = asyncio.get_running_loop()
    sent: asyncio.Future[None] = loop.create_future()

    def send() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            try:
                for module in modules:
                    calls_of(context).shipping.send_module(module)
                calls_of(context).shipping.need("files.private")
            except Exception as error:
                loop.call_soon_threadsafe(settle, error)
            else:
                loop.call_soon_threadsafe(settle, None)

    def settle(problem: Exception | None) -> None:
        if sent.done():
            return
        if problem is None:
            sent.set_result(None)
        else:
            sent.set_exception(problem)

    OSThread(target=send, name="roamlet.dask sends modules", daemon=True).start()
    await sent


class InContext(ProcessInterface):  # type: ignore[misc] # distributed has types for itself alone
    """What workers and schedulers have in common. `place`: where; `certificates`: what to serve and connect with."""

    def __init__(self, place: Place, name: Any, certificates: Certificates | None) -> None:
        super().__init__(name=name)
        self.name = name
        self.place = place
        self.context: Context | None = None
        self.said: dict[str, Any] = {}
        self.reason: str = ""  # why it ended
        self._given_up = False
        self._beginning: asyncio.Future[dict[str, Any]] | None = None
        self._certificates = certificates
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def pid(self) -> int | None:
        """Its process on the host."""
        return self.said.get("pid")

    def __await__(self) -> Generator[Any, Any, "InContext"]:
        return self._started().__await__()

    async def _started(self) -> "InContext":
        """Start it, once. Raises nothing for a start that give_up() cut short, which happens when the cluster closes."""
        async with self.lock:
            if self.status == Status.created:
                await self.start()
        return self

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        name = f"{self.place.name}/{self.name}"
        try:
            self._refuse_if_given_up(name)
            self.context = context = await asyncio.to_thread(self.place.open, name)
            self._refuse_if_given_up(name)
            self._beginning = asyncio.ensure_future(self._begin(context))
            try:
                self.said = await self._beginning
            except asyncio.CancelledError:
                self._refuse_if_given_up(name)
                raise
            self._refuse_if_given_up(name)
            life = context.spawn(on_target.wait)
        except BaseException as error:
            self.status = Status.failed
            self.reason = f"{type(error).__name__}: {error}"
            if self.context is not None:
                await asyncio.to_thread(self.context.close)
            self._event_finished.set()
            if self._given_up and isinstance(error, Exception):
                return
            raise
        self.address: Any = self.said["address"]
        await super().start()
        life.then(partial(self._tell, life))

    def _refuse_if_given_up(self, name: str) -> None:
        if self._given_up:
            raise remote.ContextClosed(f"the cluster was closed while {name!r} started", context=name)

    async def _begin(self, context: Context) -> dict[str, Any]:
        raise NotImplementedError

    def _tell(self, life: Any) -> None:
        """In a thread of roamlet's: the worker has ended, or its context has."""
        try:
            reason = str(life.join(0))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0].partition(" The last lines")[0]
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended, too
            self._loop.call_soon_threadsafe(self._has_ended, reason)

    def _has_ended(self, reason: str) -> None:
        self.reason = self.reason or reason
        if self.status == Status.running:
            self.status = Status.closed
            self._event_finished.set()
            self._lost()

    def _lost(self) -> None:
        """It has ended, and was not told to."""

    async def close(self) -> None:
        """End it, in order if that takes a second at most."""
        if self.status not in (Status.closing, Status.closed, Status.failed):
            self.status = Status.closing
        if self.context is not None:
            if not self.context.closed:
                try:
                    await self.context.acall(on_target.stop, (STOP,), timeout=STOP + 0.5)
                except (RemoteError, TimeoutError):  # C code there keeps the interpreter's lock, or it has just ended
                    await asyncio.to_thread(self._kill)
            await asyncio.to_thread(self.context.close)
        await super().close()

    def _kill(self) -> None:
        """End its process from beside it."""
        if self.pid is None:
            return
        with contextlib.suppress(OSError, RemoteError):
            if self.place.hub is None:
                os.kill(self.pid, signal.SIGKILL)
            else:
                self.place.hub.call(os.kill, (self.pid, signal.SIGKILL.value), timeout=STOP)

    async def give_up(self) -> None:
        """Cut its start short, if that is under way: it fails, and raises nothing where it is waited for."""
        if self.status == Status.created:
            self._given_up = True
            if self._beginning is not None:
                self._beginning.cancel()
            if self.context is not None:
                await asyncio.to_thread(self.context.close)

    def _config(self) -> str:
        """Dask's configuration of this process, without what is about this machine."""
        config = {key: value for key, value in dask.config.config.items() if key not in CONFIG_OF_HERE}
        return dask.config.serialize(config)  # type: ignore[no-any-return]

    def _pems(self, role: str) -> dict[str, str]:
        return {} if self._certificates is None else self._certificates.of(role)


class ContextWorker(InContext):
    """A worker in a process that a context starts, for the specification of a SpecCluster; Cluster is made of them.

    `options` are those of distributed.Worker. `preload`: modules that are sent ahead and imported before it takes tasks.
    """

    def __init__(
        self,
        scheduler: str,
        *,
        name: Any = None,
        place: Place | None = None,
        certificates: Certificates | None = None,
        preload: tuple[str, ...] = (),
        lost: "Callable[[ContextWorker], object] | None" = None,
        exchange: Exchange | None = None,
        **options: Any,
    ) -> None:
        super().__init__(place or Place(LOCAL), name, certificates)
        self._exchange = exchange
        self.scheduler_address = scheduler
        self._preload = preload
        self._options = options
        self._when_lost = lost

    async def _begin(self, context: Context) -> dict[str, Any]:
        options = {**self._options, "name": self.name, "preload": list(self._preload)}
        await _send(context, self._preload)
        args = (self.scheduler_address, options, self.place.share, self._pems("worker"), self._config())
        if self._exchange is None:
            return await context.acall(on_target.start_worker, args, timeout=START)
        name, line = self._exchange.join()
        self._exchange.serve(name, context)
        return await context.acall(on_target.start_worker, (*args, name, line), timeout=START)

    def _lost(self) -> None:
        if self._when_lost is not None:
            self._when_lost(self)


class ContextScheduler(InContext):
    """A scheduler in a process on a host."""

    def __init__(self, *, place: Place, certificates: Certificates, **options: Any) -> None:
        super().__init__(place, "scheduler", certificates)
        self._options = options

    async def _begin(self, context: Context) -> dict[str, Any]:
        return await context.acall(
            on_target.start_scheduler, (self._options, self._pems("scheduler"), self._config()), timeout=START
        )
