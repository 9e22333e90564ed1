"""Which files of a payload are, byte for byte, those of the ansible-core that is installed in this process's Python."""

import hashlib
import importlib.util
import os
import re
from functools import cache

# Two packages of a payload are made by core, not read from a file. These are their texts' digests, without version and author.
_MADE = {
    "ansible/__init__.py": "15b75ed987255dcf1b4d71a78277b03db9f38de6d026613c379bbc5217026290",
    "ansible/module_utils/__init__.py": "3bea36b844882f519ff93562bdaeca5e4c40bed49672319d8766e046d96d4cab",
}
_RELEASE = rb"""(?m)^(__version__|__author__) ?= ?(["'])([^"'\\\n]*)\2$"""

_digests: dict[str, tuple[int, int, bytes]] = {}  # as many as core has files


def core_file(path: str, source: bytes) -> bool:
    """Whether the file `path` of a payload is the installed core's own: no module_utils of a role or a collection instead of it.

    Reads the installed file when it is asked first and whenever it has changed. False where no core is installed. Thread-safe.
    """
    folder = root()
    if folder is None or not re.fullmatch(r"ansible(/[A-Za-z_][A-Za-z0-9_]*)*\.py", path):
        return False
    if path in _MADE:
        return _made_by_core(folder, path, source)
    return hashlib.sha256(source).digest() == _installed(os.path.join(folder, *path.split("/")[1:]))


@cache
def root() -> str | None:
    """The folder of the installed core, which is looked for once; None where none is."""
    try:
        spec = importlib.util.find_spec("ansible")
    except ValueError:  # a module without a spec has that name
        return None
    return None if spec is None or spec.origin is None else os.path.dirname(spec.origin)


def _installed(file: str) -> bytes | None:
    try:
        found = os.stat(file)
        known = _digests.get(file)
        if known is None or known[:2] != (found.st_mtime_ns, found.st_size):
            with open(file, "rb") as opened:
                known = found.st_mtime_ns, found.st_size, hashlib.sha256(opened.read()).digest()
            _digests[file] = known
        return known[2]
    except OSError:
        return None


def _made_by_core(root: str, path: str, source: bytes) -> bool:
    release = dict(_release(root))
    said = {name: value for name, _, value in re.findall(_RELEASE, source)}
    if any(release.get(name) != value for name, value in said.items()):
        return False
    return hashlib.sha256(re.sub(_RELEASE, rb"\1", source)).hexdigest() == _MADE[path]


@cache
def _release(root: str) -> tuple[tuple[bytes, bytes], ...]:
    try:
        with open(os.path.join(root, "release.py"), "rb") as file:
            return tuple((name, value) for name, _, value in re.findall(_RELEASE, file.read()))
    except OSError:
        return ()
