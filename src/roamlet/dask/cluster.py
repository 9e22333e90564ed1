"""The cluster: Dask's SpecCluster over contexts, which replaces workers that end by themselves."""

import asyncio
import contextlib
import logging
import math
import socket
import time
from collections.abc import Iterable
from typing import Any

from dask.utils import parse_bytes
from distributed import Scheduler
from distributed.core import Status
from distributed.deploy.spec import SpecCluster
from distributed.security import Security
from distributed.utils import format_dashboard_link, get_ip

import roamlet_dask_worker as on_target
from roamlet.dask import certificates
from roamlet.dask.exchange import Exchange
from roamlet.dask.places import LOCAL, Host, Place, came_from, checked
from roamlet.dask.worker import ContextScheduler, ContextWorker
from roamlet.remote import Modules
from roamlet.remote.errors import HostUnreachable

LOOPBACK = "127.0.0.1"
DASHBOARD = f"{LOOPBACK}:8787"  # any other port where this one is taken
SCHEME = "roamlet"
COMMS = ("tls", SCHEME)
PROBE = 5.0  # seconds for a connection to this machine
SHORT = 10.0  # a worker that lives no longer than these seconds has failed: its successor starts later each time
PAUSE = 0.1  # seconds before a successor starts: its scheduler may have died, too
GIVE_UP = 5.0  # seconds for the scheduler of a cluster whose start was interrupted
LONGEST = 60.0  # seconds between two tries

_log = logging.getLogger("roamlet.dask")


