"""Where the parent has a module, its source and its neighbours; nothing is executed and no parent package is imported.

What modules import is in modules/imports/scan.py; which of them travel is decided in modules/imports/walk.py.
"""

import importlib.machinery
import importlib.util
import os
import sys
import tokenize
import zipfile
import zipimport
from collections.abc import Hashable, Iterable
from io import BytesIO
from types import ModuleType
from typing import Any, NamedTuple

from roamlet.remote.modules import main_script
from roamlet.remote.modules.bounded import Bounded
from roamlet.remote.modules.finding import standard
from roamlet.remote.modules.native.shared import Extension

_EXTENSION_SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)
_CODE_SUFFIXES = (".py", ".pyc", ".pyo")


class Location(NamedTuple):
    """A module that can travel. `origin` is the path of its source here; a namespace package has none.

    `stamp` changes when the source does, as far as the file system tells. `search` holds the places of a package's
    submodules. Equal locations have equal sources.
    """

    name: str
    is_package: bool
    origin: str | None
    stamp: Hashable
    search: tuple[str, ...] | None = None
    loader: Any = None
    """The loader that has the source, or None where `origin` is a plain file."""
    loads_as: str = ""
    """The name that `loader` knows the module by, when it is another one."""
    native: Extension | None = None
    """What travels in place of a source, for an extension module that can run on the target."""
    twin: "Location | None" = None
    """The Python file beside an extension module: it tells what the module imports."""
    compiled: "Missing | None" = None
    """The extension module that this Python file replaces, which is what the parent itself imports."""

    @property
    def is_namespace(self) -> bool:
        return self.is_package and self.origin is None and self.loader is None

    def read(self) -> bytes:
        """The source as it lies there, its coding cookie included; empty for a namespace package.

        Reads one file; thread-safe. Raises OSError when the file has gone since, ImportError when the loader refuses.
        """
        if self.native is not None:
            return self.native.announcement()
        if self.loader is None:
            if self.origin is None:
                return b""
            with open(self.origin, "rb") as file:
                return file.read()
        return _from_loader(self.loader, self.loads_as or self.name, self.origin)


class DataFile(NamedTuple):
    """A file in a package that is no code. `name` is "package/file name"."""

    name: str
    origin: str
    stamp: Hashable
    content: bytes | None = None
    """Of what is in no file but was found out here."""

    def read(self) -> bytes:
        """What is in it now. Raises OSError when it has gone."""
        if self.content is not None:
            return self.content
        if os.path.isfile(self.origin):
            with open(self.origin, "rb") as file:
                return file.read()
        importer = zipimport.zipimporter(os.path.dirname(self.origin))
        return importer.get_data(self.origin)


class Missing(NamedTuple):
    """A module that cannot travel. `reason` is empty when it cannot be found here either, or when only code can make it.

    `is_certain`: it is here, so code that imports it needs it, and fails on the target. `origin` and `search` are those of an
    extension module, which may still go to where its platform is (see modules/native/extensions.py).
    """

    name: str
    reason: str = ""
    is_certain: bool = False
    origin: str = ""
    search: tuple[str, ...] | None = None


class Listing(NamedTuple):
    """What lies in a package: submodules that could travel, those that cannot, and the paths of files that are no code."""

    submodules: frozenset[str]
    extensions: frozenset[str]
    files: dict[str, str]


_listings: Bounded[tuple[str, Hashable], Listing] = Bounded(2048)


def find(name: str) -> Location | Missing:
    """Where the parent has the module `name`, or why it cannot travel.

    What is loaded counts before what a new import would find. Imports nothing, so the finders of sys.meta_path are asked
    with the search path of the parent package, loaded or not. Reads no source, only asks for its time and size; thread-safe.
    """
    if name == main_script.TRAVELS_AS:
        return _find_main()
    if standard.stays_here(name):
        return Missing(name, standard.why_absent(name) if name.partition(".")[0] != standard.OWN else "")
    return _from_spec(name, spec_of(name))


def find_own(name: str) -> Location | Missing:
    """Like `find`, for a module of roamlet itself, which `find` leaves to the payload."""
    return _from_spec(name, spec_of(name))


def is_loaded(name: str) -> bool:
    """True when the parent has imported `name`: as itself, or as the script that was started by `python -m name`."""
    return sys.modules.get(name) is not None or name in (main_script.TRAVELS_AS, main_script.real_name())


