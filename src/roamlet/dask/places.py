"""Hosts of a cluster: one context for each, behind which the processes of its workers start, each in a context of its own."""

import contextlib
import os
import site
import sys
from collections.abc import Callable, Iterator
from typing import Any

import roamlet_dask_worker as on_target
from roamlet import remote
from roamlet.core import CancelScope
from roamlet.core.os_threads import allocate_lock
from roamlet.remote import Context, Modules
from roamlet.remote.errors import CannotTravel, NoPython, PythonTooOld
from roamlet.remote.transports.local import checked_python

LOCAL = "local"

Host = str | Context | Callable[[], Context]


class Place:
    """A host: opens contexts for workers there. Blocks the thread that calls it; thread-safe.

    `host`: a name for ssh, "local", a context that is left open, or a function that opens one, which is called again when the
    context has ended. "local" has no context of its own: processes of this machine need none between.
    """

    def __init__(self, host: Host, python: str | None = None, modules: Modules | None = None, share: int = 1) -> None:
        self.host = host
        self.name: str = host if isinstance(host, str) else host.name if isinstance(host, Context) else ""
        self.share = share  # workers that divide the processors and the memory of this host
        self._python = python
        # Workers and clients read each other's pickles: all have this process's versions. Bytecode is a tenth more on the way to
        # the host, once, and saves each worker a second and more of compiling.
        prefer = "target" if host == LOCAL and python is None and _is_alike() else "parent"
        self._modules = modules or Modules(prefer=prefer, bytecode=True)
        self._hub: Context | None = host if isinstance(host, Context) else None
        self._lock = allocate_lock()
        self._closed = False
        self._openings: set[CancelScope] = set()

    @property
    def hub(self) -> Context | None:
        """The context that is open on this host."""
        return self._hub

    def open_hub(self) -> None:
        """Open the context on this host, again if it has ended; check that its Python is of this process's version."""
        if self.host == LOCAL:
            return
        with self._lock:
            self._refuse_if_closed()
            if self._hub is not None and (not self._hub.closed or self._hub is self.host):
                return
            hub = self._unless_closed(self._opened)
            self.name = self.name or hub.name
            try:
                _check(hub)
            except BaseException:
                hub.close()
                raise
            self._hub = hub

    def _opened(self) -> Context:
        with _in_words_of_cluster(by_function=not isinstance(self.host, str)):
            if isinstance(self.host, str):
                return remote.ssh(self.host, python=self._python, modules=self._modules)
            assert callable(self.host)
            hub = self.host()
        if not isinstance(hub, Context):
            raise TypeError(f"a function among hosts must open a context and return it, not {hub!r:.80}")
        return hub

    def open(self, name: str) -> Context:
        """Open a context for one worker, or for the scheduler."""
        self.open_hub()
        with _in_words_of_cluster():
            context = self._unless_closed(
                lambda: remote.local(self._python, via=self._hub, name=name, modules=self._modules)
            )
        try:
            self._refuse_if_closed()
            _check(context)
        except BaseException:
            context.close()
            raise
        return context

    def _unless_closed(self, opens: Callable[[], Context]) -> Context:
        """The context that it opens. Raises ContextClosed when this place is closed before that has come."""
        with CancelScope(name="the start of a cluster") as scope:
            self._openings.add(scope)
            try:
                self._refuse_if_closed()
                return opens()
            finally:
                self._openings.discard(scope)
        self._refuse_if_closed()
        raise AssertionError("cut short, and not closed")

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise remote.ContextClosed(f"the cluster is closed, and starts nothing on {self.name!r}", context=self.name)

    def open_no_more(self) -> None:
        """Cut short what opens a context, unless it is a function that blocks in no call of roamlet's. Does not block."""
        self._closed = True
        for scope in list(self._openings):
            scope.cancel()

    def close(self) -> None:
        """Close what was opened here; nothing opens any more."""
        self.open_no_more()
        with self._lock:
            hub = self._hub
        if hub is not None and hub is not self.host:
            hub.close()

    def ask(self, function: Callable[..., Any], args: tuple[Any, ...] = ()) -> Any:
        """Call it on the host, where there is a context."""
        return None if self._hub is None else self._hub.call(function, args, timeout=30)

    def __repr__(self) -> str:
        return f"<roamlet.dask host {self.name!r}>"


@contextlib.contextmanager
def _in_words_of_cluster(by_function: bool = False) -> Iterator[None]:
    """Have errors about interpreters name Cluster's argument, and the versions of Python that serve Dask."""
    try:
        yield
    except (NoPython, PythonTooOld) as error:
        happened = str(error).partition("\n")[0].partition(": a target needs")[0]
        here = "{}.{}".format(*sys.version_info)
        where = "as python= in the function that opens this host" if by_function else "as Cluster(..., python=...)"
        error.args = (
            f"{happened}\n    Give the path of one {where}: a worker needs Python {here}, the same minor version as here.",
        )
        raise


def _is_alike() -> bool:
    """Whether this interpreter, started without its environment and the user's own packages, finds what this process finds."""
    return not (os.environ.get("PYTHONPATH") or (site.ENABLE_USER_SITE and os.path.isdir(site.getusersitepackages())))


def came_from(place: Place) -> str:
    """The address of this machine that the host was reached from, as the host sees it; else ""."""
    return str(place.ask(on_target.came_from) or "")


def _check(context: Context) -> None:
    """Raise CannotTravel for a Python of another version, which could not read what Dask pickles."""
    here = "{}.{}".format(*sys.version_info)
    if context.facts.python[:2] != sys.version_info[:2]:
        raise CannotTravel(
            f"{context.name!r} runs Python {context.facts.version}, and this is {here}: what Dask pickles is read by the same "
            f"version alone.\n    Name one: Cluster(hosts, python='python{here}')",
            context=context.name,
        )


def checked(hosts: Any, python: str | None, modules: Modules | None, per_host: int) -> list[Place]:
    """The places of these hosts. Raises TypeError or ValueError; starts nothing."""
    if isinstance(hosts, (str, Context)) or callable(hosts):
        one = repr(hosts) if isinstance(hosts, str) else getattr(hosts, "name", None) or "function"
        raise TypeError(f"Cluster() takes a list of hosts, even for a single one: [{one}], not {one}")
    try:
        given = list(hosts)
    except TypeError:
        raise TypeError(f"Cluster() takes a list of hosts: ['alpha', 'beta'], not {hosts!r:.80}") from None
    if python is not None:
        checked_python(python)
    if not given:
        raise ValueError("Cluster() needs a host at least: a name for ssh, 'local', or a context")
    for host in given:
        if not (isinstance(host, (str, Context)) or callable(host)):
            raise TypeError(
                f"a host is a name for ssh, 'local', a context or a function that opens one, not {host!r:.80}"
            )
        if isinstance(host, str) and (not host or host.startswith("-") or host != host.strip()):
            raise ValueError(f"{host!r} is no name of a host: give one that ssh knows, such as 'alpha'")
        if isinstance(host, Context) and host.closed:
            raise remote.ContextClosed(f"{host.name!r} is closed, and starts no workers", context=host.name)
        if isinstance(host, Context):
            _check(host)
    return [Place(host, python, modules, per_host * given.count(host)) for host in given]
