"""Builds bundles, on the parent: the bodies of MODULES frames: what a call needs less what its target has; each is built once.

What an import needs is computed in modules/imports/closure.py, the layout of a body is roamlet.wire.modules.bundle's.
"""

import os
import sys
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace
from types import CodeType
from typing import NamedTuple, TypeGuard

from roamlet.core.os_threads import RLock
from roamlet.remote.errors import CannotTravel, RemoteModuleNotFound
from roamlet.remote.modules import bounded, main_script
from roamlet.remote.modules.bounded import Bounded
from roamlet.remote.modules.companions import NO_COMPANIONS, Companions, companions
from roamlet.remote.modules.finding import distributions, sources, standard
from roamlet.remote.modules.finding.data import beside, data_of
from roamlet.remote.modules.finding.sources import DataFile, Location, Missing
from roamlet.remote.modules.functions import codes_behind, namespace_of
from roamlet.remote.modules.imports import scan
from roamlet.remote.modules.imports.closure import closure, closure_inside
from roamlet.remote.modules.imports.prediction import NONE, Hints, hints_of
from roamlet.remote.modules.imports.walk import Closure
from roamlet.remote.modules.native import extensions, shared
from roamlet.remote.modules.native.platforms import Platform
from roamlet.remote.modules.native.shared import Extension
from roamlet.remote.modules.policy import EVERYTHING, Modules
from roamlet.wire import build
from roamlet.wire.modules import bundle as wire_bundle

_MOST_BYTES = 32 << 20
_MOST_CLOSURES = 256


Form = tuple[bool, str, int]
"""See policy.Modules.form."""

SecondWave = Callable[[Collection[str]], "Bundle | None"]


def _nothing(sent: Collection[str]) -> None:
    """The second wave of a bundle that has none."""