def defines(name: str, attribute: str) -> bool:
    """True when the loaded module `name` has this attribute by itself; nothing is computed for the question."""
    namespace = _attribute(sys.modules.get(name), "__dict__")
    return isinstance(namespace, dict) and attribute in namespace


def exports(name: str) -> frozenset[str]:
    """What the loaded module `name` lists in `__all__`; nothing is computed for the question."""
    namespace = _attribute(sys.modules.get(name), "__dict__")
    listed = namespace.get("__all__") if isinstance(namespace, dict) else None
    return (
        frozenset(one for one in listed if isinstance(one, str)) if isinstance(listed, (list, tuple)) else frozenset()
    )


def real_name(name: str) -> str:
    """The name by which a loaded module was imported first: an entry of sys.modules may be an alias of another one."""
    spec = _own_spec(sys.modules.get(name))
    if spec is None or spec.name == name or _own_spec(sys.modules.get(spec.name)) is not spec:
        return name
    return spec.name if _renamed(name) is None else name


def replaced_by(name: str) -> str | None:
    """The name of the module that the loaded module `name` has put in its own place in sys.modules, or None."""
    spec = _own_spec(sys.modules.get(name))
    if spec is None or spec.name == name or _own_spec(sys.modules.get(spec.name)) is not spec or _renamed(name) is None:
        return None
    return spec.name


def spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module under exactly this name, or None. An alias in sys.modules has none of its own."""
    module = sys.modules.get(name)
    spec = _own_spec(module)
    if spec is not None:
        return spec if spec.name == name else _renamed(name)
    return _found_by_finders(name)


def _renamed(name: str) -> importlib.machinery.ModuleSpec | None:
    """What an import of `name` would execute, where sys.modules has a module of another name for it; None where only code can
    have put it there.

    setuptools._distutils is called distutils once it is imported, say; gevent._hub_local puts the compiled module in its own place.
    """
    file = _attribute(sys.modules.get(name), "__file__")
    spec = _found_by_finders(name) if isinstance(file, str) else None
    return spec if spec is not None and spec.has_location else None


def _found_by_finders(name: str) -> importlib.machinery.ModuleSpec | None:
    path: Iterable[str] | None = None
    parent = name.rpartition(".")[0]
    if parent:
        path = search_path(parent)
        if path is None:
            return None
    return _ask_finders(name, path)


def search_path(name: str) -> tuple[str, ...] | None:
    """Where the submodules of the package `name` are looked for; None when it is no package."""
    module = sys.modules.get(name)
    path = _attribute(module, "__path__")
    if path is None and (spec := spec_of(name)) is not None:
        path = spec.submodule_search_locations
    try:
        return None if path is None else tuple(entry for entry in path if isinstance(entry, str))
    except TypeError:  # a module object whose __getattr__ invents a __path__
        return None


def listing(location: Location) -> Listing | None:
    """All submodules that this package has here, or None when a place of it cannot be listed.

    Lists directories and zip archives, each again only when it changed; thread-safe.
    """
    names: set[str] = set()
    extensions: set[str] = set()
    files: dict[str, str] = {}
    for entry in location.search or ():
        one = _list_place(entry)
        if one is None:
            return None
        names |= one.submodules
        extensions |= one.extensions
        for file, path in one.files.items():
            files.setdefault(file, path)
    return Listing(frozenset(names), frozenset(extensions - names), files)


def top_level_names() -> frozenset[str]:
    """The top-level names that sys.path and sys.modules have here. What other finders than Python's own know is not in it."""
    names = {name for name in list(sys.modules) if "." not in name}
    for entry in list(sys.path):
        here = _list_place(entry or os.curdir) if isinstance(entry, str) else None
        if here is not None:
            names |= here.submodules
    return frozenset(names)


def changed_since(stamped: Iterable[tuple[str, Hashable]]) -> bool:
    """True when one of these paths no longer has the stamp that `stamp_of` gave for it."""
    return any(stamp_of(path) != stamp for path, stamp in stamped)


def stamp_of(path: str) -> Hashable:
    """The time and size of a file, of the archive that it is in, or None when it has neither."""
    try:
        status = os.stat(path)
    except NotADirectoryError:
        return stamp_of(os.path.dirname(path))
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size)


