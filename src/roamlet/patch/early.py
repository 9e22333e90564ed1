"""What was imported too early: places outside of the standard library that hold an original which install() has replaced since.

Found are names of modules and of their classes, subclasses, default arguments, and objects that were made: sockets, locks, queues.
Not found is what no module leads to: the local variable of a function that runs, for instance.
"""

import ast
import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

from roamlet.core import RoamletError
from roamlet.patch.changes import Replacement

Kind = Literal["name", "subclass", "default", "object"]

_KINDS: Mapping[Kind, str] = {
    "name": "is the original {}",
    "subclass": "is derived from the original {}",
    "default": "has the original {} as the default of an argument",
    "object": "was made by the original {}",
}

# What threading's locks are, whose classes have no name there before 3.13.
_LOCKS = {
    type(sys.modules["_thread"].allocate_lock()): "threading.Lock",
    type(sys.modules["_thread"].RLock()): "threading.RLock",
}

# So many packages at most lie between a place and the program's import.
_MOST_STEPS = 8


class Early(NamedTuple):
    """One place that holds an original of the standard library, or what was made of one."""

    module: str
    name: str
    """As the module has it: "Session.lock" is the attribute of a class. A socket that no module has is "a socket"."""
    kind: Kind
    original: str
    """Of the standard library: "socket.socket"."""
    place: str
    """FILE:LINE, or the file alone, or the module where it has no file."""
    move: str
    """The import in the program's own file that led to it, as FILE:LINE; "" where none is found."""
    through: str = ""
    """What that line imports: the module, or the package that imports the module in turn."""

    def __str__(self) -> str:
        text = f"{self.place}: {self.name} {_KINDS[self.kind].format(self.original)}"
        if self.move == self.place:
            return f"{text}: move this line after roamlet.patch.install()"
        return f"{text}: move {self.move}, which imports {self.through}, after it" if self.move else text


def _message(early: Sequence[Early]) -> str:
    places = "\n".join(f"    {each}" for each in early)
    return (
        f"{len(early)} place{'s' * (len(early) > 1)} took from the standard library what roamlet.patch.install() replaces, before "
        f"it was called; what is done with it blocks the whole thread. Call it first of all in the program, or start the "
        f"program by `python -m roamlet.patch`:\n{places}"
    )


class EarlyImportWarning(RuntimeWarning):
    """Modules hold originals of the standard library, `early`: what they do with them blocks the thread."""

    def __init__(self, early: Sequence[Early]) -> None:
        super().__init__(_message(early))
        self.early: tuple[Early, ...] = tuple(early)


class EarlyImport(RoamletError, RuntimeError):
    """The same, where install() was told to be strict."""

    def __init__(self, early: Sequence[Early]) -> None:
        super().__init__(_message(early))
        self.early: tuple[Early, ...] = tuple(early)


def found_early(replacements: Sequence[Replacement]) -> tuple[Early, ...]:
    """Return the places that hold an original of these, or what was made of one, sorted by module and name."""
    # A module may have several names, requests.packages.urllib3 for instance.
    modules = {id(module): module for name, module in list(sys.modules.items()) if _is_searched(name, module)}
    found = _Originals(replacements, _Ways(list(modules.values())))
    places = [early for module in modules.values() for early in found.held_by(module.__name__, module)]
    places.sort()
    places += found.other_sockets()
    return tuple(places)


def _is_searched(name: str, module: object) -> bool:
    """Of the standard library and of roamlet it is known what they hold; the areas see to it."""
    root = name.partition(".")[0]
    return isinstance(module, ModuleType) and root not in sys.stdlib_module_names and root != "roamlet"


class _Originals:
    """What was replaced, found by identity."""

    def __init__(self, replacements: Sequence[Replacement], ways: "_Ways") -> None:
        self._ways = ways
        self._names: dict[int, str] = {}
        self._classes: dict[type, str] = {}
        self._ours: list[type] = []
        self._sockets: set[int] = set()
        self._locks: dict[type, str] = {}
        for owner, name, original, value in replacements:
            known = f"{getattr(owner, '__name__', owner)}.{name}"
            if not isinstance(owner, ModuleType) or not callable(original):
                continue
            self._names[id(original)] = known
            if isinstance(original, type):
                self._classes[original] = known
            if isinstance(value, type):
                self._ours.append(value)
            self._locks.update({kind: lock for kind, lock in _LOCKS.items() if lock == known})

    def held_by(self, name: str, module: ModuleType) -> Iterator[Early]:
        """What this module holds."""
        source: _Source | None = None
        for attribute, value in list(vars(module).items()):
            for inner, kind, original in self._what(name, attribute, value):
                source = source or _Source(module)
                place = source.place_of(inner)
                move, through = (place, name) if name == "__main__" else self._ways.to(name)
                yield Early(name, inner, kind, original, place, move, through)

    def other_sockets(self) -> Iterator[Early]:
        """Open sockets of the original class, wherever they are."""
        for kind, original in self._classes.items():
            if original != "socket.socket":
                continue
            for each in gc.get_objects():
                if not isinstance(each, kind) or isinstance(each, tuple(self._ours)) or id(each) in self._sockets:
                    continue
                if each.fileno() >= 0:  # type: ignore[attr-defined] # a socket
                    yield Early("", f"a socket, {each!r},", "object", original, type(each).__module__, "")

    def _what(self, module: str, attribute: str, value: Any) -> Iterator[tuple[str, Kind, str]]:
        if id(value) in self._names:
            yield attribute, "name", self._names[id(value)]
        elif isinstance(value, type):
            if value.__module__ == module:
                yield from self._in_class(attribute, value)
        elif isinstance(value, FunctionType):
            if value.__module__ == module:
                yield from self._in_defaults(attribute, value)
        elif (original := self._made_of(value)) is not None:
            yield attribute, "object", original

    def _in_class(self, name: str, kind: type) -> Iterator[tuple[str, Kind, str]]:
        if not issubclass(kind, tuple(self._ours)):
            for base in kind.__mro__[1:]:
                if base in self._classes:
                    yield name, "subclass", self._classes[base]
                    break
        for attribute, value in list(vars(kind).items()):
            plain = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            inner = f"{name}.{attribute}"
            if id(plain) in self._names:
                yield inner, "name", self._names[id(plain)]
            elif isinstance(plain, FunctionType):
                yield from self._in_defaults(inner, plain)
            elif (original := self._made_of(plain)) is not None:
                yield inner, "object", original

    def _in_defaults(self, name: str, function: FunctionType) -> Iterator[tuple[str, Kind, str]]:
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            if id(value) in self._names:
                yield name, "default", self._names[id(value)]

    def _made_of(self, value: object) -> str | None:
        """The name of the original that has made this object."""
        kind = type(value)
        if kind in self._locks:
            return self._locks[kind]
        if not isinstance(value, tuple(self._ours)):
            for base in kind.__mro__:
                if base in self._classes:
                    self._sockets.add(id(value))
                    return self._classes[base]
        return None


