"""Whether an extension module of this machine can run on another one, and with which libraries of this machine.

Decided from its file name, from what its ELF files ask for, and from what the target reports about itself; nothing is loaded.
"""

import os
import re
from collections.abc import Hashable
from pathlib import Path

from roamlet.remote.modules.bounded import Bounded
from roamlet.remote.modules.finding import distributions
from roamlet.remote.modules.finding.sources import Location, Missing, find, stamp_of
from roamlet.remote.modules.native import elf, platforms
from roamlet.remote.modules.native.platforms import Platform
from roamlet.remote.modules.native.shared import Extension, SharedFile, shared_file

LARGEST = 256 << 20
"""In bytes, of all files of one module: they stay in the memory of the target."""

# Libraries that belong to the C library or to the interpreter: each machine has its own.
_SYSTEM = re.compile(r"(ld-linux.*|ld64|lib(c|m|dl|rt|pthread|util|resolv|anl|mvec|crypt|python\d.*))\.so(\..*)?")
_read: Bounded[tuple[str, Hashable], elf.SharedObject] = Bounded(2048)
_named: Bounded[tuple[str, Hashable], frozenset[str]] = Bounded(2048)
_since: Bounded[tuple[str, Hashable], tuple[tuple[int, int] | None]] = Bounded(2048)


def fitting(found: Location | Missing, target: Platform | None) -> Location | Missing:
    """What `sources.find` has found; in place of an extension module one that can travel to `target`, or the reason why not.

    A Python file beside an extension module stays what travels only where the extension module cannot run; `compiled` says why.
    Reads some kilobytes of each file the first time; thread-safe. Raises nothing: what cannot be read cannot travel.
    """
    if isinstance(found, Location) and found.compiled is not None:
        compiled = fitting(found.compiled, target)
        if isinstance(compiled, Missing):
            return found._replace(compiled=compiled)
        assert compiled.native is not None
        native = compiled.native._replace(has_twin=True)
        return compiled._replace(native=native, twin=found, stamp=(compiled.stamp, found.stamp))
    if not isinstance(found, Missing) or not found.origin or target is None:
        return found
    path = found.origin
    try:
        files = _files(path)
        problem = _problem(path, files, target)
        shared = tuple(shared_file(one, its.soname) for one, its in files)
    except (elf.BadObject, OSError) as error:
        problem = f": {error}"
        shared = ()
    if not problem and sum(one.size for one in shared) > LARGEST:
        problem = f": with its libraries it has more than {LARGEST >> 20} MiB"
    if problem:
        return Missing(found.name, refusal(found.name, path, problem), True, path, found.search)
    native = Extension(found.name, found.search is not None, shared)
    return Location(found.name, native.is_package, path, _stamp(shared), found.search, native=native)


def why_not(name: str, target: Platform) -> str:
    """Why the module `name` of this process cannot go to `target`; empty where it can, and for other than extension modules."""
    found = fitting(find(name), target)
    return found.reason if isinstance(found, Missing) and found.origin else ""


def named_in(native: Extension) -> frozenset[str]:
    """Names of modules of its own package that are in the file of an extension module, and of mypyc's: what its C code may import.

    Code that Cython made imports by such names. What mypyc made imports the module that holds the code of a whole group, which may
    lie at the top level. A name proves nothing; whether there is such a module is for the caller to see.
    Reads the whole file the first time, some 10 ms for 10 MB; thread-safe. What cannot be read names nothing.
    """
    file = native.files[-1]
    return _named.of((native.name, file.stamp), lambda: _names_in(file.path, native.name))


def _names_in(path: str, name: str) -> frozenset[str]:
    try:
        data = Path(path).read_bytes()
    except OSError:
        return frozenset()
    package = name.partition(".")[0]
    found = re.findall(re.escape(package.encode()) + rb"(?:\.[A-Za-z_]\w*)+", data, re.ASCII)
    if b"__mypyc" in data:  # looked for apart, as this pattern begins at every word
        found += re.findall(rb"\b\w+__mypyc\b", data, re.ASCII)
    return frozenset(one.decode("ascii") for one in found) - {name}