def size_of(stamp: Hashable) -> int:
    """The size in bytes of a file with this stamp; without a stamp it counts as empty."""
    return int(stamp[1]) if isinstance(stamp, tuple) else 0


def _find_main() -> Location | Missing:
    """The main script under the name that it has on the target."""
    module, problem = main_script.script()
    if module is None:
        return Missing(main_script.TRAVELS_AS, problem)
    spec = _own_spec(module)
    loader = spec.loader if spec is not None else _attribute(module, "__loader__")
    origin = _attribute(module, "__file__")
    if isinstance(origin, str) and os.path.isfile(origin):
        return Location(main_script.TRAVELS_AS, False, origin, (origin, stamp_of(origin)))
    if isinstance(origin, str) and hasattr(loader, "get_source"):
        stamp = (origin, stamp_of(origin))
        return Location(main_script.TRAVELS_AS, False, origin, stamp, loader=loader, loads_as="__main__")
    return Missing(main_script.TRAVELS_AS, f"the main script {origin} is no longer there")


def _from_spec(name: str, spec: importlib.machinery.ModuleSpec | None) -> Location | Missing:
    if spec is None:
        return _without_spec(name)
    search = spec.submodule_search_locations
    is_package = search is not None
    places = search_path(name) if is_package else None
    origin = spec.origin if spec.has_location else None
    loader: Any = spec.loader
    if is_package and origin is None and (loader is None or isinstance(loader, importlib.machinery.NamespaceLoader)):
        return Location(name, True, None, ("namespace", places), places)
    if isinstance(loader, importlib.machinery.ExtensionFileLoader) or (origin or "").endswith(_EXTENSION_SUFFIXES):
        return _beside_extension(name, is_package, origin or spec.origin or "", places)
    if origin is None or not origin.endswith((".py", ".pyw")):
        return _from_odd_loader(name, is_package, spec, places)
    stamp = stamp_of(origin)
    if stamp is None:
        return Missing(name, f"its source {origin} is no longer there")
    if os.path.isfile(origin):
        return Location(name, is_package, origin, (origin, stamp), places)
    return Location(name, is_package, origin, (origin, stamp), places, loader)


def _without_spec(name: str) -> Location | Missing:
    """A module that code put into sys.modules; its file is believed when it says where it is."""
    module = sys.modules.get(name)
    if module is None or _own_spec(module) is not None:
        return Missing(name)
    origin = _attribute(module, "__file__")
    if not isinstance(module, ModuleType) or not isinstance(origin, str) or not origin.endswith(".py"):
        return Missing(name)
    stamp = stamp_of(origin)
    if stamp is None or _attribute(module, "__name__") != name:
        return Missing(name)
    places = search_path(name)
    return Location(name, places is not None, origin, (origin, stamp), places)


def _beside_extension(name: str, is_package: bool, origin: str, places: tuple[str, ...] | None) -> Location | Missing:
    """An extension module, which is what Python imports; a Python file beside it (mypyc, Cython) can replace it.

    Whether it has to is decided in modules/native/extensions.py, for each target.
    """
    suffix = next((suffix for suffix in _EXTENSION_SUFFIXES if origin.endswith(suffix)), "")
    compiled = Missing(
        name,
        f"{name} is an extension module ({os.path.basename(origin)}), which cannot be sent: "
        f"it is built for one machine. Install {name.partition('.')[0]} on the target",
        True,
        origin,
        places if is_package else None,
    )
    twin = origin.removesuffix(suffix) + ".py"
    stamp = stamp_of(twin) if suffix else None
    if stamp is None:
        return compiled
    return Location(name, is_package, twin, (twin, stamp), places, compiled=compiled)


def _from_odd_loader(
    name: str, is_package: bool, spec: importlib.machinery.ModuleSpec, places: tuple[str, ...] | None
) -> Location | Missing:
    """Modules whose origin is no source file: only bytecode, made by code, or by a loader that has its own way."""
    loader: Any = spec.loader
    if isinstance(loader, importlib.machinery.SourcelessFileLoader):
        return Missing(name, f"{name} has no source here, only bytecode ({spec.origin})")
    if not hasattr(loader, "get_source"):
        return Missing(name)
    try:
        text = loader.get_source(name)
    except Exception as error:  # a foreign import hook: whatever it raises, this module has no source
        return Missing(name, f"{name} has no source here: its loader {type(loader).__name__} says {error!r}")
    if not isinstance(text, str):
        return Missing(name)
    return Location(name, is_package, spec.origin or f"<{name}>", ("text", hash(text), len(text)), places, loader)


