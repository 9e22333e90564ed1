"""execnet's gateways in contexts: Pythons on hosts where execnet is not installed, nor anything else.

    import roamlet.execnet

    group = roamlet.execnet.Group()
    gateway = group.makegateway("roamlet//ssh=alpha")
    channel = gateway.remote_exec("channel.send(channel.receive() + 1)")

What a worker imports comes from this process. pytest-xdist's `--tx roamlet//ssh=alpha` stands on it (roamlet.testing.xdist).
"""

import re
from collections.abc import Callable, Iterable
from importlib.metadata import metadata, version
from typing import Any, NamedTuple

import execnet

import roamlet
from roamlet.core.os_threads import allocate_lock
from roamlet.remote import (
    CannotTravel,
    Context,
    ContextClosed,
    Modules,
    RemoteCall,
    buildah,
    docker,
    incus,
    jail,
    kubectl,
    local,
    lxc,
    nspawn,
    podman,
    ssh,
)
from roamlet.remote.calls.engine import calls_of
from roamlet.wire.calls import gateways as on_target

__all__ = ["Gateway", "Group", "UnknownSpec"]

PLACES: dict[str, Callable[..., Context]] = {
    "local": local,
    "ssh": ssh,
    "buildah": buildah,
    "docker": docker,
    "incus": incus,
    "jail": jail,
    "kubectl": kubectl,
    "lxc": lxc,
    "nspawn": nspawn,
    "podman": podman,
}
_AHEAD = 1024  # messages that may wait on their way


class UnknownSpec(ValueError):
    """The specification of a gateway says nothing that could be opened."""


class Place(NamedTuple):
    """A host as a specification names it; gateways of one Place are behind one context."""

    transport: str
    target: str | None
    python: str | None
    ssh_config: str | None


def place_of(spec: execnet.XSpec) -> Place:
    """Where a `roamlet//...` specification leads. Raises UnknownSpec, which says what is wrong with it."""
    said = {name: getattr(spec, name) for name in PLACES if getattr(spec, name, None)}
    shown = str(spec).removeprefix(f"execmodel={spec.execmodel}//")
    if len(said) != 1:
        raise UnknownSpec(
            f"{shown!r} names {'no place' if not said else ' and '.join(said)}: "
            f"one of {', '.join(PLACES)} belongs behind roamlet, as in roamlet//ssh=alpha"
        )
    ((transport, target),) = said.items()
    if (target is True) != (transport == "local"):
        raise UnknownSpec(
            f"{shown!r}: local takes no name"
            if transport == "local"
            else f"{shown!r} does not say where: {transport}=NAME, as in roamlet//{transport}=alpha"
        )
    for other in ("via", "socket", "installvia", "vagrant_ssh", *(["ssh_config"] if transport != "ssh" else [])):
        if getattr(spec, other, None):
            raise UnknownSpec(f"{shown!r}: {other}= does not go together with roamlet//{transport}")
    for name in ("python", "ssh_config", "nice"):
        if getattr(spec, name, None) is True:
            raise UnknownSpec(f"{shown!r}: {name} needs a value, as in {name}=VALUE")
    return Place(transport, None if target is True else str(target), spec.python, spec.ssh_config)


def open_place(place: Place, packages: Iterable[str] = ("execnet",)) -> Context:
    """Open the context of a host, whose Python is one for these packages.

    Blocks; raises what the functions of roamlet.remote do, and CannotTravel for a Python that is too old.
    """
    modules = Modules(prefer="parent")
    if place.target is None:
        context = local(place.python, modules=modules)
    else:
        options = {"ssh_args": ("-F", place.ssh_config)} if place.ssh_config else {}
        context = PLACES[place.transport](place.target, python=place.python, modules=modules, **options)
    try:
        _check(context, packages)
    except BaseException:
        context.close()
        raise
    return context


def _check(context: Context, packages: Iterable[str]) -> None:
    for package in packages:
        least = re.search(r">=\s*(\d+)\.(\d+)", metadata(package)["Requires-Python"] or "")
        if least is not None and context.facts.python[:2] < (int(least[1]), int(least[2])):
            raise CannotTravel(
                f"{context.name!r} runs Python {context.facts.version}, and {package} {version(package)}, which a worker "
                f"gets from here, needs {least[1]}.{least[2]} at least.\n    Name another: //python=python3",
                context=context.name,
            )


class Gateway(execnet.Gateway):
    """A gateway of execnet whose other half runs in the main thread of a context, which it has to itself: `context`."""

    context: Context


