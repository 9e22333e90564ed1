"""What else a call is likely to need of packages that travel: modules that no import statement decides about, and data files.

A guess from what can be read, and nothing is executed for it: which submodules and lazy attributes the called function names,
which modules strings name in packages that import by name, which files and folders of a package its own code names. What the
function names goes in any case; the rest within a share of what is certain to be used, so that a wrong guess stays cheap.
Which modules an import statement needs is decided in modules/imports/walk.py; where files lie is modules/finding/data.py's.
"""

import builtins
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from types import CodeType, ModuleType
from typing import NamedTuple

from roamlet.remote.modules.finding import data, distributions, standard
from roamlet.remote.modules.finding.sources import (
    DataFile,
    Location,
    Missing,
    defines,
    exports,
    is_loaded,
    size_of,
    stamp_of,
)
from roamlet.remote.modules.imports.order import reached
from roamlet.remote.modules.imports.scan import Imports, code_of, prefixes, scan, scan_certain, words_of
from roamlet.remote.modules.imports.walk import Closure, Walk

LARGEST_FILE = 4 << 20
"""In bytes: a larger file is sent when it is opened."""
_PACKED = 0.25
"""How much of a source is left of it in a bundle, about."""
_PACKED_NATIVE = 0.4
_MODULES_SHARE, _MODULES_LEAST = 0.12, 24 << 10
_NATIVE_SHARE = 0.05  # of extension modules, for modules
_FILES_SHARE, _FILES_LEAST = 0.22, 32 << 10
_ALTERNATIVES = 8
"""A module that names more modules of one package than this by strings has a table: what the function names of it is used."""
_LARGEST_MODULE = 1 << 20
_MOST_FILES = 400
_ROUNDS = 3
_PARTS = re.compile(r"[A-Za-z0-9]+")
_TESTS = frozenset(("test", "tests", "testing", "examples", "benchmarks", "sample_data", "samples"))
_ASIDE = _TESTS | {"conftest", "distutils", "emscripten", "_pytest", "pytest_plugin", "__main__"}
_PACKED_FILES = {
    "json": 0.1,
    "ttf": 0.5,
    "pem": 0.75,
    **dict.fromkeys(("gz", "png", "zip", "xz", "bz2", "jpg", "npz"), 1.0),
}


class Hints(NamedTuple):
    """What the code of a function that is about to be called mentions, with that of the functions that it may come to call.

    `modules` are the modules that it imports or finds among its globals, `names` the attributes that it reads, and those that it
    imports from a module, `words` its strings.
    """

    modules: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


NONE = Hints()


def hints_of(codes: list[CodeType], imports: tuple[Imports, ...], module: ModuleType | None) -> Hints:
    """What these codes mention; `imports` are theirs, `module` is the one that they are in."""
    names: set[str] = set()
    words: set[str] = set()
    for code in codes:
        names.update(code.co_names)
        words.update(words_of(code))
    namespace = vars(module) if module is not None else {}
    modules = {value.__name__ for name in names if isinstance(value := namespace.get(name), ModuleType)}
    for one in imports:
        for statement in one.at_import:
            modules.update(prefixes(statement.base))
            modules.update(f"{statement.base}.{name}" for name in statement.names)
            names.update(statement.names)
    modules = {name for name in modules if not standard.stays_here(name)}
    return Hints(frozenset(modules), frozenset(names), frozenset(words))