def _from_loader(loader: Any, name: str, origin: str | None) -> bytes:
    """Source from a loader: raw where it gives bytes, otherwise encoded again the way its coding cookie says."""
    get_data = getattr(loader, "get_data", None)
    if get_data is not None and origin is not None and origin.endswith(".py"):
        try:
            return bytes(get_data(origin))
        except OSError:
            pass  # the loader knows the file by another path: its text will do
    text = loader.get_source(name)
    if text is None:
        raise ImportError(f"the loader {type(loader).__name__} has no source for {name}", name=name)
    data = str(text).encode("utf-8")
    encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
    return data if encoding.startswith("utf-8") else str(text).encode(encoding)


def _own_spec(module: object) -> importlib.machinery.ModuleSpec | None:
    spec = _attribute(module, "__spec__")
    return spec if isinstance(spec, importlib.machinery.ModuleSpec) else None


def _attribute(module: object, name: str) -> Any:
    """An attribute of something in sys.modules. It may be any object, and its __getattr__ may do anything."""
    if module is None:
        return None
    try:
        return getattr(module, name, None)
    except Exception:  # a foreign lazy module: it has no such attribute as far as we are concerned
        return None


def _ask_finders(name: str, path: Iterable[str] | None) -> importlib.machinery.ModuleSpec | None:
    for finder in list(sys.meta_path):
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is None:
            continue
        try:
            spec = find_spec(name, None if path is None else list(path), None)
        except Exception:  # a foreign import hook: for us it knows nothing of this module
            continue
        if isinstance(spec, importlib.machinery.ModuleSpec):
            return spec
    return _namespace_in(name, path) if path is not None and name.rpartition(".")[0] not in sys.modules else None


def _namespace_in(name: str, path: Iterable[str]) -> importlib.machinery.ModuleSpec | None:
    """The spec of a namespace package in a package that is not imported, which is what Python's own finder trips over."""
    portions = [os.path.join(entry, name.rpartition(".")[2]) for entry in path]
    portions = [place for place in portions if os.path.isdir(place)]
    if not portions:
        return None
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = portions
    return spec


def _list_place(entry: str) -> Listing | None:
    stamp = stamp_of(entry)
    if stamp is None:
        return None
    known = _listings.get((entry, stamp))
    if known is None:
        known = _list_directory(entry) if os.path.isdir(entry) else _list_archive(entry)
        if known is not None:
            _listings.put((entry, stamp), known)
    return known


def _list_directory(entry: str) -> Listing | None:
    names: set[str] = set()
    extensions: set[str] = set()
    files: dict[str, str] = {}
    try:
        with os.scandir(entry) as items:
            for item in items:
                stem, dot, suffix = item.name.partition(".")
                if item.name.endswith(".py") and suffix == "py":
                    names.add(stem)
                elif not dot and item.name.isidentifier() and item.name != "__pycache__" and item.is_dir():
                    names.add(item.name)  # without __init__.py it would be a namespace package
                elif dot and item.name.endswith(_EXTENSION_SUFFIXES):
                    extensions.add(stem)
                elif dot and not item.name.endswith(_CODE_SUFFIXES) and item.is_file():
                    files[item.name] = item.path
    except OSError:
        return None
    names.discard("__init__")
    return Listing(frozenset(names), frozenset(extensions - names), files)


def _list_archive(entry: str) -> Listing | None:
    try:
        importer = zipimport.zipimporter(entry)
        with zipfile.ZipFile(importer.archive) as archive:
            members = archive.namelist()
    except (ImportError, OSError, zipfile.BadZipFile):
        return None
    prefix = importer.prefix.replace(os.sep, "/")
    names: set[str] = set()
    files: dict[str, str] = {}
    for member in members:
        if not member.startswith(prefix):
            continue
        head, slash, _ = member[len(prefix) :].partition("/")
        if slash and head.isidentifier():
            names.add(head)
        elif head.endswith(".py"):
            names.add(head.removesuffix(".py"))
        elif head and not slash and not head.endswith(_CODE_SUFFIXES):
            files[head] = f"{entry}/{head}"
    names.discard("__init__")
    return Listing(frozenset(names), frozenset(), files)
