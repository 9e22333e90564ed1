"""Modules that go along with the answer to a question, because earlier questions were about modules like them.

Packages that find their modules by listing folders, or by names that come with a call, cannot be foreseen. The second
question for a module of one package brings more of that package, and the second for the same name in two packages side by side
(a language, say) brings that name from the others. What goes along is bounded by what was asked for.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from roamlet.remote.modules.finding import standard
from roamlet.remote.modules.finding.sources import Location, find, listing, size_of, stamp_of

LEAST = 16 << 10
"""In bytes of sources: how much goes along with the second question."""
MOST = 1 << 20


class Companions(NamedTuple):
    """Modules that may go along, the smallest first, as long as their sources and those that they need take `most` bytes."""

    names: tuple[str, ...] = ()
    most: int = 0


NO_COMPANIONS = Companions()


def companions(name: str, asked: Collection[str], sent: Collection[str]) -> Companions:
    """The modules that may go along with `name`, where modules of the names `asked` were asked for before.

    They may take twice the bytes of what was asked for, or LEAST. No extension modules, nothing that was `sent`. Thread-safe.
    """
    relatives = [one for one in asked if one != name and _is_module(one)]
    if "." not in name or standard.stays_here(name):
        return NO_COMPANIONS
    candidates = dict.fromkeys((*_beside(name, relatives), *_alike(name, relatives)))
    sizes = {one: size for one in candidates if one != name and one not in sent and (size := _size(one)) is not None}
    most = min(max(LEAST, 2 * sum(_size(one) or 0 for one in relatives)), MOST)
    return Companions(tuple(sorted(sizes, key=lambda one: (sizes[one], one))), most) if sizes else NO_COMPANIONS


def _is_module(name: str) -> bool:
    return "/" not in name and name[:1] not in ("@", "!")


def _size(name: str) -> int | None:
    """The bytes of a module's source; None for what does not travel as a source."""
    location = find(name)
    if not isinstance(location, Location) or location.compiled is not None or location.origin is None:
        return None
    return size_of(stamp_of(location.origin))


def _submodules(package: str) -> frozenset[str]:
    location = find(package)
    here = listing(location) if isinstance(location, Location) and location.is_package else None
    return here.submodules if here is not None else frozenset()


def _beside(name: str, asked: list[str]) -> Iterator[str]:
    """All modules of a package of which another one was asked for."""
    package = name.rpartition(".")[0]
    if any(one.rpartition(".")[0] == package for one in asked):
        for short in _submodules(package):
            yield f"{package}.{short}"


def _alike(name: str, asked: list[str]) -> Iterator[str]:
    """The modules of the same name in the packages beside this one's, when one of those was asked for."""
    package, _, last = name.rpartition(".")
    outer = package.rpartition(".")[0]
    if outer and any(
        one.rpartition(".")[2] == last and one.rpartition(".")[0].rpartition(".")[0] == outer for one in asked
    ):
        for short in _submodules(outer):
            if last in _submodules(f"{outer}.{short}"):
                yield f"{outer}.{short}.{last}"
