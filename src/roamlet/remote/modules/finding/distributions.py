"""What a target is told about the distributions that modules come from: answers to "@...", see roamlet.wire.modules.metadata.

Only distributions of which at least one module may travel are told about; nothing else of an installation is read.
"""

import os
import re
import sys
from collections.abc import Collection, Hashable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from roamlet.remote.modules.bounded import Bounded
from roamlet.remote.modules.finding import standard
from roamlet.remote.modules.finding.sources import Location, stamp_of
from roamlet.remote.modules.policy import Modules
from roamlet.wire import codec

if TYPE_CHECKING:
    from importlib.metadata import Distribution

ALL = "@"
MOST_BESIDE = 1 << 20
"""In bytes: how much of the metadata of other distributions goes along with an answer."""
PRIVATE = "direct_url.json"  # where it was installed from, which may hold a password
_tops: Bounded[tuple[str, Hashable], frozenset[str]] = Bounded(1024)
_owners: Bounded[Hashable, dict[str, list[str]]] = Bounded(1)


def _metadata() -> ModuleType:
    import importlib.metadata  # here: it imports email and csv, a tenth of a program's start, and few programs come here

    return importlib.metadata


def answer(name: str, has: Collection[str], policy: Modules) -> bytes | None:
    """The bytes for "@", "@name/file", "@name/" or "@name/@"; None when there is nothing to tell. Never raises."""
    try:
        return _answer(name, has, policy)
    except Exception:  # any tool may have written the metadata: what cannot be read is not there
        return None


def _answer(name: str, has: Collection[str], policy: Modules) -> bytes | None:
    data: bytes
    if name == ALL:
        return index(has, policy)[0]
    key, slash, file = name[1:].partition("/")
    if not slash or not re.fullmatch(r"[a-z0-9-]+", key) or re.search(r"(^|/)\.\.?(/|$)|^/|\0", file):
        return None
    distribution = _metadata().distribution(key)
    if not _may_travel(distribution, has, policy):
        return None
    folder = getattr(distribution, "_path", None)
    if file == "@":
        data = codec.dumps((str(distribution.locate_file("")), str(folder)))
        return data
    if not file:
        files = [one for one in folder.iterdir() if one.is_file()] if folder is not None else []
        data = codec.dumps(([one.name for one in files], [one.stat().st_size for one in files], []))
        return data
    text = None if file == PRIVATE else distribution.read_text(file)
    return None if text is None else text.encode("utf-8")


def beside(
    name: str, sent: Collection[str], has: Collection[str], policy: Modules, asked: Collection[str]
) -> list[tuple[str, bytes]]:
    """What goes along with "@name/file": that file of the other distributions, when it was `asked` for of another one.

    Code that walks through all distributions (dask) asks for each. MOST_BESIDE bytes at most. Never raises.
    """
    file = name.partition("/")[2]
    if not file or not any(one[:1] == "@" and one != name and one.partition("/")[2] == file for one in asked):
        return []
    found: dict[str, bytes] = {}
    left = MOST_BESIDE
    for one in _metadata().distributions():
        try:
            other = f"@{normal(one.metadata['Name'])}/{file}"
        except Exception:  # as above
            continue
        data = None if other == name or other in sent or other in found else answer(other, has, policy)
        if data is not None and len(data) <= left:
            left -= len(data)
            found[other] = data
    return list(found.items())


def index(has: Collection[str], policy: Modules) -> tuple[bytes, set[str]]:
    """The bytes for "@", and the top-level names about which `has` was consulted. What cannot be read is left out."""
    found: dict[str, tuple[str, str, str]] = {}
    tops: set[str] = set()
    for one in _metadata().distributions():
        try:
            tops |= _tops_of(one)
            if _may_travel(one, has, policy):
                entry = (one.metadata["Name"], one.version, one.read_text("entry_points.txt") or "")
                found.setdefault(normal(entry[0]), entry)
        except Exception:  # as above
            continue
    data: bytes = codec.dumps(list(found.values()))
    return data, tops


def owners_of(top: str) -> list[tuple[str, str]]:
    """The metadata files that say who a top-level package belongs to: (name in a bundle, path), for those with a folder."""
    owners = _owners.of(tuple((entry, stamp_of(entry)) for entry in sys.path), _all_owners)
    found = []
    for name in owners.get(top, ()):
        try:
            folder = getattr(_metadata().distribution(name), "_path", None)
        except _metadata().PackageNotFoundError:
            continue
        if folder is not None:
            files = [file for file in ("METADATA", "entry_points.txt") if (folder / file).is_file()]
            found += [(f"@{normal(name)}/{file}", str(folder / file)) for file in files]
    return found