class Prediction:
    """One guess: adds to a walk what it finds. Used by one thread and thrown away."""

    def __init__(self, walk: Walk, first: Closure, hints: Hints) -> None:
        self.walk = walk
        self.first: dict[str, Location] = {location.name: location for location in first.modules}
        self.hints = hints
        # "cache+memory://" speaks of a module "memory" as well as "memory" does
        self.words: set[str] = {
            part.lower() for word in hints.words for part in _PARTS.findall(word) if len(part) > 1
        } | {word.lower() for word in hints.words}
        self.certain: set[str] = set()
        self.sure: set[str] = set()
        self.spent: float = 0.0
        self.called: set[str] = {name.partition(".")[0] for name in hints.modules}
        self.near: set[str] = set()
        self.known_tops: set[str] = set()
        self.counted: int = -1
        self.failing: dict[str, bool] = {}

    def run(self) -> None:
        """Do all of it: the walk has the modules in the end, its result the files, and the names that are certain to be used."""
        self.add_named()
        searched: set[str] = set()
        seen: set[str] = set()
        by_name: set[str] = set()
        named: dict[str, None] = {}
        for _ in range(_ROUNDS):
            likely: dict[str, None] = {}
            by_name |= {name.partition(".")[0] for name, imports in self.active() if imports.by_name}
            for name, imports in self.active():
                if name not in searched and name.partition(".")[0] in by_name:
                    searched.add(name)
                    self.sort_strings(name, imports, likely, named)
            self.add(likely)
            self.certain.update(likely)
        for _ in range(_ROUNDS):
            stated = named
            named = {}
            for name, imports in self.active():
                if name not in seen:
                    seen.add(name)
                    self.sort_statements(name, imports, stated)
            self.add_within(stated, self.share())
        self.sure = reached(self.walk.edges, self.certain)
        self.walk.result.likely = self.sure | self.loaded_native()
        self.add_files()

    def active(self) -> list[tuple[str, Imports]]:
        """The modules that travel, before this call's bundle and in it, with their imports."""
        locations = dict(self.first)
        locations.update((name, one) for name in self.walk.edges if isinstance(one := self.walk.found[name], Location))
        return [(name, scan(location)) for name, location in locations.items()]

    def weigh(self, names: Iterable[str]) -> tuple[float, float]:
        """About how many bytes modules take in a bundle, and their extension modules beside it."""
        sources, shared = 0, dict[str, int]()
        for name in names:
            location = self.first.get(name) or self.found(name)
            if location is not None and location.native is not None:
                shared.update((one.path, one.size) for one in location.native.files)
            elif location is not None:
                sources += size_of(stamp_of(location.origin or ""))
        return sources * _PACKED, sum(shared.values()) * _PACKED_NATIVE

    def loaded_native(self) -> set[str]:
        """Small extension modules that the parent has loaded, and that functions or other extension modules import."""
        left = _NATIVE_SHARE * self.weigh(self.first)[1]
        found = set()
        native = [
            (name, one) for name, one in ((name, self.found(name)) for name in self.walk.edges) if one and one.native
        ]
        for name, _ in sorted(native, key=lambda one: (self.weigh([one[0]])[1], one[0])):
            if name not in self.first and is_loaded(name):
                left -= self.weigh([name])[1]
                if left < 0:
                    break
                found.add(name)
        return found

    def share(self) -> float:
        """How many bytes of modules may be guessed: a part of those that are certain to be used."""
        sources, native = self.weigh({*self.first, *reached(self.walk.edges, self.certain)})
        return _MODULES_LEAST + sources * _MODULES_SHARE + native * _NATIVE_SHARE

    def tops(self) -> set[str]:
        """The packages of which something travels."""
        if self.counted != len(self.walk.edges):  # which only grows
            self.counted = len(self.walk.edges)
            self.known_tops = {name.partition(".")[0] for name in (*self.first, *self.walk.edges)}
        return self.known_tops

    def is_new(self, name: str) -> bool:
        """True for a module that could travel and that nothing has decided about."""
        if name in self.first or name in self.walk.edges or is_loaded(name) or self.walk.target_has(name):
            return False
        self.walk.result.unloaded.add(name)
        return isinstance(self.walk.lookup(name), Location)

    def could_run(self, name: str) -> bool:
        """True for a new module that could be imported here: a target that tries another one will fail, and need not have it."""
        return self.is_new(name) and (one := self.found(name)) is not None and not self.walk.fails_here(one)

    def must_fail(self, name: str) -> bool:
        """True for a module that cannot be imported here, because an import in no condition or `try` of it has no chance."""
        if name not in self.failing:  # asked for each module that makes names of such strings, and it takes a parse
            location = self.found(name)
            bases = () if location is None else (one.base.partition(".")[0] for one in scan_certain(location))
            self.failing[name] = any(
                not standard.stays_here(top) and isinstance(self.walk.lookup(top), Missing) for top in bases
            )
        return self.failing[name]

    def add(self, names: dict[str, None]) -> None:
        for name in names:
            if self.walk.want(name):
                self.walk.roots.add(name)
        self.walk.run()

    def add_within(self, names: dict[str, None], most: float) -> None:
        """Add the cheapest ones, with all that each needs, until the share is used up.

        In several passes with a part of the share each, as what one brings makes others cheaper.
        """
        left = most - self.spent
        for limit in (most - left * 0.8, most - left * 0.6, most - left * 0.3, most):
            costs: list[tuple[bool, float, str]] = []
            for name in names:
                if not _ASIDE.isdisjoint(name.split(".")) or not self.is_new(name):
                    continue
                # What the called package itself imports is more likely to be used than what lies below it.
                is_near = name in self.near or name.partition(".")[0] in self.called
                costs.append((not is_near, self.cost(name, most - self.spent), name))
            for _, before, name in sorted(costs):
                if before == float("inf"):
                    continue
                cost = self.cost(name, limit - self.spent) if self.is_new(name) else 0
                if cost and self.spent + cost <= limit:
                    self.spent += cost
                    self.add({name: None})

    def cost(self, name: str, most: float) -> float:
        """About how many bytes a module would add to the bundle, with all that it needs.

        Infinite with an extension module, and where it is more than `most`.
        """
        own = self.found(name)
        if own is None or own.native is not None or size_of(stamp_of(own.origin or "")) > _LARGEST_MODULE:
            return float("inf")
        return self.walk.cost(name, self.first, most / _PACKED) * _PACKED

    def found(self, name: str) -> Location | None:
        found = self.walk.lookup(name)
        return found if isinstance(found, Location) else None

    # ---- modules

    def add_named(self) -> None:
        """Submodules and lazy attributes of the modules that the function mentions, which it names: `scipy.linalg.solve`."""
        pending = sorted(self.hints.modules)
        roots: dict[str, None] = {}
        while pending:
            base = pending.pop()
            location = None if self.walk.target_has(base) else self.found(base)
            if location is None or not location.is_package:
                continue
            here = self.walk.list_package(base, location)
            if here is None:
                continue
            is_lazy = is_loaded(base) and _is_lazy(sys.modules.get(base))
            for name in sorted(self.hints.names):
                full = f"{base}.{name}"
                if defines(base, name) or full in roots or hasattr(builtins, name) or name.startswith("__"):
                    continue
                if name in here.submodules or name in here.extensions:
                    if self.is_new(full):
                        roots[full] = None
                        pending.append(full)
                elif is_lazy:
                    roots.update(dict.fromkeys(self.definers(base, location, name)))
        if "entry_points" in self.hints.names:
            roots.update((name, None) for name in distributions.entered_by(self.hints.words) if self.is_new(name))
        self.add(roots)
        self.certain.update(roots)

    def definers(self, base: str, location: Location, name: str) -> Iterator[str]:
        """The module that a package takes a lazy attribute from: of those that its code names, the first that has the name."""
        imports = scan(location)
        here = self.walk.list_package(base, location)
        short = here.submodules if here is not None else frozenset[str]()
        named = {one for word in imports.words if (one := self.module_in(word, base))}
        named |= {f"{base}.{word}" for word in imports.words if word in short}
        named |= {one.base for one in (*imports.at_import, *imports.inside) if name in one.names}
        for one in sorted(named)[:200]:
            found = self.found(one)
            if found is None or found.native is not None or one == base or not _ASIDE.isdisjoint(one.split(".")):
                continue
            try:
                has_it = name in code_of(found).co_names
            except (SyntaxError, ValueError, OSError, ImportError, RecursionError):
                continue
            if has_it:
                if self.is_new(one):
                    yield one
                return

    def sort_strings(self, name: str, imports: Imports, likely: dict[str, None], possible: dict[str, None]) -> None:
        """Modules that strings of a module name, in a package that imports by name."""
        package = name if hasattr(sys.modules.get(name), "__path__") else name.rpartition(".")[0]
        found: dict[str, None] = {}
        for word in sorted(imports.words):
            if "." not in word:
                continue
            if word.endswith((".", "_")):
                found.update(dict.fromkeys(self.with_prefix(word, package)))
            elif (one := self.module_in(word, package)) and self.is_new(one):
                found[one] = None
        likely.update(dict.fromkeys(self.taken_by_star(imports)))
        beside = Counter(one.rpartition(".")[0] for one in found)
        for one in found:
            if not self.words.isdisjoint(re.split(r"[._]", one.partition(".")[2].lower())):
                likely[one] = None
            elif beside[one.rpartition(".")[0]] <= _ALTERNATIVES:
                possible[one] = None

    def module_in(self, word: str, package: str) -> str | None:
        """The module that a string such as "kombu.transport.memory:Transport" begins with, in a package that travels."""
        word = word.partition(":")[0].rstrip(".")
        if word.startswith("."):
            stripped = word.lstrip(".")
            for _ in range(len(word) - len(stripped) - 1):
                package = package.rpartition(".")[0]
            word = f"{package}.{stripped}" if package else stripped
        if word.partition(".")[0] not in self.tops() or not all(part.isidentifier() for part in word.split(".")):
            return None
        while "." in word:
            if self.found(word) is not None:
                return word
            word = word.rpartition(".")[0]
        return None

    def taken_by_star(self, imports: Imports) -> Iterator[str]:
        """The submodules of a lazy package that a module takes by a helper which executes the text `from numpy import *`."""
        helpers = (self.found(one.base) for one in imports.at_import)
        if not any(helper is not None and scan(helper).stars for helper in helpers):
            return
        for word in sorted(imports.words):
            location = self.found(word) if word.partition(".")[0] in self.tops() and word.isidentifier() else None
            here = None if location is None or not location.is_package else self.walk.list_package(word, location)
            if here is not None:
                for short in sorted(exports(word) & (here.submodules | here.extensions)):
                    if not defines(word, short) and self.is_new(f"{word}.{short}"):
                        yield f"{word}.{short}"

    def with_prefix(self, word: str, package: str) -> Iterator[str]:
        """The modules whose names begin with a string that a module makes names of: "anyio._backends._"."""
        base, _, start = (package + word if word.startswith(".") else word).rpartition(".")
        if base.partition(".")[0] not in self.tops() or not all(part.isidentifier() for part in base.split(".")):
            return
        location = self.found(base)
        here = None if location is None or not location.is_package else self.walk.list_package(base, location)
        for short in sorted(here.submodules | here.extensions if here is not None else ()):
            full = f"{base}.{short}"
            if short.startswith(start) and self.is_new(full) and not self.must_fail(full):
                yield full

    def sort_statements(self, name: str, imports: Imports, possible: dict[str, None]) -> None:
        """Modules that a statement names and the parent has not loaded: in a function, or in a branch that it did not take."""
        tops = self.tops()
        for word in sorted(imports.optional):
            if not self.walk.target_has(word) and isinstance(missing := self.walk.lookup(word), Missing):
                self.walk.lack(missing)
        for one in (*imports.at_import, *imports.inside):
            top = one.base.partition(".")[0]
            if top not in tops:
                if not self.walk.target_has(top) and isinstance(missing := self.walk.lookup(top), Missing):
                    self.walk.lack(missing)
                continue
            for target in (one.base, *(f"{one.base}.{short}" for short in one.names)):
                if self.could_run(target):
                    possible[target] = None
                    if name.partition(".")[0] in self.called:
                        self.near.add(target)

    # ---- files

    def add_files(self) -> None:
        """Data files that the code of their package names, and whole folders, with the listing of the package."""
        words: dict[str, set[str]] = {top: set() for top in self.tops()}
        knowing: set[str] = set()
        reading: set[str] = set()
        for name, imports in self.active():
            top = name.partition(".")[0]
            if name in self.first or name in self.sure:
                words[top].update(imports.words)
            if imports.knows_file or imports.reads_files:
                knowing.add(top)
            if imports.reads_files:
                reading.add(top)
        left = _FILES_LEAST + _FILES_SHARE * sum(self.weigh(name for name, _ in self.active()))
        for top in sorted(knowing):
            location = self.first.get(top) or self.found(top)
            if (
                location is None
                or location.is_namespace
                or not location.is_package
                or not distributions.is_installed(location)
            ):
                continue
            tree = data.tree(location)
            called, named, folders = _choose(tree, words[top], self.words)
            groups = sorted(([path] for path in named), key=lambda one: _packed(tree, one))
            groups += sorted(folders, key=lambda one: _packed(tree, one))
            if top in reading and sum(tree.values()) <= data.SMALL_TREE:
                groups.append([path for path in tree if _TESTS.isdisjoint(path.split("/"))])
            chosen = list(called)
            for group in groups:
                cost = _packed(tree, group)
                if cost <= left:
                    left -= cost
                    chosen += group
            self.add_chosen(top, location, [path for path in dict.fromkeys(chosen) if tree[path] <= LARGEST_FILE])

    def add_chosen(self, top: str, location: Location, paths: list[str]) -> None:
        result = self.walk.result
        if not paths:
            return
        listing = data.data_of(f"{top}/", self.walk.has, self.walk.policy)
        if listing is not None and len(listing) <= data.LARGEST_LISTING:
            result.files.append(DataFile(f"{top}/", "", listing, listing))
        packages = {name: self.found(name) for name in (*self.first, *self.walk.edges)}
        for path in paths[:_MOST_FILES]:
            package, rest = top, path
            for place in location.search or ():
                full = f"{place}/{path}"
                stamp = stamp_of(full)
                if stamp is not None:
                    break
            else:
                continue
            # A file is asked for by the innermost package that its folders are.
            while "/" in rest:
                inner = f"{package}.{rest.partition('/')[0]}"
                if (one := packages.get(inner)) is None or not one.is_package:
                    break
                package, rest = inner, rest.partition("/")[2]
            result.files.append(DataFile(f"{package}/{rest}", full, (full, stamp)))
            result.stamps[full] = stamp


