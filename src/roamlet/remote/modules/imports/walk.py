"""The walk that finds which modules an import needs, in which order, and which names it will ask for in vain.

It reads scans: nothing is executed, nothing is compressed, nothing is remembered (bundle.py does that). Where a walk starts
is decided in modules/imports/closure.py.

Two questions decide whether a name is followed. Does the target have its top-level package? Then it stays here. Has the
parent loaded it? A module that the parent has loaded tells by its neighbours in sys.modules which of its imports were
really done (platform, version, `try`); so only those are followed. A module that the parent has not loaded yet tells
nothing, and everything that it imports and that can be found is followed.
"""

import sys
from collections.abc import Collection, Hashable, Iterable, Iterator
from enum import Enum, auto

from roamlet.remote.modules.finding import distributions, standard
from roamlet.remote.modules.finding.sources import (
    DataFile,
    Listing,
    Location,
    Missing,
    defines,
    exports,
    find,
    is_loaded,
    listing,
    real_name,
    replaced_by,
    size_of,
    stamp_of,
    top_level_names,
)
from roamlet.remote.modules.imports import unimportable
from roamlet.remote.modules.imports.order import reached, units
from roamlet.remote.modules.imports.scan import Import, Imports, prefixes, scan
from roamlet.remote.modules.native import extensions
from roamlet.remote.modules.native.platforms import Platform
from roamlet.remote.modules.policy import Modules


class Closure:
    """What an import needs. `modules` has dependencies first; modules that import each other stand together.

    `absent` are names that are asked for and are nowhere, with a reason where one is known. `complete` are the packages
    among `modules` whose submodules are all known; they have no other submodules. `files` are data files
    that the code names. `parts` are those of roamlet.wire that serve what these modules do.
    `unimportable` are modules that are certain to fail on the target, with the module that each fails for; they are absent.
    `likely` are those that the called function leads to although the parent has not loaded them.
    The rest is what the answer depends on: `tops` the top-level names about which the target was consulted, `unloaded`
    the names that were left out or treated differently because the parent had not loaded them, `stamps` the files.
    """

    def __init__(self) -> None:
        self.modules: list[Location] = []
        self.absent: dict[str, str] = {}
        self.complete: dict[str, tuple[str, ...]] = {}
        self.files: list[DataFile] = []
        self.parts: set[str] = set()
        self.unimportable: dict[str, str] = {}
        self.inside: list[tuple[str, Imports]] = []
        self.tops: set[str] = set()
        self.unloaded: set[str] = set()
        self.stamps: dict[str, Hashable] = {}
        self.likely: set[str] = set()


LARGEST_FILE = 1 << 20
"""In bytes: a larger data file is sent when it is opened."""


class Follow(Enum):
    """Which of the imports of one module are followed."""

    EVERYTHING = auto()
    """All that can be found: the parent has not run them, so it cannot tell which ones do run."""
    TRIED = auto()
    """Those that the parent has done, and those that it has tried in vain."""
    LOADED = auto()
    """Those that the parent has done."""


class TooMuch(Exception):
    """A walk costs more than it may."""