class Bundle(NamedTuple):
    """What travels at once. `data` is the body of a MODULES frame.

    `modules` are the names of the modules in it, dependencies first; `absent` are the names that it says are nowhere,
    `files` are data files that these modules name, as "package/file name", and the parts of roamlet.wire that serve them.
    `extensions` are the modules among them of which only an announcement is in `data`: their files are to follow, at once for
    those in `certain`, which an import on the target is going to load, for the others once it asks. `replaced` are the extension
    modules in whose place a Python file is sent, as they cannot run on the target.
    `second_wave(sent)` gives what the functions of these modules import when they are called, less what `sent` names, or None; it
    takes as long as `plan`, so that it is best asked for after the call.
    """

    modules: tuple[str, ...]
    absent: tuple[str, ...]
    files: tuple[str, ...]
    data: bytes
    extensions: tuple[Extension, ...] = ()
    certain: tuple[Extension, ...] = ()
    second_wave: SecondWave = _nothing
    replaced: tuple[Missing, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What a context should remember as sent once this bundle is on its way."""
        return self.modules + self.absent + self.files

    @property
    def has_more(self) -> bool:
        """Whether a second wave may follow."""
        return self.second_wave is not _nothing


class _Entry(NamedTuple):
    """A closure and what it depended on."""

    closure: Closure
    had: frozenset[str]

    def holds_for(self, has: Collection[str]) -> bool:
        """True when the closure would come out the same for this target, now."""
        if {top for top in self.closure.tops if top in has} != self.had:
            return False
        if any(name in sys.modules for name in self.closure.unloaded):
            return False
        return not sources.changed_since(self.closure.stamps.items())


_PLAIN = (False, "zlib", 6)  # sources, as every target takes them

_closures: Bounded[Hashable, tuple[_Entry, ...]] = Bounded(_MOST_CLOSURES, len)
_built: Bounded[Hashable, bytes] = Bounded(_MOST_BYTES, lambda built: len(built) + 200)
# Of several threads that need the same, one builds and the others wait for it. Re-entrant: an import hook may come back.
_building = RLock()


def _renew_after_fork() -> None:
    global _building  # noqa: PLW0603 - the thread that held the old lock does not exist here
    _building = RLock()
    bounded.renew()
    shared.renew()


os.register_at_fork(after_in_child=_renew_after_fork)


def plan(
    module: str,
    sent: Collection[str],
    has: Collection[str],
    code: CodeType | None = None,
    policy: Modules = EVERYTHING,
    platform: Platform | None = None,
) -> Bundle | None:
    """What has to travel before a function of `module` can be called, or None when all is there.

    `has` are the top-level names that import on the target, `sent` the names (modules and absent ones) that bundles have
    brought. `code` is that of the function: its own imports are about to run, so they travel with the first bundle, and
    those of the functions that it may call here with the second wave, loaded here or not. `policy` says what is kept back,
    `platform` what extension modules the target can run; without one, none travels.
    Thread-safe, blocks for the time of reading, scanning and compressing (for Django about 0.2 s the first time, then
    2 ms). Raises CannotTravel when the module is here but has no source or needs something that has none,
    RemoteModuleNotFound when it is nowhere.
    """
    location = extensions.fitting(sources.find(module), platform)
    if isinstance(location, Missing) and not standard.stays_here(module) and module.partition(".")[0] not in has:
        raise _unavailable(module, location)
    now: tuple[scan.Imports, ...] = ()
    soon: tuple[scan.Imports, ...] = ()
    hints = NONE
    if code is not None:
        is_package = isinstance(location, Location) and location.is_package
        now = (scan.scan_functions((code,), module, is_package),)
        behind = codes_behind(code, module)
        soon = (scan.scan_functions(behind, module, is_package),)
        hints = hints_of([code, *behind], (*now, *soon), namespace_of(module))
    if module.partition(".")[0] not in has and (refusal := policy.refusal(module)):
        raise CannotTravel(f"{_said(module)} cannot be sent: {refusal}")
    return _bundle_of(module, sent, has, policy, platform, now, soon, hints, is_call=True)


def pull(
    name: str,
    sent: Collection[str],
    has: Collection[str],
    policy: Modules = EVERYTHING,
    platform: Platform | None = None,
    asked: Collection[str] = (),
) -> Bundle:
    """The answer to a target that asks for the module `name`: it and what it needs, or that it is absent and why.

    "package/path" asks for a data file, "package/path/" for what lies in a folder, "@..." for what
    roamlet.wire.modules.metadata tells about distributions, "!module" for a module's source as it is now and nothing else,
    "roamlet.wire.part" for a part of the payload. Never raises for a name that cannot be served. Otherwise as `plan`;
    the module itself is included even if it was sent. What was `asked` for before lets more go along: files of other
    folders, modules beside it (see companions.py).
    """
    if name.startswith("@"):
        told = distributions.answer(name, has, policy)
        return _data(name, told, () if told is None else distributions.beside(name, sent, has, policy, asked))
    if "/" in name:
        found = data_of(name, has, policy)
        return _data(name, found, () if found is None else beside(name, {*sent, name}, has, policy, asked))
    if name.startswith("roamlet.wire."):
        return _parts(name, sent)
    if name.startswith("!"):
        name = name[1:]
        policy = replace(policy, bytecode=False)
        if name.partition(".")[0] not in has and not policy.refusal(name):
            alone = _twin(name) or _alone(name, policy, platform)
            if alone is not None:
                return alone
    sent = {one for one in sent if one != name}
    along = NO_COMPANIONS if name.partition(".")[0] in has else companions(name, asked, sent)
    answer = _bundle_of(name, sent, has, policy, platform, along=along)
    return Bundle((), (name,), (), _body((), {name: ""}, {})) if answer is None else answer


def _twin(name: str) -> Bundle | None:
    """The Python file beside an extension module that the target could not load."""
    location = sources.find(name)
    if isinstance(location, Missing) or location.compiled is None:
        return None
    why = f"The extension module was sent, but could not be loaded there{extensions.advice(name.partition('.')[0])}"
    return of_locations((location,))._replace(replaced=(Missing(name, why),))


def _alone(name: str, policy: Modules, platform: Platform | None) -> Bundle | None:
    """One module as it is now, to be looked at or imported again: what it imports is there, or is asked for then."""
    location = extensions.fitting(sources.find(name), platform)
    return of_locations((location,), policy.form) if isinstance(location, Location) else None


def _data(name: str, found: bytes | None, more: Iterable[tuple[str, bytes]] = ()) -> Bundle:
    if found is None:
        return Bundle((), (name,), (), wire_bundle.pack([], [name]))
    answers = [(name, found), *more]
    packed = wire_bundle.pack([(one, wire_bundle.DATA, data, "") for one, data in answers], level=_PLAIN[2])
    return Bundle((), (), tuple(one for one, _ in answers), packed)


def _parts(name: str, sent: Collection[str]) -> Bundle:
    entries = _part_entries(_with_what_they_need([name.removeprefix("roamlet.wire.")]))
    entries = [entry for entry in entries if entry[0] == name or entry[0] not in sent]
    names = tuple(entry[0] for entry in entries)
    absent = () if name in names else (name,)
    return Bundle((), absent, names, wire_bundle.pack(entries, absent))


def _part_entries(parts: Iterable[str]) -> list[tuple[str, int, bytes, str]]:
    entries = []
    for part in parts:
        if part == "modules.children":
            sources = ((name, build.part(name)[2]) for name in build.FOR_CHILDREN)
            entries += [(f"roamlet.wire/{name}", wire_bundle.DATA, source, "") for name, source in sources]
        entries.append(build.part(part))
    return entries


def _with_what_they_need(parts: Iterable[str]) -> list[str]:
    needed: dict[str, None] = {}
    for part in parts:
        if part in build.PARTS:
            needed.update(dict.fromkeys((*build.STANDS_ON.get(part, ()), part)))
    return list(needed)


def of_locations(modules: tuple[Location, ...], form: Form = _PLAIN) -> Bundle:
    """A bundle of just these modules, their extension modules certain to be loaded. Raises CannotTravel when one cannot be read."""
    native = tuple(one.native for one in modules if one.native is not None)
    return Bundle(tuple(one.name for one in modules), (), (), _body(modules, {}, {}, form=form), native, native)


def _bundle_of(
    root: str,
    sent: Collection[str],
    has: Collection[str],
    policy: Modules,
    platform: Platform | None,
    now: tuple[scan.Imports, ...] = (),
    soon: tuple[scan.Imports, ...] = (),
    hints: Hints = NONE,
    *,
    along: Companions = NO_COMPANIONS,
    is_call: bool = False,
) -> Bundle | None:
    key: Hashable = (root, along, now, policy.key, platform)
    whole = _remembered(
        key, has, lambda: closure((root,), has, more=now, along=along, policy=policy, platform=platform)
    )
    if is_call and root in whole.unimportable:
        raise CannotTravel(
            f"{_said(root)} cannot be imported on the target: {whole.absent[root]}, or import it only inside of the "
            "functions that need it"
        )

    def second_wave(sent: Collection[str]) -> Bundle | None:
        inside = tuple(whole.inside)
        after_key = ("inside", key, is_call, inside, soon, hints)
        after = _remembered(
            after_key,
            has,
            lambda: closure_inside(
                inside, has, more=soon, first=whole if is_call else None, hints=hints, policy=policy, platform=platform
            ),
        )
        return _remaining(after, sent, _nothing, policy.form)

    if not whole.modules and hints is NONE:
        return _remaining(whole, sent, _nothing, policy.form, root)
    return _remaining(whole, sent, second_wave, policy.form, root)


def _remembered(key: Hashable, has: Collection[str], compute: Callable[[], Closure]) -> Closure:
    with _building:
        entries = _closures.get(key) or ()
        for entry in entries:
            if entry.holds_for(has):
                return entry.closure
        result = compute()
        entry = _Entry(result, frozenset(top for top in result.tops if top in has))
        kept = tuple(one for one in entries if one.had != entry.had)[-15:]
        _closures.put(key, (*kept, entry))
        return result


def _remaining(
    whole: Closure, sent: Collection[str], second_wave: SecondWave, form: Form, root: str = ""
) -> Bundle | None:
    """What of a closure has not been sent; None when that is nothing. `root` is what is about to be imported, if anything is."""
    modules = tuple(one for one in whole.modules if one.name not in sent)
    absent = {name: reason for name, reason in whole.absent.items() if name not in sent}
    files = tuple(one for one in whole.files if one.name not in sent)
    if not modules and not absent and not files:
        return None
    parts = tuple(part for part in _with_what_they_need(sorted(whole.parts)) if f"roamlet.wire.{part}" not in sent)
    complete = {one.name: whole.complete[one.name] for one in modules if one.name in whole.complete}
    data = _body(modules + files, absent, complete, parts, form)
    names = tuple(one.name for one in modules)
    file_names = (*(one.name for one in files), *(f"roamlet.wire.{part}" for part in parts))
    native = tuple(one.native for one in modules if one.native is not None)
    # What the parent itself has loaded on its way to `root` is certain to be loaded on the same way on the target.
    # A small one with a Python file beside it is imported where that would be, which would travel as well.
    certain = tuple(
        one
        for one in native
        if one.name in whole.likely
        or (root and (one.name == root or sources.is_loaded(one.name) or (one.has_twin and one.size <= shared.SMALL)))
    )
    more = _nothing if second_wave is _nothing else lambda sent: second_wave({*names, *sent})
    replaced = tuple(one.compiled for one in modules if one.compiled is not None)
    return Bundle(names, tuple(absent), file_names, data, native, certain, more, replaced)


def _body(
    parts: tuple[Location | DataFile, ...],
    absent: dict[str, str],
    complete: dict[str, tuple[str, ...]],
    wire_parts: tuple[str, ...] = (),
    form: Form = _PLAIN,
) -> bytes:
    """The body of a MODULES frame; built once for all targets with the same needs."""
    stamps = tuple((one.name, one.origin, one.stamp) for one in parts)
    key = (stamps, tuple(absent.items()), tuple(complete.items()), wire_parts, form)
    with _building:
        return _built.of(key, lambda: _compress(parts, absent, complete, wire_parts, form))


def _compress(
    parts: Iterable[Location | DataFile],
    absent: dict[str, str],
    complete: dict[str, tuple[str, ...]],
    wire_parts: tuple[str, ...],
    form: Form,
) -> bytes:
    as_bytecode, packer, level = form
    entries = _part_entries(wire_parts)
    for one in parts:
        try:
            code = scan.bytecode_of(one) if as_bytecode and _has_code(one) else None
            source = one.read() if code is None else code
        except (OSError, ImportError) as error:
            raise CannotTravel(
                f"{_said(one.name)} cannot be sent: its source {one.origin} cannot be read ({error}); "
                "was it moved or removed since it was imported?"
            ) from error
        kind = _kind(one) if code is None else _kind(one) | wire_bundle.CODE
        entries.append((one.name, kind, source, one.origin or ""))
    reasons = {name: reason for name, reason in absent.items() if reason}
    listed = {package: list(submodules) for package, submodules in complete.items()}
    return wire_bundle.pack(entries, list(absent), reasons, listed, level, packer)  # type: ignore[no-any-return]


def _has_code(one: Location | DataFile) -> TypeGuard[Location]:
    return isinstance(one, Location) and one.native is None and not one.is_namespace


def _kind(one: Location | DataFile) -> int:
    if isinstance(one, DataFile):
        return wire_bundle.DATA
    if one.native is not None:
        return wire_bundle.EXTENSION
    if one.is_namespace:
        return wire_bundle.NAMESPACE
    return wire_bundle.PACKAGE if one.is_package else wire_bundle.MODULE


def _said(module: str) -> str:
    return "the main script" if module == main_script.TRAVELS_AS else f"the module {module}"


def _unavailable(module: str, missing: Missing) -> CannotTravel | RemoteModuleNotFound:
    if module == main_script.TRAVELS_AS or missing.reason:
        return CannotTravel(f"{_said(module)} cannot be sent: {missing.reason}")
    return RemoteModuleNotFound(
        f"the module {module} is neither on the target nor here: it has no source that could be sent. "
        "Was it made by code at run time? Put the function into a module that has a file"
    )