def refusal(name: str, path: str, problem: str) -> str:
    """The sentence for an extension module that stays here; `problem` begins with ":"."""
    what = f"{name} is an extension module ({os.path.basename(path)}), which cannot be sent{problem}"
    return what + advice(name.partition(".")[0])


def advice(package: str) -> str:
    """How such a sentence ends."""
    return f". Install {package} on the target"


def _problem(path: str, files: list[tuple[str, elf.SharedObject]], target: Platform) -> str:
    """Why these files cannot run on the target, both platforms named; empty when they can, as far as this can be known."""
    here = platforms.here()
    suffix = next(one for one in here.suffixes if path.endswith(one))
    needs = max((_glibc(one) for _, one in files), default=(0, 0))
    oldest = None
    if suffix == ".abi3.so":
        (oldest,) = _since.of((path, stamp_of(path)), lambda: (distributions.oldest_python(path),))
    fits = (
        suffix in target.suffixes
        and bool(target.triplet)
        and target.triplet == here.triplet
        and (target.system, target.implementation) == (here.system, here.implementation)
        # An ending without a version says nothing. That of abi3 does not say since when: where no wheel tells either, the dynamic
        # linker of the target will.
        and (suffix != ".so" or target.python == here.python)
        and (oldest is None or target.python >= oldest)
        and all(_is_for(one, target) for _, one in files)
        and target.glibc is not None
        and target.glibc >= needs
    )
    if fits:
        return ""
    machines = sorted({one.machine for _, one in files})
    libc = (
        f"glibc {needs[0]}.{needs[1]} or later"
        if needs > (0, 0)
        else "glibc"
        if here.glibc
        else "another libc than glibc"
    )
    abi = suffix.strip(".").removesuffix(".so") if suffix != ".so" else here.abi
    version = f"{here.python[0]}.{here.python[1]}"
    if suffix == ".abi3.so":
        version = "3" if oldest is None else f"{oldest[0]}.{oldest[1]} or later"
    return (
        f": it is built for {here.implementation} {version} ({abi}) on {here.system} {', '.join(machines)} with {libc}, and the "
        f"target is {target}"
    )


def _is_for(one: elf.SharedObject, target: Platform) -> bool:
    machine = target.triplet.partition("-")[0]
    return machine == one.machine or machine not in elf.MACHINES.values()


def _glibc(one: elf.SharedObject) -> tuple[int, int]:
    """The oldest glibc that has the symbols which this file needs."""
    found = [(0, 0)]
    for _, version in one.versions:
        if version == "GLIBC_ABI_DT_RELR":
            found.append((2, 36))
        elif match := re.fullmatch(r"GLIBC_(\d{1,4})\.(\d{1,4})(\.\d+)?", version):
            found.append((int(match.group(1)), int(match.group(2))))
    return max(found)


def _files(path: str) -> list[tuple[str, elf.SharedObject]]:
    """The file, after the libraries that it finds by its own search path in this process, and those that they find in turn.

    The libraries are in the order in which the linker searches them: level by level.
    """
    found = {path: _object(path)}
    waiting: list[tuple[str, tuple[str, ...]]] = [(path, ())]
    for file, inherited in waiting:
        origin = os.path.dirname(os.path.abspath(file))
        own = tuple(place.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for place in found[file].search)
        places = (*own, *inherited)
        for name in found[file].needed:
            library = None if _SYSTEM.fullmatch(name) or "/" in name else _in_places(name, places)
            if library is not None and library not in found:
                found[library] = _object(library)
                waiting.append((library, places))
    (module, *libraries) = found.items()
    return [*libraries, module]


def _in_places(name: str, places: tuple[str, ...]) -> str | None:
    """Where a library lies that came with the package. A library that is not there is the system's own, on the target as well."""
    for place in places:
        path = os.path.normpath(os.path.join(place, name))
        if os.path.isabs(place) and os.path.isfile(path):
            return path
    return None


def _object(path: str) -> elf.SharedObject:
    return _read.of((path, stamp_of(path)), lambda: elf.read(path))


def _stamp(files: tuple[SharedFile, ...]) -> Hashable:
    return ("shared", tuple((one.path, one.stamp) for one in files))