class Walk:
    """One computation of a closure; used by one thread and thrown away."""

    def __init__(self, has: Collection[str], policy: Modules, platform: Platform | None) -> None:
        self.has = has
        self.policy = policy
        self.platform = platform
        self.result: Closure = Closure()
        self.found: dict[str, Location | Missing] = {}
        self.edges: dict[str, list[str]] = {}
        self.listings: dict[str, Listing | None] = {}
        self.pending: list[str] = []
        self.failing: set[str] = set()
        self.roots: set[str] = set()
        # The module whose imports are followed, if it finds some of them by what it adds to sys.path.
        self.changes_path: str = ""
        self.largest_file = LARGEST_FILE
        self.most: float | None = None  # bytes of sources
        self.weight: int = 0

    def lookup(self, name: str) -> Location | Missing:
        known = self.found.get(name)
        if known is None:
            known = extensions.fitting(find(name), self.platform)
            if isinstance(known, Location) and (refusal := self.policy.refusal(name)):
                known = Missing(name, refusal, is_certain=True)
            self.found[name] = known
        return known

    def target_has(self, name: str) -> bool:
        """True when the target has the top-level package of this name, or the payload provides it."""
        top = name.partition(".")[0]
        if top in (standard.OWN, "__main__"):
            return True
        self.result.tops.add(top)
        return top in self.has

    def loaded(self, name: str) -> bool:
        if is_loaded(name):
            return True
        self.result.unloaded.add(name)
        return False

    def want(self, name: str) -> bool:
        """Add a module and the packages that it lies in to what travels. False when one of them cannot."""
        for prefix in prefixes(name):
            if self.target_has(prefix):
                return False
            if isinstance(missing := self.lookup(prefix), Missing):
                self.lack(missing)
                return False
            if prefix not in self.edges:
                self.edges[prefix] = []
                self.pending.append(prefix)
                if self.most is not None:
                    self.weigh(prefix)
        return True

    def weigh(self, name: str) -> None:
        """Give the walk up as soon as it costs more than it may."""
        location = self.found[name]
        assert isinstance(location, Location)
        assert self.most is not None
        self.weight += size_of(stamp_of(location.origin or ""))
        if location.native is not None or self.weight > self.most:
            raise TooMuch

    def lack(self, missing: Missing) -> None:
        """Note a name as absent, unless its package says so by being complete."""
        reason = missing.reason
        if not reason and standard.is_standard(missing.name):
            reason = standard.why_absent(missing.name)
        if not reason and self.changes_path:
            reason = (
                f"{self.changes_path} adds to sys.path while it is imported. Import {self.changes_path} in the parent before the "
                "call, so that what it finds there can be sent"
            )
        self.result.absent.setdefault(missing.name, reason)

    def lack_standard(self) -> None:
        """Note what the target's own standard modules will try: they import like other modules."""
        here = top_level_names()
        for name in standard.tried_in_vain():
            if self.target_has(name) or name in self.edges:
                continue
            if name not in here or isinstance(self.lookup(name), Missing):
                self.result.absent.setdefault(name, "")

    def run(self) -> None:
        while self.pending:
            name = self.pending.pop()
            location = self.found[name]
            assert isinstance(location, Location)
            imports = scan(location)
            self.edges[name] = list(self.needs(name, imports))

    def needs(self, name: str, imports: Imports) -> Iterator[str]:
        """The modules that importing `name` imports, those that travel; notes the names that are asked for in vain."""
        if parent := name.rpartition(".")[0]:
            yield parent
        location = self.found[name]
        has_run = is_loaded(name) and not (isinstance(location, Location) and location.compiled is not None)
        policy = Follow.TRIED if has_run else Follow.LOADED if name in self.failing else Follow.EVERYTHING
        self.changes_path = name if imports.changes_path and not is_loaded(name) else ""
        for one in imports.at_import:
            yield from self.follow(one, policy)
        self.changes_path = ""
        for target in imports.named_at_import:
            if policy is Follow.EVERYTHING or self.loaded(target) or isinstance(self.lookup_top(target), Missing):
                yield from self.follow(Import(target), policy)
        if (other := replaced_by(name)) is not None:
            yield from self.follow(Import(other), Follow.LOADED)
        yield from self.named_in_native(name)
        if imports.inside or imports.named_inside or imports.by_name or imports.asks_metadata_inside:
            self.result.inside.append((name, imports))
        if imports.files:
            self.add_files(name, imports)

    def named_in_native(self, name: str) -> Iterator[str]:
        """The modules of its own package that an extension module may import: those of the names in it that are modules here."""
        location = self.found[name]
        if not isinstance(location, Location) or location.native is None:
            return
        for target in sorted(extensions.named_in(location.native)):
            if self.loaded(target) or (not is_loaded(name) and isinstance(self.lookup(target), Location)):
                yield from self.follow(Import(target), Follow.EVERYTHING)

    def do(self, more: Iterable[Imports]) -> None:
        """Follow imports that are going to run on the target, whether or not they have run here."""
        for imports in more:
            self.result.parts.update(_parts_for(imports))
            if imports.asks_all:
                self.add_index()
            for one in imports.at_import:
                self.roots.update(self.follow(one, Follow.EVERYTHING))
            for name in imports.named_at_import:
                if is_loaded(name):
                    self.roots.update(self.follow(Import(name), Follow.LOADED))

    def lookup_top(self, name: str) -> Location | Missing:
        return self.lookup(name.partition(".")[0])

    def follow(self, one: Import, policy: Follow) -> Iterator[str]:
        """The modules behind one import statement."""
        if not self.follow_name(one.base, policy):
            return
        base = real_name(one.base)
        if base != one.base:  # an alias that the code of its package puts into sys.modules
            package = one.base.rpartition(".")[0]
            if package and self.follow_name(package, policy):
                yield from prefixes(package)
        yield from prefixes(base)
        for name in self.submodules(base, one.names, policy):
            if self.follow_name(name, policy):
                yield real_name(name)

    def follow_name(self, name: str, policy: Follow) -> bool:
        """Decide about one module; True when it travels."""
        if self.target_has(name):
            return False
        if self.loaded(name) or policy is Follow.EVERYTHING:
            return self.want(real_name(name))
        failing = []
        for prefix in prefixes(name):
            if is_loaded(prefix):
                continue
            location = self.lookup(prefix)
            if isinstance(location, Missing):
                self.lack(location)
                return False
            if policy is Follow.LOADED or not self.fails_here(location):
                return False
            failing.append(prefix)
        self.failing.update(failing)
        return self.want(name)

    def fails_here(self, location: Location) -> bool:
        """True when a module that is here but not loaded cannot be imported here, for lack of something that it imports.

        Its importer has tried it, then, and so will the importer on the target: it has to fail in the same way.
        """
        for one in scan(location).at_import:
            top = one.base.partition(".")[0]
            if not standard.stays_here(top) and isinstance(self.lookup(top), Missing):
                return True
        return False

    def submodules(self, base: str, names: Iterable[str], policy: Follow) -> Iterator[str]:
        """Those of the names that `from base import names` imports as modules, because they are no plain attributes."""
        location = self.lookup(base)
        if not isinstance(location, Location) or not location.is_package:
            return
        names = tuple(names)
        if names == ("*",):
            names = tuple(sorted(scan(location).exported | exports(base)))
        here = self.list_package(base, location) if names else None
        for name in names:
            full = f"{base}.{name}"
            is_file = here is None or name in here.submodules or name in here.extensions
            if is_loaded(full) or (is_file and (policy is Follow.EVERYTHING or not defines(base, name))):
                yield full

    def list_package(self, name: str, location: Location) -> Listing | None:
        if name not in self.listings:
            self.listings[name] = listing(location)
        return self.listings[name]

    def add_files(self, name: str, imports: Imports) -> None:
        """The data files in the module's own package that its code names."""
        location = self.found[name]
        package = name if isinstance(location, Location) and location.is_package else name.rpartition(".")[0]
        here = self.found.get(package)
        if not isinstance(here, Location) or (listed := self.list_package(package, here)) is None:
            return
        for file in sorted(imports.files & listed.files.keys()):
            self.add_file(f"{package}/{file}", listed.files[file], self.largest_file)

    def add_file(self, name: str, path: str, largest: int) -> None:
        stamp = stamp_of(path)
        data = DataFile(name, path, (path, stamp))
        if data not in self.result.files and size_of(stamp) <= largest:
            self.result.files.append(data)
            self.result.stamps[path] = stamp

    def add_metadata(self, top: str) -> None:
        """The metadata of the distributions that a package belongs to: code that asks for a version asks for its own first."""
        for name, path in distributions.owners_of(top):
            self.add_file(name, path, LARGEST_FILE)
        for name, place in distributions.places_of(top):
            self.result.files.append(DataFile(f"@{name}/@", "", place, place))
            self.result.absent[f"@{name}/{distributions.PRIVATE}"] = ""

    def add_index(self) -> None:
        """All distributions: a module that looks for plug-ins asks for them while it is imported."""
        if any(one.name == distributions.ALL for one in self.result.files):
            return
        index, tops = distributions.index(self.has, self.policy)
        self.result.tops |= tops
        self.result.files.append(DataFile(distributions.ALL, "", index, index))
        self.result.stamps.update((entry, stamp_of(entry)) for entry in sys.path)

    def cost(self, name: str, known: Iterable[str], most: float) -> float:
        """The bytes of sources that importing `name` would add to this walk and to the modules `known`; the walk stays as it is.

        Infinite when they are more than `most`, or an extension module is among them: that is found out early.
        """
        other = Walk(self.has, self.policy, self.platform)
        other.found, other.listings = self.found, self.listings
        other.edges = {one: [] for one in (*self.edges, *known)}
        other.most = most
        try:
            other.want(name)
            other.run()
        except TooMuch:
            return float("inf")
        return other.weight

    def add_cheap(self, names: Iterable[str], most: int) -> None:
        """Add those of the modules that take with all that they need, and together, no more than so many bytes of sources."""
        for name in names:
            cost = self.cost(name, (), most) if name not in self.edges else float("inf")
            if cost <= most and self.want(name):
                most -= int(cost)
                self.roots.add(name)
                self.run()

    def leave_out_the_unimportable(self) -> None:
        """What is certain to fail on the target does not travel, nor does what only it needs."""
        result = self.result
        native = {name for name, one in self.found.items() if isinstance(one, Missing) and one.is_certain}
        if not native.isdisjoint(result.absent):
            locations = {name: one for name in self.edges if isinstance(one := self.found[name], Location)}
            result.unimportable = unimportable.among(locations, native)
        if not result.unimportable:
            return
        for name in result.unimportable:
            result.absent[name] = unimportable.explain(name, result.unimportable, result.absent)
        edges = {name: targets for name, targets in self.edges.items() if name not in result.unimportable}
        kept = reached(edges, self.roots)
        self.edges = {name: targets for name, targets in self.edges.items() if name in kept}
        result.inside = [(name, imports) for name, imports in result.inside if name in kept]

    def finish(self) -> Closure:
        result = self.result
        self.leave_out_the_unimportable()
        for name in [name for unit in units(self.edges) for name in unit]:
            location = self.found[name]
            assert isinstance(location, Location)
            result.modules.append(location)
            imports = scan(location)
            result.parts.update(_parts_for(imports))
            if imports.asks_metadata:
                self.add_metadata(location.name.partition(".")[0])
            if imports.asks_all:
                self.add_index()
            for one in (location, location.twin):
                if one is not None and one.origin is not None:
                    result.stamps[one.origin] = stamp_of(one.origin)
            result.stamps.update((place, stamp_of(place)) for place in location.search or ())
        loaded = _loaded_submodules()
        for location in result.modules:
            if location.is_package and (here := self.list_package(location.name, location)) is not None:
                more = {*loaded.get(location.name, ()), *here.extensions}
                more = {short for short in more if self.can_travel(f"{location.name}.{short}")}
                result.complete[location.name] = tuple(sorted(here.submodules | more))
        for name in [name for name in result.absent if self.is_implied(name)]:
            del result.absent[name]
        return result

    def can_travel(self, name: str) -> bool:
        return isinstance(self.lookup(name), Location)

    def is_implied(self, name: str) -> bool:
        """True when a complete package says already that this submodule is absent, and there is nothing more to say."""
        parent, _, short = name.rpartition(".")
        complete = self.result.complete.get(parent)
        return complete is not None and short not in complete and not self.result.absent[name]


def _parts_for(imports: Imports) -> Iterator[str]:
    """The parts of roamlet.wire without which what this module does would have to wait for them."""
    if imports.reads_files or imports.knows_file:
        yield "modules.resources"
    if imports.knows_file:
        yield "modules.paths"
    if imports.asks_metadata or imports.asks_all:
        yield "modules.metadata"
    if imports.starts_processes:
        yield "modules.children"


def _loaded_submodules() -> dict[str, list[str]]:
    """Package -> the last parts of its submodules in sys.modules."""
    found: dict[str, list[str]] = {}
    for name in list(sys.modules):
        parent, _, short = name.rpartition(".")
        if parent:
            found.setdefault(parent, []).append(short)
    return found
