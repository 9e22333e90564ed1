"""What a module imports, by absolute names; remembered until its source changes.

Nothing is executed: the code comes from a valid .pyc file, or the source is compiled here.
"""

import ast
import importlib.util
import marshal
import os
import warnings
from collections.abc import Hashable, Iterable, Iterator
from types import CodeType
from typing import NamedTuple

from roamlet.remote.modules.bounded import Bounded
from roamlet.remote.modules.finding.sources import Location
from roamlet.remote.modules.imports import bytecode


class Import(NamedTuple):
    """`from base import names`, made absolute; `import base` has no names. `names` may be ("*",)."""

    base: str
    names: tuple[str, ...] = ()


class Imports(NamedTuple):
    """The imports of one module, each once, in the order in which they are written: bytecode.Found with absolute names.

    `files` are names of files that the code may read with importlib.resources or its like; `reads_files`: it imports one of those.
    `asks_metadata`: it asks importlib.metadata while it is imported; `asks_metadata_inside`: a function of it does; `asks_all`:
    perhaps later, about all distributions; `asks_all_inside`: the same where only a function imports it; `starts_processes`: it
    imports what starts Pythons.
    """

    at_import: tuple[Import, ...] = ()
    inside: tuple[Import, ...] = ()
    named_at_import: tuple[str, ...] = ()
    named_inside: tuple[str, ...] = ()
    exported: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    by_name: bool = False
    reads_files: bool = False
    asks_metadata: bool = False
    asks_metadata_inside: bool = False
    asks_all: bool = False
    asks_all_inside: bool = False
    starts_processes: bool = False
    words: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    knows_file: bool = False
    changes_path: bool = False
    stars: bool = False
    problem: str = ""
    """Why nothing is known: the source does not compile here."""


_NOTHING = Imports()
_READERS_OF_FILES = frozenset(("importlib.resources", "importlib_resources", "pkgutil", "pkg_resources"))
_known: Bounded[str, tuple[Hashable, Imports]] = Bounded(4096)


def scan(location: Location) -> Imports:
    """The imports of a module. Thread-safe; reads and perhaps compiles its source the first time, then remembers.

    A source that does not compile on this Python has no known imports, and `problem` says why: it may still be right
    for the target's Python, so it travels all the same. An extension module is taken to import what the Python file beside it does.
    """
    if location.native is not None:
        return scan(location.twin) if location.twin is not None else _NOTHING
    if location.is_namespace:
        return _NOTHING
    known = _known.get(location.name)
    if known is not None and known[0] == location.stamp:
        return known[1]
    try:
        result = resolve(bytecode.imports(code_of(location)), location.name, location.is_package)
    except (SyntaxError, ValueError, OSError, ImportError, RecursionError) as error:
        result = Imports(problem=f"{type(error).__name__}: {error}")
    _known.put(location.name, (location.stamp, result))
    return result