class Cluster(SpecCluster):  # type: ignore[misc] # distributed has types for itself alone
    """A Dask cluster on hosts where nothing need be installed but Python of this process's version.

    `hosts`: names for ssh, "local" for this machine, contexts, or functions that open one. Each host starts `workers_per_host`
    workers (0: none before scale() or adapt()), in processes behind one context a host: what they import crosses the way there
    once. `python`: the interpreter on the hosts. `preload`: modules that are sent ahead and imported before a worker takes tasks;
    everything else travels when a task imports it.

    `scheduler`: "local", in this process, or a host. `address`: by which hosts reach this machine, where that is not the one that
    their ssh comes from. `comm`: "tls", or "roamlet" for hosts that reach nothing by TCP: all goes over roamlet's links.

    `nthreads`, `memory_limit`: of each worker; its share of the host by default, 0 for no limit. `local_directory`: a folder on the
    hosts; by default a private one in their memory that is removed, and nothing is spilled. `modules`: which may travel and whose
    copy counts, by default this process's. `dashboard_address`: where its pages are served, None for nowhere. `worker_options` are
    further arguments of distributed.Worker. `asynchronous`, `loop`, `name` and `silence_logs` are SpecCluster's, as are scale(),
    adapt(), get_client(), get_logs() and the rest.

    Workers, scheduler and clients talk by TLS, with certificates made for this cluster, whose keys are never in a file on a disk.
    Within it Dask's own trust holds: whoever controls a worker or a client can run code in all others, and in this process.

    Blocks this thread until the workers are there. Raises TypeError and ValueError for arguments that make no sense, before
    anything starts; CannotTravel for a host with another minor version of Python, before it is sent anything; what remote.ssh
    raises, and HostUnreachable where a host does not reach the scheduler. Nothing is left then.
    """

    def __init__(
        self,
        hosts: Iterable[Host],
        *,
        workers_per_host: int = 1,
        python: str | None = None,
        preload: Iterable[str] = (),
        scheduler: Host = LOCAL,
        address: str | None = None,
        comm: str = "tls",
        nthreads: int | None = None,
        memory_limit: int | str | None = None,
        local_directory: str | None = None,
        modules: Modules | None = None,
        dashboard_address: str | None = DASHBOARD,
        worker_options: dict[str, Any] | None = None,
        name: str | None = None,
        asynchronous: bool = False,
        loop: Any = None,
        silence_logs: int | None = logging.WARNING,
    ) -> None:
        self.status: Any = Status.closed  # for __del__, until SpecCluster has been told about it
        _check_number("workers_per_host", workers_per_host, 0)
        if nthreads is not None:
            _check_number("nthreads", nthreads)
        limit = _bytes(memory_limit)
        self._places = checked(hosts, python, modules, max(1, workers_per_host))
        self._scheduler_place = None if scheduler == LOCAL else checked([scheduler], python, modules, 1)[0]
        if comm not in COMMS or (comm == SCHEME and (self._scheduler_place is not None or address is not None)):
            raise ValueError(
                f"comm is 'tls' or 'roamlet', and with 'roamlet' the scheduler is in this process: not comm={comm!r}, "
                f"scheduler={scheduler!r:.40}, address={address!r:.40}"
            )
        self._exchange: Exchange | None = None
        self._by_links = comm == SCHEME
        self._address = address
        self._certificates = certificates.made()
        self._dashboard_address = dashboard_address
        self._for_scheduler: certificates.InMemory | None = None
        self._prepared = False
        self._up = False  # the first workers were started: until then an error is the caller's
        self._ending = False
        self._why_failed = ""
        self._short_lives: dict[Any, int] = {}
        self._begun: dict[Any, float] = {}
        self._corrections: set[asyncio.Future[None]] = set()
        options: dict[str, Any] = {"dashboard_address": f"{LOOPBACK}:0"}
        options |= {"silence_logs": silence_logs} if silence_logs else {}
        options |= worker_options or {}
        options |= {"nthreads": nthreads, "memory_limit": limit, "local_directory": local_directory}
        self._worker_options = options
        self._preload = _modules(preload)
        names = [place for place in self._places for _ in range(workers_per_host)]
        try:
            super().__init__(
                workers={number: self._spec(place) for number, place in enumerate(names)},
                scheduler={},
                worker=self._spec(self._places[0]),
                asynchronous=asynchronous,
                loop=loop,
                security=Security(require_encryption=False) if self._by_links else self._certificates.here(),
                silence_logs=silence_logs or False,
                name=name,
            )
        except BaseException:
            self._give_up()
            raise

    # ---- beginning

    async def _start(self) -> None:
        if not self._prepared:
            self._prepared = True
            self.quiet = True  # what happens is in get_logs(), and nothing is printed
            try:
                await self._prepare()
            except BaseException:
                self.status = Status.closed
                await self._close_places()
                raise
        await super()._start()
        self._scheduler_watch = asyncio.ensure_future(self._watch_scheduler())

    async def _prepare(self) -> None:
        """Open a context on each host, and decide where the scheduler listens."""
        places = [*self._places, *([self._scheduler_place] if self._scheduler_place else [])]
        # All have ended before an error is raised, so that what was opened can be closed.
        opening = [asyncio.ensure_future(asyncio.to_thread(place.open_hub)) for place in places]
        await asyncio.wait(opening)
        await asyncio.gather(*opening)
        for place in places:
            self._log(f"{place.name}: {'this machine' if place.hub is None else place.hub.facts}")
        if self._scheduler_place is None and self._dashboard_address == DASHBOARD and not _is_free(8787):
            self._dashboard_address = f"{LOOPBACK}:0"  # without Dask's warning: dashboard_link says which it is
        # Without a dashboard Dask serves some pages all the same.
        served = self._dashboard_address or f"{LOOPBACK}:0"
        options: dict[str, Any] = {"dashboard_address": served, "protocol": "tls://", "port": 0}
        options["dashboard"] = None if self._dashboard_address else False
        if self._by_links:
            self._exchange = exchange = Exchange()
            for spec in self.worker_spec.values():
                spec["options"]["exchange"] = exchange
            options |= {"host": exchange.port.name, "protocol": f"{SCHEME}://", "security": self.security}
            self.scheduler_spec: dict[str, Any] = {"cls": Scheduler, "options": options}
        elif self._scheduler_place is None:
            # Of its own: Dask keeps closed schedulers for long, while clients may keep the cluster's.
            self._for_scheduler = self._certificates.here()
            options |= {"host": await self._reachable(), "security": self._for_scheduler}
            self.scheduler_spec = {"cls": Scheduler, "options": options}
        else:
            options |= {"host": self._address}
            options |= {"place": self._scheduler_place, "certificates": self._certificates}
            self.scheduler_spec = {"cls": ContextScheduler, "options": options}

    async def _reachable(self) -> str:
        """An address of this machine that all hosts reach."""
        away = [place for place in self._places if place.hub is not None]
        if self._address is not None or not away:
            candidates = [self._address or LOOPBACK]
        else:
            asked = await asyncio.gather(*(asyncio.to_thread(came_from, place) for place in away))
            candidates = list(dict.fromkeys([*filter(None, asked), get_ip()]))
        said: list[str] = []
        for address in candidates:
            try:
                listening = socket.create_server((address, 0), family=_family(address))
            except OSError as error:
                said.append(f"{address} does not belong to this machine ({error})")
                continue
            with listening:
                port = listening.getsockname()[1]
                question = (on_target.reaches, (address, port, PROBE))
                answers = await asyncio.gather(*(asyncio.to_thread(place.ask, *question) for place in away))
            bad = [
                f"{place.name} does not reach {address}: {why}" for place, why in zip(away, answers, strict=True) if why
            ]
            if not bad:
                return address
            said += bad
        raise HostUnreachable(
            "the scheduler cannot run in this process: " + "; ".join(said) + "\n"
            "    Have everything go over roamlet's links, comm='roamlet'; or name an address of this machine that the hosts reach, "
            f"address='192.0.2.1'; or let it run on one of them, scheduler={self._places[0].name!r}"
        )

    def _give_up(self) -> None:
        """It could not be made: close what was opened, and the loop's thread."""
        self._ending = True
        for place in self._places:
            place.close()
        if self._scheduler_place is not None:
            self._scheduler_place.close()
        runner = getattr(self, "_loop_runner", None)
        if runner is not None and runner.is_started():
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(self._abandon(), runner.loop.asyncio_loop).result(2 * GIVE_UP)
            runner.stop()
        for each in (self._for_scheduler, self._exchange, getattr(self, "security", None)):
            if isinstance(each, (certificates.InMemory, Exchange)):
                each.close()
        self.status = Status.closed

    async def _abandon(self) -> None:
        """After an interrupt, which leaves what was starting as it is: end the scheduler, which listens and has files."""
        if getattr(self, "scheduler", None) is not None:
            await asyncio.wait_for(self.scheduler.close(), GIVE_UP)

    # ---- workers

    def _spec(self, place: Place) -> dict[str, Any]:
        options = {
            **self._worker_options,
            "place": place,
            "certificates": self._certificates,
            "preload": self._preload,
            "lost": self._worker_ended,
            "exchange": self._exchange,
        }
        if self._by_links:
            options["certificates"] = None
        return {"cls": ContextWorker, "options": options}

    def new_worker_spec(self) -> dict[Any, dict[str, Any]]:
        """See SpecCluster: the next one is for the host that has the fewest."""
        counts = dict.fromkeys(self._places, 0)
        for spec in self.worker_spec.values():
            place = spec["options"]["place"]
            counts[place] = counts.get(place, 0) + 1
        place = min(self._places, key=counts.__getitem__)
        (name,) = super().new_worker_spec()
        return {name: self._spec(place)}

    def _worker_ended(self, worker: ContextWorker) -> None:
        """It has ended, and was not told to: another one takes its place."""
        if self._is_over():
            return
        name = worker.name
        if self.workers.get(name) is worker:
            del self.workers[name]
        self._log(f"worker {name} on {worker.place.name} has ended: {worker.reason}")
        forgetting = asyncio.ensure_future(self._forget(worker))
        self._futures.add(forgetting)  # which the end of the cluster waits for
        forgetting.add_done_callback(self._futures.discard)
        if worker.reason == on_target.RETIRED:
            self.worker_spec.pop(name, None)
        elif name in self.worker_spec:
            _log.warning(
                "worker %s on %s has ended (%s); another one takes its place", name, worker.place.name, worker.reason
            )
            lived = time.monotonic() - self._begun.get(name, -math.inf)
            self._again(name, failed=lived < SHORT)

    def _again(self, name: Any, *, failed: bool) -> None:
        failures = self._short_lives[name] = self._short_lives.get(name, 0) + 1 if failed else 0
        delay = PAUSE if failures < 2 else min(LONGEST, PAUSE * 10 * 2.0 ** (failures - 1))
        task = asyncio.ensure_future(self._corrected(delay))
        self._corrections.add(task)
        task.add_done_callback(self._corrections.discard)

    def _is_over(self) -> bool:
        return self._ending or bool(self._why_failed) or self.status != Status.running

    async def _corrected(self, delay: float) -> None:
        await asyncio.sleep(delay)
        if self._is_over():
            return
        try:
            # Shielded: others wait for the same task, and what it starts would go on without it.
            await asyncio.shield(self._correct_state())
        except Exception as error:
            _log.warning("a worker could not be started: %s", error)

    async def _correct_state_internal(self) -> None:
        known = dict(self.workers)
        leaving = [name for name in known if name not in self.worker_spec]
        if leaving and not self._ending and self.scheduler.status == Status.running:
            # What only they have goes to others first. SpecCluster gives names where addresses are meant, which does nothing.
            with contextlib.suppress(OSError):
                await self.scheduler_comm.retire_workers(names=leaving, remove=True, close_workers=True)
        try:
            await super()._correct_state_internal()
        except Exception as error:
            if not self._ending:
                raise
            self._log(f"while the cluster was closed: {type(error).__name__}: {error}")
        finally:
            now = time.monotonic()
            for name, worker in list(self.workers.items()):
                if known.get(name) is worker:
                    continue
                self._begun[name] = now
                if worker.status == Status.failed:
                    self._log(f"worker {name} on {worker.place.name} did not start: {worker.reason}")
                elif worker.status == Status.running:
                    self._log(f"worker {name} on {worker.place.name}: pid {worker.pid}, {worker.address}")
                if worker.status in (Status.failed, Status.closed):
                    del self.workers[name]
                    if self._up and name in self.worker_spec and not self._ending:
                        self._again(name, failed=True)
            self._up = True

    async def _forget(self, worker: ContextWorker) -> None:
        """Let the scheduler give its tasks to others at once, and its name to the next one."""
        with contextlib.suppress(Exception):
            await self.scheduler_comm.unregister(
                address=worker.address, stimulus_id=f"roamlet-worker-ended-{time.time()}"
            )
        await worker.close()

    def scale(self, n: int = 0, memory: Any = None, cores: float | None = None) -> Any:
        """See SpecCluster: so many workers, each new one on the host that has the fewest. Raises RuntimeError after close()."""
        self._refuse_if_closed()
        if self._ending:
            return super().scale(0)
        return super().scale(n, memory=memory, cores=cores)

    def adapt(self, **options: Any) -> Any:
        """See SpecCluster: as many workers as there is work for. Raises RuntimeError after close()."""
        self._refuse_if_closed()
        return super().adapt(**options)

    def get_client(self) -> Any:
        """See SpecCluster: a client of this cluster. Raises RuntimeError after close()."""
        self._refuse_if_closed()
        return super().get_client()

    def get_logs(self, cluster: bool = True, scheduler: bool = True, workers: Any = True) -> Any:
        """See SpecCluster: what the cluster, its scheduler and its workers have logged. Raises RuntimeError after close()."""
        self._refuse_if_closed()
        return super().get_logs(cluster, scheduler, workers)

    def wait_for_workers(self, n_workers: int, timeout: float | None = None) -> None:
        """See SpecCluster: block until there are so many. Raises RuntimeError after close()."""
        self._refuse_if_closed()
        return super().wait_for_workers(n_workers, timeout)  # type: ignore[no-any-return]

    def _refuse_if_closed(self) -> None:
        if self._why_failed or self.status in (Status.closed, Status.failed):
            if self.status == Status.closing:
                return  # SpecCluster scales to none when it closes
            why = f"its scheduler has ended: {self._why_failed}" if self._why_failed else "it was closed"
            raise RuntimeError(f"this cluster cannot be used any more, as {why}.\n    Make another one: Cluster(hosts)")

    def _threads_per_worker(self) -> int:
        return int(self._smallest("nthreads", "cores"))

    def _memory_per_worker(self) -> int:
        return int(self._smallest("memory_limit", "memory"))

    def _smallest(self, option: str, argument: str) -> int:
        given = self._worker_options[option]
        known = [worker[option] for worker in self.scheduler_info["workers"].values() if worker[option]]
        if not given and not known:
            raise ValueError(f"scale({argument}=...) takes {option}= of the Cluster while it has no workers")
        return given or min(known)  # type: ignore[no-any-return]

    # ---- the scheduler, and the end

    @property
    def dashboard_link(self) -> str:
        """Where a browser finds the dashboard; "" without one."""
        server = self.scheduler_info.get("services", {}).get("dashboard")
        if server is None or self._dashboard_address is None:
            return ""
        host = str(self._dashboard_address).rpartition(":")[0]
        if not host or host == "0.0.0.0":
            host = self.scheduler_address.split("://")[1].rpartition(":")[0]
        return str(format_dashboard_link(host, server))

    async def _watch_scheduler(self) -> None:
        await self.scheduler.finished()
        if self._ending or self.status != Status.running:
            return
        self._why_failed = getattr(self.scheduler, "reason", "") or "it was told to"
        _log.error("the scheduler of %r has ended (%s), and with it all that it knew", self.name, self._why_failed)
        self._log(f"the scheduler has ended: {self._why_failed}")
        self.shutdown_scheduler = False  # it cannot be told

    async def _close(self) -> None:
        if self.status == Status.closed:
            return
        self._ending = True
        self.worker_spec.clear()  # what is about to start workers finds none to start
        for task in self._corrections:
            task.cancel()
        # The beginning of others would hold up the end. They know that they are given up before their opening is cut short.
        given_up = asyncio.gather(*(one.give_up() for one in list(self._created) if isinstance(one, ContextWorker)))
        for place in self._places:
            place.open_no_more()
        await given_up
        watch = getattr(self, "_scheduler_watch", None)
        if watch is not None:
            watch.cancel()
        try:
            await super()._close()
        finally:
            await self._close_places()
            if self._for_scheduler is not None:
                self._for_scheduler.close()
            if self._exchange is not None:
                self._exchange.close()

    async def _close_places(self) -> None:
        places = [*self._places, *([self._scheduler_place] if self._scheduler_place else [])]
        await asyncio.gather(*(asyncio.to_thread(place.close) for place in places))


def _is_free(port: int) -> bool:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError:
        return False
    return True


def _family(address: str) -> socket.AddressFamily:
    return socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]


def _bytes(limit: Any) -> int | None:
    try:
        size = limit if limit is None or isinstance(limit, int) else parse_bytes(limit)
    except (TypeError, ValueError):
        size = -1
    if size is not None and (isinstance(limit, bool) or size < 0):
        raise ValueError(f"memory_limit takes a number of bytes, such as '4 GiB', or 0 for no limit, not {limit!r:.80}")
    return size


def _check_number(name: str, number: Any, least: int = 1) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(f"{name} must be a number, {least} or more, not {number!r}")


def _modules(preload: Any) -> tuple[str, ...]:
    if isinstance(preload, str):
        raise TypeError(f"preload takes a list of modules: [{preload!r}], not {preload!r}")
    names = tuple(preload)
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"preload takes names of modules, such as 'pandas', not {name!r:.80}")
    return names