def _is_lazy(module: ModuleType | None) -> bool:
    """True for a module that may have attributes that come into being when they are read."""
    return module is not None and (type(module) is not ModuleType or "__getattr__" in vars(module))


def _packed(tree: dict[str, int], paths: list[str]) -> float:
    """About how many bytes these files add to a bundle."""
    return sum(tree[path] * _PACKED_FILES.get(path.rpartition(".")[2], _PACKED) for path in paths)


def _choose(tree: dict[str, int], words: set[str], called: set[str]) -> tuple[list[str], list[str], list[list[str]]]:
    """The files of a package that the function names, those that its own code names, and the folders that that names, as files."""
    stems: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}
    inside: dict[str, list[str]] = {}
    for path in tree:
        parts = path.split("/")
        if not _TESTS.isdisjoint(parts):
            continue
        stems.setdefault(parts[-1].partition(".")[0], []).append(path)
        names.setdefault(parts[-1], []).append(path)
        inside.setdefault("/".join(parts[:-1]), []).append(path)
    named: list[str] = []
    for word in sorted(words):
        last = word.rpartition("/")[2]
        found = [path for path in names.get(last, ()) if path.endswith(word)]
        if len(found) > 3 or (not found and len(word) > 2):
            found = stems.get(word, [])
        if len(found) <= 3:
            named += found
    folders: list[list[str]] = []
    by_name: dict[str, list[str]] = {}
    for folder in inside:
        by_name.setdefault(folder.rpartition("/")[2], []).append(folder)
    for name, places in by_name.items():
        if name in words and len(name) > 2 and len(places) <= 2:
            folders += (inside[place] for place in places)
    asked: list[str] = []
    for folder, paths in inside.items():
        if not called.isdisjoint(folder.lower().split("/")):
            # What the code knows by name of what it will look for there; else the whole folder.
            known = [path for path in paths if path.rpartition("/")[2].partition(".")[0] in words]
            asked += known
            if not known:
                folders.append(paths)
    return asked, named, folders
