"""What a context may be sent of the parent's modules, and whose copy counts where both sides have a package.

A decision about names and nothing else: what a call needs is computed in modules/imports/closure.py, which asks here
about each name.
"""

import functools
import importlib.util
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from roamlet.remote.modules.finding import standard
from roamlet.remote.modules.finding.sources import Missing, find
from roamlet.remote.modules.main_script import TRAVELS_AS

SIDES = ("target", "parent", "newer", "same")
COMPRESSIONS = ("zlib", "xz", "zstd")


@dataclass(frozen=True, kw_only=True, slots=True)
class Modules:
    """Which modules travel to a context: `remote.ssh("alpha", modules=remote.Modules(deny=["secrets_of_ours"]))`.

    `allow`: names of the only modules that may travel, each with all its submodules; None is every one that the parent can
    import. `deny`: names that never travel, nor their submodules; it wins over `allow`. Neither concerns what the target has
    itself. The main script is "__main__" in both. An import of what is kept back raises an ImportError that names the policy; a
    call that certainly needs it is refused here, before anything is sent.

    `prefer`: whose copy of a top-level package counts where both sides have it. "target" (the default) is the one on
    the target, "parent" the one here, "newer" the one with the higher version, "same" theirs, but only if it has our version:
    otherwise the context is not opened (VersionConflict). One word for all packages or a dict from a package to a word, as in
    {"requests": "parent"}. The standard library is always the target's.

    `bytecode`: True sends bytecode where both sides run the same Python, which is twice the bytes and needs no compiling
    on the target; False sends sources; None decides by the transport: bytecode for what stays on this machine. `compression` is
    "zlib", "xz" (smaller by a fifth, much slower to make) or "zstd" (3.14 on both sides); None is the best that both have
    and that costs no time. What the other side cannot unpack is not used.
    """

    allow: Collection[str] | None = None
    deny: Collection[str] = ()
    prefer: str | Mapping[str, str] = "target"
    bytecode: bool | None = None
    compression: str | None = None
    key: tuple[object, ...] = field(init=False, repr=False, compare=False)
    """What of it decides about names; hashable."""

    def __post_init__(self) -> None:
        allow = None if self.allow is None else _names("allow", self.allow)
        deny = _names("deny", self.deny)
        for package, side in _sides(self.prefer):
            if side not in SIDES:
                where = "prefer" if package is None else f"prefer[{package!r}]"
                raise ValueError(f"{where} must be one of {', '.join(map(repr, SIDES))}, not {side!r}")
            if package is not None and (not isinstance(package, str) or not package.isidentifier()):
                raise ValueError(f"prefer takes top-level packages such as 'requests', not {package!r}")
        if self.bytecode not in (None, True, False):
            raise ValueError(f"bytecode must be True, False or None, not {self.bytecode!r}")
        if self.compression not in (None, *COMPRESSIONS):
            raise ValueError(
                f"compression must be one of {', '.join(map(repr, COMPRESSIONS))} or None, not {self.compression!r}"
            )
        object.__setattr__(self, "allow", allow)
        object.__setattr__(self, "deny", deny)
        object.__setattr__(self, "key", (allow, deny))

    @property
    def form(self) -> tuple[bool, str, int]:
        """How bundles are made: whether of bytecode, how they are compressed, and how hard."""
        packer = self.compression or "zlib"
        # What stays on this machine need not be small. The levels for the others cost about the same: for Django 60 ms with
        # zlib's (9 gives 1 % for four times as long), xz's a second, for a fifth less.
        return bool(self.bytecode), packer, {"zlib": 1 if self.bytecode else 6, "xz": 6, "zstd": 9}[packer]

    def settled(self, magic: bytes, implementation: str, packages: Collection[str], *, is_near: bool) -> "Modules":
        """The same with `bytecode` and `compression` decided for one target: what it cannot take is not used.

        `is_near`: what is sent to it stays on this machine.
        """
        same = magic == importlib.util.MAGIC_NUMBER and implementation == sys.implementation.name
        wanted = is_near if self.bytecode is None else self.bytecode
        compression = self.compression or ("zlib" if is_near else "zstd")
        if compression not in packers_of(packages) & packers_of(sys.stdlib_module_names):
            compression = "zlib"
        return replace(self, bytecode=wanted and same and not sys.flags.optimize, compression=compression)

    def refusal(self, name: str) -> str:
        """Why the module `name` may not travel, as a clause about it, or "" when it may."""
        if name == TRAVELS_AS:
            name = "__main__"  # as the lists call it
        for denied in self.deny:
            if _lies_in(name, denied):
                return f"{name} is kept back: this context was opened with Modules(deny=[{denied!r}])"
        if self.allow is None or any(_lies_in(name, one) or _lies_in(one, name) for one in self.allow):
            return ""
        return f"{name} is kept back: this context was opened with Modules(allow=[...]), which does not name it"

    def side(self, package: str) -> str:
        """Whose copy of a top-level package counts, in one of the words of `prefer`."""
        return self.prefer if isinstance(self.prefer, str) else self.prefer.get(package, "target")

    def counts_on_target(self, has: Iterable[str]) -> frozenset[str]:
        """Of the top-level names that the target has, those that it imports from itself. Reads no source."""
        return _one(frozenset(name for name in has if self.side(name) != "parent" or not self._comes_from_here(name)))

    def _comes_from_here(self, name: str) -> bool:
        return not standard.is_standard(name) and not self.refusal(name) and not isinstance(find(name), Missing)

    def config(self) -> str | list[str]:
        """The word `prefer` of CONFIG: the packages of which the parent may bring its own copy, or "parent" for all."""
        if isinstance(self.prefer, str):
            return "target" if self.prefer in ("target", "same") else "parent"
        return [package for package, side in self.prefer.items() if side in ("parent", "newer")]


def packers_of(packages: Collection[str]) -> set[str]:
    """What can be unpacked by a Python that has these top-level modules."""
    needs = {"zlib": "zlib", "xz": "_lzma", "zstd": "_zstd"}
    return {packer for packer, module in needs.items() if module in packages}


@functools.lru_cache(maxsize=32)
def _one(names: frozenset[str]) -> frozenset[str]:
    """One set for all contexts whose sets are equal: it takes 30 kB."""
    return names


def _lies_in(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _sides(prefer: str | Mapping[str, str]) -> list[tuple[str | None, str]]:
    return [(None, prefer)] if isinstance(prefer, str) else [(package, side) for package, side in prefer.items()]


def _names(what: str, names: Collection[str]) -> tuple[str, ...]:
    given = () if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) and _is_dotted(name) for name in given):
        raise ValueError(f"{what} takes a list of names of modules, such as ['django', 'app.secrets'], not {names!r}")
    return tuple(sorted(set(given)))


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


EVERYTHING = Modules()