class Group(execnet.Group):
    """An execnet.Group that knows `roamlet//PLACE=NAME` too, with the keys python, ssh_config, chdir, nice, env:NAME and id.

    PLACE is ssh, local, docker, or another way into a host that roamlet.remote has. Gateways of one host stand behind one context
    there, so that what they import crosses the line once; terminate() ends it with them. Everything else is as in execnet.
    """

    def __init__(self, xspecs: "Iterable[execnet.XSpec | str | None]" = (), execmodel: str = "thread") -> None:
        self._hosts: dict[Place, Context] = {}
        self._opening = allocate_lock()
        super().__init__(xspecs, execmodel)

    def host_of(self, spec: execnet.XSpec) -> Context:
        """The context behind which the gateways of this specification's host are, opened if it was not."""
        place = place_of(spec)
        with self._opening:
            context = self._hosts.get(place)
            if context is None or context.closed:
                context = self._hosts[place] = open_place(place)
            return context

    def adopt(self, spec: execnet.XSpec, context: Context) -> None:
        """Take a context that was opened by open_place() for the specification's host."""
        with self._opening:
            self._hosts[place_of(spec)] = context

    def makegateway(self, spec: "execnet.XSpec | str | None" = None) -> execnet.Gateway:
        """As execnet's. Blocks; raises UnknownSpec, and what the functions of roamlet.remote do."""
        spec = spec or self.defaultspec
        if not isinstance(spec, execnet.XSpec):
            spec = execnet.XSpec(spec)
        if not spec.roamlet:
            return super().makegateway(spec)
        host = self.host_of(spec)
        self.allocate_id(spec)
        if spec.execmodel is None:
            spec.execmodel = self.remote_execmodel.backend
        context = local(spec.python, via=host, name=f"{host.name} {spec.id}", modules=Modules(prefer="parent"))
        try:
            gateway = Gateway(_Link(context, spec, self.execmodel), spec)
        except BaseException:
            context.close()
            raise
        gateway.context = context
        gateway.spec = spec
        self._register(gateway)
        self._settle(gateway, spec)
        return gateway

    def _settle(self, gateway: execnet.Gateway, spec: execnet.XSpec) -> None:
        """What makegateway() does for the keys chdir, nice and env."""
        if spec.chdir or spec.nice or spec.env:
            channel = gateway.remote_exec(_settle)
            channel.send((spec.chdir, int(spec.nice or 0), spec.env))
            channel.waitclose()

    def terminate(self, timeout: float | None = None) -> None:
        """As execnet's, and the contexts of the hosts end."""
        try:
            super().terminate(timeout)
        finally:
            with self._opening:
                hosts = list(self._hosts.values())
                self._hosts.clear()
            for context in hosts:
                context.close()


def _settle(channel):  # type: ignore[no-untyped-def] # its source travels, and runs on any Python
    import os

    chdir, nice, env = channel.receive()
    if chdir:
        if not os.path.exists(chdir):
            os.mkdir(chdir)
        os.chdir(chdir)
    if nice:
        os.nice(nice)
    os.environ.update(env)


class _Link:
    """A pair of channels to a context as an IO object of execnet."""

    def __init__(self, context: Context, spec: execnet.XSpec, execmodel: Any) -> None:
        self.execmodel = execmodel
        self.remoteaddress = context.name
        self._context = context
        self._down = roamlet.channel[bytes](_AHEAD)
        self._up = roamlet.channel[bytes](_AHEAD)
        self._read = bytearray()
        self._why = ""  # it ended, if it did not end as it should
        calls_of(context).shipping.need("calls.gateways")
        self._call: RemoteCall[None] = context.spawn(
            on_target.serve, (self._down, self._up, f"{spec.id}-worker", spec.execmodel)
        )
        self._call.then(self._ended)

    def _ended(self) -> None:
        """In a thread of roamlet's: the worker is over, however that came about."""
        try:
            self._call.join()
        except Exception as error:
            if not isinstance(error, ContextClosed):
                self._why = f": {error}"
        self._up.close()
        self._down.close()

    def read(self, count: int) -> bytes:
        while len(self._read) < count:
            piece = next(self._up, None)
            if piece is None:
                raise EOFError(f"{self._context.name} sends nothing more{self._why}")
            self._read += piece
        data = bytes(self._read[:count])
        del self._read[:count]
        return data

    def write(self, data: bytes) -> None:
        whole = memoryview(data)
        try:
            for begin in range(0, len(whole), on_target.PIECE):
                self._down.send(bytes(whole[begin : begin + on_target.PIECE]))
        except roamlet.ChannelClosed:
            raise OSError(f"{self._context.name} takes nothing more{self._why}") from None

    def close_read(self) -> None:
        pass

    def close_write(self) -> None:
        self._down.close()

    def wait(self) -> int:
        self._context.close()
        return 0

    def kill(self) -> None:
        self._context.close()