class _Ways:
    """The imports by which the program came to a module: from its own file through other packages."""

    def __init__(self, modules: Sequence[ModuleType]) -> None:
        self._modules = modules
        self._found: dict[str, tuple[str, str]] = {}
        self._importers: dict[str, set[str]] | None = None
        self._sources: list[_Source] | None = None

    def to(self, name: str) -> tuple[str, str]:
        """The line of the program's own file that is to move, and what it imports; two "" where none is found.

        The main script's line if any leads there, else one of another module outside of site-packages.
        """
        package = _package(name)
        if package not in self._found:
            self._found[package] = self._outermost(package)
        move, through = self._found[package]
        return move, name if through == package else through

    def _outermost(self, package: str) -> tuple[str, str]:
        main, own = self._programs()
        seen, now = {package}, [package]
        nearest = ("", "")
        for _ in range(_MOST_STEPS):
            for each in now:
                if main is not None and (line := main.import_of(each)):
                    return line, each
                for source in own if nearest == ("", "") else ():
                    if _package(source.name) != each and (line := source.import_of(each)):
                        nearest = (line, each)
                        break
            now = sorted({importer for each in now for importer in self._importers_of(each)} - seen)
            seen.update(now)
        return nearest

    def _programs(self) -> "tuple[_Source | None, list[_Source]]":
        """The main script, and the program's other files."""
        if self._sources is None:
            self._sources = [_Source(each) for each in self._modules if _is_own(each)]
        main = next((each for each in self._sources if each.name == "__main__"), None)
        return main, [each for each in self._sources if each is not main]

    def _importers_of(self, package: str) -> set[str]:
        """The packages of modules that have something of this one: a module, a class or a function."""
        if self._importers is None:
            self._importers = {}
            for module in self._modules:
                for value in list(vars(module).values()):
                    if issubclass(type(value), (ModuleType, type, FunctionType)):  # asks no proxy what it stands for
                        of = getattr(value, "__name__" if issubclass(type(value), ModuleType) else "__module__", "")
                        self._importers.setdefault(_package(str(of)), set()).add(_package(module.__name__))
        return self._importers.get(package, set()) - {package, "__main__"}


def _package(name: str) -> str:
    return name.partition(".")[0]


def _is_own(module: ModuleType) -> bool:
    file = (getattr(module, "__file__", None) or "").replace("\\", "/")
    return file.endswith(".py") and not any(f"/{folder}/" in file for folder in ("site-packages", "dist-packages"))


class _Source:
    """A module's file, in which lines are looked for."""

    def __init__(self, module: ModuleType) -> None:
        self.file = getattr(module, "__file__", None) or ""
        self.name = module.__name__
        self._tree: ast.Module | None = None
        if self.file.endswith(".py"):
            try:
                with open(self.file, "rb") as file:
                    self._tree = ast.parse(file.read())
            except (OSError, SyntaxError, ValueError):
                self._tree = None

    def place_of(self, name: str) -> str:
        """Where the module binds the name."""
        node: Any = self._tree
        for part in name.split("."):
            node = next(_binding(node, part), None) if node is not None else None
        return self._place(node)

    def import_of(self, package: str) -> str:
        """Where the file first imports a package or something in it; "" when it does not."""
        for node in ast.walk(self._tree) if self._tree is not None else ():
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            if any(name.partition(".")[0] == package for name in names):
                return self._place(node)
        return ""

    def _place(self, node: Any) -> str:
        return f"{self.file}:{node.lineno}" if node is not None else self.file or self.name


def _binding(tree: Any, name: str) -> Iterator[ast.AST]:
    """The statements below that bind a name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound = [each.asname or each.name for each in node.names]
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            bound = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = [each.id for each in targets if isinstance(each, ast.Name)]
        else:
            continue
        if name in bound or "*" in bound:
            yield node
