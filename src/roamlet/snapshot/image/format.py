"""The bytes of a snapshot: a header that can be checked before anything is read, and the pickles after it.

| bytes | what |
| --- | --- |
| 8 | `MAGIC` |
| 1 | `FORMAT` |
| 2 | major and minor version of CPython |
| 4 | its bytecode's number |
| 16 | BLAKE2b of all that follows |
| 4 | length of the table |
| that many | the table, marshalled: platform, roamlet's version; module, name, path and fingerprint of all code that is named; |
| | in a checkpoint also its description, see `saving/about.py` |
| the rest | the pickles |

Numbers are little-endian. The checks do not tell who wrote the bytes: a snapshot is
trusted as any pickle is.
"""

import hashlib
import marshal
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER
from typing import Any, BinaryIO

from roamlet._version import VERSION
from roamlet.snapshot._errors import BadSnapshot
from roamlet.snapshot.references.code import Reference

MAGIC = b"\x93roamlet"
FORMAT = 1
_DIGEST = 16
_START = struct.Struct(f"<{len(MAGIC)}sBBB4s{_DIGEST}s")
_LENGTH = struct.Struct("<I")


def write(entries: Iterable[tuple[Reference, bytes]], pickles: bytes, about: dict[str, Any] | None = None) -> bytes:
    """All the bytes of a snapshot; entries in the order of their numbers; `about` describes a checkpoint, see saving/about.py."""
    table = marshal.dumps((sys.platform, VERSION, tuple(entries), *(() if about is None else (about,))))
    rest = b"".join((_LENGTH.pack(len(table)), table, pickles))
    digest = hashlib.blake2b(rest, digest_size=_DIGEST).digest()
    return _START.pack(MAGIC, FORMAT, *sys.version_info[:2], MAGIC_NUMBER, digest) + rest


def _check_start(data: memoryview, any_python: bool) -> bytes:
    """Refuse bytes that are no snapshot for this Python, or for any. Returns the digest of the rest."""
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise BadSnapshot("these bytes are no snapshot of roamlet's: they do not begin like one")
    if len(data) < _START.size:
        raise BadSnapshot(f"the snapshot is truncated: it ends inside its header, after {len(data)} bytes")
    _, form, major, minor, number, digest = _START.unpack_from(data)
    if form != FORMAT:
        raise BadSnapshot(
            f"the snapshot has format {form}, and this roamlet reads format {FORMAT}: restore it with the roamlet that saved it"
        )
    own = sys.version_info[:2]
    if ((major, minor) != own or number != MAGIC_NUMBER) and not any_python:
        raise BadSnapshot(
            f"the snapshot is of CPython {major}.{minor} (bytecode {number.hex()}), and this is {own[0]}.{own[1]} "
            f"({MAGIC_NUMBER.hex()}): frames fit their own version alone. Restore it with python{major}.{minor}"
        )
    return bytes(digest)


def read_file(stream: BinaryIO, *, any_python: bool = False) -> bytes:
    """All bytes of a file. BadSnapshot as soon as its first ones are not a snapshot's, however long it is."""
    start = stream.read(_START.size)
    _check_start(memoryview(start), any_python)
    return start + stream.read()


def parts(
    data: bytes | bytearray | memoryview, *, any_python: bool = False
) -> tuple[tuple[int, int], bytes, memoryview]:
    """The version of CPython, the table and the pickles, once the digest has been checked. Reads neither of the last two."""
    view = memoryview(data).cast("B")
    digest = _check_start(view, any_python)
    rest = view[_START.size :]
    if len(rest) < _LENGTH.size or hashlib.blake2b(rest, digest_size=_DIGEST).digest() != digest:
        raise BadSnapshot(
            "the snapshot is damaged: its bytes are not those that were saved. Was it truncated, or changed on the way?"
        )
    (length,) = _LENGTH.unpack_from(rest)
    if length > len(rest) - _LENGTH.size:
        raise BadSnapshot("the snapshot's table of code ends after its last byte: it was not written by roamlet")
    _, _, major, minor, *_ = _START.unpack_from(view)
    return (major, minor), bytes(rest[_LENGTH.size : _LENGTH.size + length]), rest[_LENGTH.size + length :]


@dataclass(frozen=True)
class Header:
    """What is before the pickles in a snapshot for this Python."""

    references: tuple[tuple[Reference, bytes], ...]
    about: dict[str, Any]


def read(data: bytes | bytearray | memoryview) -> tuple[Header, memoryview]:
    """Check a snapshot: its header, and the pickles. Imports and unpickles nothing."""
    _, marshalled, pickles = parts(data)
    try:
        platform, version, entries, *more = marshal.loads(marshalled)
    except (ValueError, EOFError, TypeError) as error:
        raise BadSnapshot(
            f"the snapshot's table of code cannot be read: it was not written by roamlet ({error})"
        ) from error
    if platform != sys.platform:
        raise BadSnapshot(f"the snapshot was made on {platform!r} (by roamlet {version}), and this is {sys.platform!r}")
    return Header(entries, more[0] if more else {}), pickles