def _all_owners() -> dict[str, list[str]]:
    try:
        return {package: list(names) for package, names in _metadata().packages_distributions().items()}
    except Exception:  # as above
        return {}


def places_of(top: str) -> list[tuple[str, bytes]]:
    """For each distribution that a top-level package belongs to its name in questions and the answer to "@name/@"."""
    found = []
    for name in dict.fromkeys(normal(one.partition("/")[0][1:]) for one, _ in owners_of(top)):
        distribution = _metadata().distribution(name)
        place: bytes = codec.dumps((str(distribution.locate_file("")), str(getattr(distribution, "_path", ""))))
        found.append((name, place))
    return found


def is_installed(package: Location) -> bool:
    """True when a distribution beside this top-level package says that it has it: not for a package in a user's own folder."""
    for place in package.search or ():
        folder = os.path.dirname(place)
        try:
            names = [name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info"))]
            found = (_metadata().PathDistribution(Path(folder, name)) for name in names)
            if any(package.name in _tops_of(one) for one in found):
                return True
        except (OSError, ValueError):
            continue
    return False


def entered_by(groups: Collection[str]) -> set[str]:
    """The modules of the entry points in these groups; whether they may travel is for the caller to see."""
    found: set[str] = set()
    for one in _metadata().distributions():
        try:
            found.update(entry.module for entry in one.entry_points if entry.group in groups)
        except Exception:  # as above
            continue
    return found


def versions_of(top: str) -> set[str]:
    """The versions of the distributions that a top-level package here belongs to."""
    names = _metadata().packages_distributions().get(top, ())
    return {_metadata().version(name) for name in names}


def owner_of(path: str) -> tuple[str, str]:
    """The path of a source below its place of sys.path, and the distribution that it belongs to ("Django 5.2.1"), or "".

    Nothing at the path itself is read. Takes some 100 ms where many distributions are installed. Never raises.
    """
    places = [
        place for place in sys.path if isinstance(place, str) and place and path.startswith(place.rstrip("/") + "/")
    ]
    file = path[len(max(places, key=len).rstrip("/")) + 1 :] if places else os.path.basename(path)
    try:
        names = _metadata().packages_distributions().get(file.partition("/")[0].removesuffix(".py"), ())
        owners = [_metadata().distribution(name) for name in dict.fromkeys(names)]
        if len(owners) > 1:
            owners = [one for one in owners if any(str(its) == file for its in one.files or ())]
        return file, f"{owners[0].metadata['Name']} {owners[0].version}" if owners else ""
    except Exception:  # as above
        return file, ""


def oldest_python(path: str) -> tuple[int, int] | None:
    """The oldest Python that the abi3 extension module at `path` was built for; None when nothing tells.

    What tells is the tag of the wheel that it was installed from: cp39-abi3-... is for 3.9 and later.
    """
    try:
        for distribution in _metadata().distributions(path=[str(place) for place in Path(path).parents]):
            tags = re.findall(r"^Tag: *cp3(\d{1,3})-abi3-", distribution.read_text("WHEEL") or "", re.MULTILINE)
            files = [file for file in distribution.files or () if file.name == Path(path).name] if tags else []
            if any(os.path.realpath(str(distribution.locate_file(file))) == os.path.realpath(path) for file in files):
                return 3, min(map(int, tags))
    except Exception:  # as above
        return None
    return None


def normal(name: str) -> str:
    """The name of a distribution as questions spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _may_travel(distribution: "Distribution", has: Collection[str], policy: Modules) -> bool:
    tops = _tops_of(distribution)
    if normal(distribution.metadata["Name"]) == standard.OWN:
        return False  # targets have the payload in its place, although modules beside the package may be sent
    return any(not standard.stays_here(top) and top not in has and not policy.refusal(top) for top in tops)


def _tops_of(distribution: "Distribution") -> frozenset[str]:
    place = str(getattr(distribution, "_path", ""))
    if not place:
        return _top_level(distribution)
    return _tops.of((place, stamp_of(place)), lambda: _top_level(distribution))


def _top_level(distribution: "Distribution") -> frozenset[str]:
    declared = (distribution.read_text("top_level.txt") or "").split()
    if declared:
        return frozenset(declared)
    tops = set()
    for file in distribution.files or ():
        top = file.parts[0]
        if file.suffix == ".py" or (len(file.parts) > 1 and top.isidentifier()):
            tops.add(top.partition(".")[0])
    return frozenset(top for top in tops if top.isidentifier() and top != "__pycache__")
