"""The files of a package that are no code, and what lies in its folders: answers to questions that a target asks.

Reads directories and zip archives here, and sends nothing. What may be read: the files of packages that can travel, below
the directories of the package itself; of namespace packages, which any directory may be, only those that the parent has
imported. No question leads out of a package.
"""

import os
import zipfile
import zipimport
from collections.abc import Collection, Hashable, Iterator

from roamlet.remote.modules.bounded import Bounded
from roamlet.remote.modules.finding.sources import Location, Missing, find, is_loaded, stamp_of
from roamlet.remote.modules.policy import Modules
from roamlet.wire import codec

LARGEST = 1 << 26
"""In bytes: a larger file is not given by a question; files are for context.put."""
MOST_ENTRIES = 5000
"""How much of a tree one answer tells; the folders beyond are named, and asked about in their turn."""
FIRST_FOLDER = 1 << 20
"""In bytes: how much of a folder goes along with the first file of it that is asked for."""
MORE_OF_FOLDER = 16 << 20
"""In bytes: the most that goes along with a later one."""
SMALL_TREE = 1 << 17
"""In bytes: so much data of a package goes along with the first file of it that is asked for, whatever its folder."""
LARGEST_LISTING = 1 << 18
"""In bytes before compression: a larger listing is asked for."""
_NO_DATA = (".pyc", ".pyo")
_CODE = (".py", ".pyi", ".pyx", ".pxd", ".pyc", ".pyo", ".so", ".c", ".cpp", ".h", ".hpp", ".f", ".f90", ".a", ".po")
_trees: Bounded[Hashable, dict[str, int]] = Bounded(256, lambda tree: 1 + len(tree) // 100)


def data_of(name: str, has: Collection[str], policy: Modules) -> bytes | None:
    """What lies at "package/path in it", or, for "package/path/", the listing of that folder; None when there is nothing.

    `has` are the top-level names that the target takes from itself. Never raises for a name that makes no sense.
    Thread-safe; blocks for the time of reading.
    """
    found = _place_of(name, has, policy)
    if found is None:
        return None
    location, parts = found
    if name.endswith("/"):
        try:
            return _listing(location.search or (), parts)
        except OSError:  # something was removed while it was looked at
            return None
    for place in location.search or ():
        data = _file_in(place, parts)
        if data is not None:
            return data
    return None


def beside(
    name: str, sent: Collection[str], has: Collection[str], policy: Modules, asked: Collection[str] = ()
) -> list[tuple[str, bytes]]:
    """What goes along with the answer about the file `name`: the other files of its folder, and the listing of its package.

    A package that reads one file of a folder reads others. They are at most FIRST_FOLDER bytes, and twice what has been sent of the
    folder when that was not enough; most alike first: those with the same ending, smaller ones before larger ones. Where a file of
    another folder was `asked` for before, or the package holds SMALL_TREE bytes at most, the files of its other folders follow.
    No code, nothing hidden, nothing of a namespace package, which any directory may be. As `data_of` otherwise.
    """
    found = _place_of(name, has, policy)
    if found is None or name.endswith("/") or found[0].is_namespace or name.endswith(_CODE):
        return []
    location, parts = found
    answers = []
    package = name.partition("/")[0]
    if (
        f"{package}/" not in sent
        and (listing := data_of(f"{package}/", has, policy))
        and len(listing) <= LARGEST_LISTING
    ):
        answers.append((f"{package}/", listing))
    folder, own = name.rpartition("/")[0], parts[-1]
    sizes: dict[str, int] = {}
    for place in location.search or ():
        for other, size in _files_in(place, parts[:-1]):
            sizes.setdefault(other, size)
    others = [one for one in sizes if one != own and not one.startswith(".") and not one.endswith(_CODE)]
    already = sum(sizes[one] for one in others if f"{folder}/{one}" in sent)
    left = min(max(FIRST_FOLDER, 2 * already), MORE_OF_FOLDER)
    ending = os.path.splitext(own)[1]
    ordered = sorted(others, key=lambda one: (os.path.splitext(one)[1] != ending, sizes[one], one))
    of_package = name[: -len("/".join(parts))]
    wide = _elsewhere(location, parts[:-1])
    if sum(wide.values()) <= SMALL_TREE or any(
        one.startswith(of_package) and one[-1] != "/" and one.rpartition("/")[0] != folder for one in asked
    ):
        ordered += sorted(
            (f"../{one}" for one in wide), key=lambda one: (os.path.splitext(one)[1] != ending, wide[one[3:]], one)
        )
        sizes.update((f"../{one}", size) for one, size in wide.items())
    for other in ordered:
        full = f"{of_package}{other[3:]}" if other.startswith("../") else f"{folder}/{other}"
        if full in sent or sizes[other] > left:
            continue
        data = data_of(full, has, policy)
        if data is not None:
            left -= len(data)
            answers.append((full, data))
    return answers


def _elsewhere(location: Location, parts: list[str]) -> dict[str, int]:
    """The data files of a package outside of one of its folders, as far as none of its subpackages has them: path -> size."""
    own = "/".join(parts)
    files = tree(location)
    packages: dict[str, bool] = {}
    for path in files:
        folder = path.rpartition("/")[0]
        while folder and folder not in packages:
            packages[folder] = any(os.path.exists(f"{place}/{folder}/__init__.py") for place in location.search or ())
            folder = folder.rpartition("/")[0]
    inner = tuple(f"{folder}/" for folder, is_package in packages.items() if is_package)
    return {path: size for path, size in files.items() if path.rpartition("/")[0] != own and not path.startswith(inner)}


def tree(location: Location) -> dict[str, int]:
    """The data files of a package at any depth: path in it -> size; no code, nothing hidden, at most MOST_ENTRIES.

    Remembered while the package's own directory stays as it is. Thread-safe.
    """
    places = tuple((place, stamp_of(place)) for place in location.search or ())
    return _trees.of(places, lambda: _tree(location.search or ()))


def _tree(places: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for place in places:
        entries = _entries(place, []) if os.path.isdir(place) else _entries_in_archive(place, [])
        for path, size in entries:
            if not path.endswith(("/", *_CODE)) and not any(part.startswith(".") for part in path.split("/")):
                found.setdefault(path, size)
    return found


def _place_of(name: str, has: Collection[str], policy: Modules) -> tuple[Location, list[str]] | None:
    """The package that a name leads into and the parts of the path in it, or None for what may not be read."""
    package, _, path = name.partition("/")
    parts = path.rstrip("/").split("/") if path.rstrip("/") else []
    if not parts and not name.endswith("/"):
        return None
    if any(part in ("", ".", "..") or "\0" in part for part in parts) or package.partition(".")[0] in has:
        return None
    location = find(package)
    # A package that is an extension module has files, too.
    if isinstance(location, Missing) and location.search is not None:
        location = Location(package, True, location.origin, None, location.search)
    if not isinstance(location, Location) or not location.is_package or policy.refusal(package):
        return None
    if location.is_namespace and (not is_loaded(package) or any(part.startswith(".") for part in parts)):
        return None
    return location, parts


def _files_in(place: str, parts: list[str]) -> list[tuple[str, int]]:
    """The plain files of one folder and their sizes; none when it cannot be read."""
    folder = os.path.join(place, *parts)
    if not os.path.isdir(folder):
        return [(path, size) for path, size in _entries_in_archive(place, parts) if "/" not in path]
    try:
        with os.scandir(folder) as items:
            return [(item.name, item.stat().st_size) for item in items if _is_text(item.name) and item.is_file()]
    except OSError:
        return []


def _file_in(place: str, parts: list[str]) -> bytes | None:
    if parts[-1].endswith(_NO_DATA):
        return None
    if os.path.isdir(place):
        path = os.path.join(place, *parts)
        try:
            if not os.path.isfile(path) or os.stat(path).st_size > LARGEST:
                return None
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None
    archive, prefix = _archive(place)
    if archive is None:
        return None
    try:
        with zipfile.ZipFile(archive) as opened:
            information = opened.getinfo(prefix + "/".join(parts))
            return None if information.file_size > LARGEST else opened.read(information)
    except (KeyError, OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return None


def _listing(places: Collection[str], parts: list[str]) -> bytes | None:
    """Paths, sizes and the folders left out, as roamlet.wire.modules.resources reads them; merged where several places have one."""
    found: dict[str, int] = {}
    unlisted: list[str] = []
    is_there = False
    for place in places:
        folder = os.path.join(place, *parts)
        if os.path.isdir(folder):
            is_there = True
            entries = _entries(folder, unlisted)
        else:
            entries = _entries_in_archive(place, parts)
        for path, size in entries:
            found.setdefault(path, size)
    if not found and not is_there:
        return None
    data: bytes = codec.dumps((list(found), list(found.values()), unlisted))
    return data


def _entries(folder: str, unlisted: list[str]) -> Iterator[tuple[str, int]]:
    """Everything below a directory, level by level: (path, size), a folder's path ends in "/"."""
    count = 0
    level = [""]
    while level:
        deeper: list[str] = []
        for head in level:
            if count >= MOST_ENTRIES:
                unlisted.append(head)
                continue
            try:
                with os.scandir(os.path.join(folder, head)) as items:
                    inside = sorted(items, key=lambda item: item.name)
            except OSError:
                continue
            for item in inside:
                if item.name == "__pycache__" or item.name.endswith(_NO_DATA) or not _is_text(item.name):
                    continue
                count += 1
                if item.is_dir():
                    yield f"{head}{item.name}/", 0
                    if head.count("/") < 32:  # a link to a folder above would go on for ever
                        deeper.append(f"{head}{item.name}/")
                elif item.is_file():
                    yield head + item.name, item.stat().st_size
        level = deeper


def _entries_in_archive(place: str, parts: list[str]) -> Iterator[tuple[str, int]]:
    archive, prefix = _archive(place)
    if archive is None:
        return
    prefix += "".join(part + "/" for part in parts)
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
    except (OSError, zipfile.BadZipFile):
        return
    folders: set[str] = set()
    for member in members:
        if not member.filename.startswith(prefix) or member.filename.endswith(_NO_DATA):
            continue
        path = member.filename[len(prefix) :]
        at = path.find("/")
        while at >= 0:
            if path[: at + 1] not in folders:
                folders.add(path[: at + 1])
                yield path[: at + 1], 0
            at = path.find("/", at + 1)
        if path and not path.endswith("/"):
            yield path, member.file_size


def _archive(place: str) -> tuple[str | None, str]:
    """The zip archive that a place of sys.path or of a package lies in, and the place's path inside, which ends in "/"."""
    try:
        importer = zipimport.zipimporter(place)
    except (ImportError, OSError):
        return None, ""
    return importer.archive, importer.prefix.replace(os.sep, "/")


def _is_text(name: str) -> bool:
    """False for a name whose bytes are no text: it could not be asked for."""
    return name.isprintable()