def scan_certain(location: Location) -> list[Import]:
    """The imports that run whenever the module is imported: at its own level, in no condition, loop or `try`.

    From the syntax tree, as bytecode does not show what an `else` belongs to. Not remembered: it is asked about few modules.
    """
    if location.native is not None:
        return []
    try:
        tree = ast.parse(location.read())
    except (SyntaxError, ValueError, OSError, ImportError, RecursionError):
        return []
    statements: list[bytecode.Statement] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            statements += [bytecode.Statement(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            statements.append(bytecode.Statement(node.level, node.module or "", names))
    return list(_absolute(statements, location.name if location.is_package else location.name.rpartition(".")[0]))


def prefixes(name: str) -> Iterator[str]:
    """The packages that a module lies in, outermost first, then itself."""
    at = name.find(".")
    while at >= 0:
        yield name[:at]
        at = name.find(".", at + 1)
    yield name


def scan_functions(codes: Iterable[CodeType], module: str, is_package: bool) -> Imports:
    """The imports of functions that are about to be called, all as `at_import`. Not remembered: these are small scans."""
    found = bytecode.Found()
    for code in codes:
        bytecode.add_function(code, found)
    return resolve(found, module, is_package)


def words_of(code: CodeType) -> Iterator[str]:
    """The strings of a function that could name a module, a file or a folder."""
    return bytecode.words(code)


def resolve(found: bytecode.Found, module: str, is_package: bool) -> Imports:
    """Make relative names absolute; one that leads out of the top-level package is left out, as it can only fail."""
    package = module if is_package else module.rpartition(".")[0]
    at_import = tuple(dict.fromkeys(_absolute(found.at_import, package)))
    inside = tuple(dict.fromkeys(_absolute(found.inside, package)))
    reads_files = any(map(_gives_files, (*at_import, *inside)))
    return Imports(
        at_import,
        tuple(one for one in inside if one not in at_import),
        tuple(sorted(_absolute_names(found.named_at_import, package))),
        tuple(sorted(_absolute_names(found.named_inside, package))),
        frozenset(found.exported),
        frozenset(found.files if reads_files else ()),
        found.by_name,
        reads_files,
        found.asks_version,
        found.asks_version_inside,
        found.asks_all and any(map(_gives_metadata, at_import)),
        found.asks_all and any(map(_gives_metadata, inside)),
        any(map(_gives_processes, (*at_import, *inside))),
        frozenset(found.words),
        frozenset(found.optional),
        found.knows_file,
        found.changes_path,
        found.stars,
    )


def code_of(location: Location) -> CodeType:
    """The code object of a module: from its .pyc file if that is valid, otherwise compiled, which takes far longer."""
    if location.loader is None and location.origin is not None:
        code = _cached_code(location.origin)
        if code is not None:
            return code
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the module's author is told when it is imported
        return compile(location.read(), location.origin or f"<{location.name}>", "exec", dont_inherit=True)


def _gives_files(one: Import) -> bool:
    """True for an import of what reads a package's data files, wherever the package is; `open` could not do that on the target."""
    return one.base in _READERS_OF_FILES or (one.base == "importlib" and "resources" in one.names)


def _gives_metadata(one: Import) -> bool:
    return one.base in ("importlib.metadata", "importlib_metadata") or (
        one.base == "importlib" and "metadata" in one.names
    )


def _gives_processes(one: Import) -> bool:
    return one.base.partition(".")[0] == "multiprocessing" or (
        one.base.startswith("concurrent.futures") and one.names != ("ThreadPoolExecutor",)
    )


def bytecode_of(location: Location) -> bytes | None:
    """The marshalled code of a module, for a Python like this one; None when its source does not compile."""
    if location.loader is None and location.origin is not None:
        data = _cached_bytes(location.origin)
        if data is not None:
            return data
    try:
        return marshal.dumps(code_of(location))
    except (SyntaxError, ValueError, OSError, ImportError, RecursionError):
        return None


def _cached_code(origin: str) -> CodeType | None:
    data = _cached_bytes(origin)
    if data is None:
        return None
    try:
        code = marshal.loads(data)
    except (ValueError, EOFError, TypeError):
        return None
    return code if isinstance(code, CodeType) else None


def _cached_bytes(origin: str) -> bytes | None:
    """What a valid .pyc beside the source holds; the rules of validity are PEP 552's and importlib's."""
    try:
        with open(importlib.util.cache_from_source(origin), "rb") as file:
            data = file.read()
        status = os.stat(origin)
    except (OSError, NotImplementedError):
        return None
    if len(data) < 16 or data[:4] != importlib.util.MAGIC_NUMBER:
        return None
    flags = int.from_bytes(data[4:8], "little")
    if flags == 0:
        time, size = int.from_bytes(data[8:12], "little"), int.from_bytes(data[12:16], "little")
        valid = time == int(status.st_mtime) & 0xFFFFFFFF and size == status.st_size & 0xFFFFFFFF
    elif flags == 0b11:
        with open(origin, "rb") as file:
            valid = importlib.util.source_hash(file.read()) == data[8:16]
    else:
        valid = flags == 0b01
    return data[16:] if valid else None


def _absolute(statements: Iterable[bytecode.Statement], package: str) -> Iterable[Import]:
    for one in statements:
        base = one.module
        if one.level:
            parts = package.split(".") if package else []
            keep = len(parts) - (one.level - 1)
            if keep <= 0:
                continue
            base = ".".join([*parts[:keep], *filter(None, [one.module])])
        yield Import(base, one.names)


def _absolute_names(names: Iterable[str], package: str) -> Iterable[str]:
    for name in names:
        stripped = name.lstrip(".")
        if stripped == name:
            yield name
            continue
        for one in _absolute([bytecode.Statement(len(name) - len(stripped), stripped, ())], package):
            yield one.base
