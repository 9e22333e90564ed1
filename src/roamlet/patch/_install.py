"""Putting the areas in place, and taking them out again."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any, Literal, Never, TypedDict, Unpack

from roamlet.core import RoamletError
from roamlet.patch.areas import AREAS, Area
from roamlet.patch.changes import Changes, Replacement
from roamlet.patch.early import Early, EarlyImport, EarlyImportWarning, found_early

# By area, in the order of putting in place. The lock is one of the standard library's: no tasklet switches inside.
_in_place: dict[str, Changes] = {}
_lock = RLock()


Threads = Literal["os", "tasklets"]


class Options(TypedDict, total=False):
    """The arguments of install()."""

    sockets: bool
    dns: bool
    tls: bool
    select: bool
    sleep: bool
    locks: bool
    subprocess: bool
    signals: bool
    asyncio: bool
    pipes: bool
    local: bool
    threads: Threads
    strict: bool


@dataclass(frozen=True)
class Status:
    """What is in place, and what was imported too early for it. str() of it is a text to read."""

    areas: tuple[str, ...]
    """The names of the areas that are in place, in order."""
    replaced: tuple[str, ...]
    """The names that were replaced: "socket.socket" and so on."""
    early: tuple[Early, ...]
    """What still holds an original, one entry for each place."""

    def __str__(self) -> str:
        if not self.areas:
            return "roamlet.patch: nothing is in place (roamlet.patch.install() does it)"
        lines = [f"roamlet.patch: {', '.join(self.areas)} in place, {len(self.replaced)} names replaced"]
        lines += [f"  {each}" for each in self.early]
        return "\n".join(lines)


def install(
    *,
    sockets: bool = True,
    dns: bool = True,
    tls: bool = True,
    select: bool = True,
    sleep: bool = True,
    locks: bool = True,
    subprocess: bool = True,
    signals: bool = True,
    asyncio: bool = True,
    pipes: bool = False,
    local: bool = False,
    threads: Threads = "os",
    strict: bool = False,
    **unknown: Never,
) -> None:
    """Make these areas of the standard library block the calling tasklet instead of its thread, in all threads.

    Areas that are in place already stay, so that a second call may add some and otherwise does nothing. Call it before
    anything else is imported: a module that took a name of the standard library by `from socket import socket`, or derived a
    class, keeps the original. Each such place is named by an EarlyImportWarning, or with `strict` by EarlyImport,
    and then nothing is changed.
    `pipes` lets os.read, os.write and kin wait as tasklets do; with `local` the attributes of a threading.local belong to
    the tasklet instead of its thread. Threads stay threads of the operating system, unless threads="tasklets" makes each
    thread that is started from now on a tasklet of the main thread; `local` and `pipes` are in place then, too.

    Thread-safe, from any thread; does not switch. ValueError for another value of `threads`, RuntimeError after
    gevent.monkey.patch_all() or eventlet.monkey_patch().
    """
    given: dict[str, Any] = locals()  # all of them: an argument that is added cannot be forgotten
    _install(stacklevel=3, **given.pop("unknown"), **given)


def _install(*, stacklevel: int, strict: bool = False, threads: Threads = "os", **areas: bool) -> None:
    """What install() does; a warning is for the caller that is so many frames above."""
    if unknown := areas.keys() - Options.__annotations__.keys():
        raise TypeError(
            f"roamlet.patch has no {', '.join(sorted(unknown))}: there are {', '.join(Options.__annotations__)}"
        )
    wanted = {"pipes": False, "local": False, **areas, **_wanted_for(threads, areas)}
    with _lock:
        _refuse_other_patches()
        new = [area for area in AREAS if wanted.get(area.name, True) and area.name not in _in_place]
        if not new:
            return
        _put_in_place(new)
        early = found_early(_replacements([area.name for area in new]))
        if early and strict:
            _take_out([area.name for area in new])
            raise EarlyImport(early)
    if early:
        warnings.warn(EarlyImportWarning(early), stacklevel=stacklevel)


def _wanted_for(threads: Threads, areas: Mapping[str, bool]) -> dict[str, bool]:
    """The areas that this value decides. ValueError for another one, and without the locks that such threads wait for."""
    if threads not in ("os", "tasklets"):
        raise ValueError(f'install(): threads is "os" or "tasklets", not {threads!r}')
    if threads == "os":
        return {"threads": False}
    if not areas.get("locks", True):
        raise ValueError('install(): threads="tasklets" needs the locks of tasklets: leave out locks=False')
    return {"threads": True, "local": True, "pipes": True}


def uninstall() -> None:
    """Put back everything that install() has replaced, by identity.

    Objects that were made meanwhile stay what they are and go on working, and so do calls that wait. What another patch has
    replaced since is left as that made it. Nothing happens where nothing is in place. Thread-safe; does not switch.
    """
    with _lock:
        _take_out(list(_in_place))


@contextmanager
def patched(**options: Unpack[Options]) -> Iterator[None]:
    """`with patched():` install() with these arguments, and take out at the end the areas that were not in place before.

    For tests. The patch is of the process, not of the tasklet: others see it as well while the block lasts.
    """
    before = installed()
    _install(stacklevel=4, **options)
    try:
        yield
    finally:
        with _lock:
            _take_out([name for name in _in_place if name not in before])


def installed() -> frozenset[str]:
    """Return the names of the areas that are in place."""
    return frozenset(_in_place)


def status() -> Status:
    """Return what is in place, and which modules still hold what it has replaced. Looks through all modules: milliseconds."""
    with _lock:
        replacements = _replacements(list(_in_place))
        replaced = tuple(f"{_name_of(each.owner)}.{each.name}" for each in replacements)
        return Status(tuple(_in_place), replaced, found_early(replacements) if replacements else ())


def _put_in_place(areas: list[Area]) -> None:
    """All of them, or when one fails none."""
    done: list[str] = []
    try:
        for area in areas:
            changes = _in_place[area.name] = Changes()
            done.append(area.name)
            area.apply(changes)
    except BaseException:
        _take_out(done)
        raise


def _take_out(names: list[str]) -> None:
    for name in reversed(names):
        _in_place.pop(name).undo()


def _replacements(names: list[str]) -> list[Replacement]:
    return [replacement for name in names for replacement in _in_place[name].replacements]


def _name_of(owner: object) -> str:
    module, name = getattr(owner, "__module__", None), getattr(owner, "__qualname__", None)
    return f"{module}.{name}" if module and name else str(getattr(owner, "__name__", owner))


def _refuse_other_patches() -> None:
    """Two patches of one standard library would wait for each other's objects."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    saved: Mapping[str, object] = getattr(gevent, "saved", None) or {}
    already: Mapping[str, object] = getattr(eventlet, "already_patched", None) or {}
    for call, names in (("gevent.monkey.patch_all()", saved), ("eventlet.monkey_patch()", already)):
        if names:
            raise OtherPatch(
                f"{call} has replaced {', '.join(sorted(names))} already: leave that call out, or run the part of the program "
                "that needs it in a process of its own"
            )


class OtherPatch(RoamletError, RuntimeError):
    """The standard library is patched by gevent or eventlet already."""
