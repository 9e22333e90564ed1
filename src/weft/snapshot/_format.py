"""The bytes of a snapshot: a header that can be checked before anything is read, and the pickles behind it.

| bytes | what |
| --- | --- |
| 5 | `MAGIC` |
| 1 | `FORMAT` |
| 2 | major and minor version of CPython |
| 4 | its bytecode's number |
| 16 | BLAKE2b of all that follows |
| 4 + 4 | length of the table and, behind it, of the pickles |
| 1 + n | platform, as sys.platform |
| 1 + n | weft's version, for messages |
| the rest | the table of code: modules, then module, name, path and fingerprint of each; then the pickles |

Texts are UTF-8 behind their length, numbers little-endian. What the bytes were checked for is not who wrote them: a snapshot is
trusted as any pickle is.
"""

import hashlib
import struct
import sys
from collections.abc import Iterable
from importlib.util import MAGIC_NUMBER

from weft.snapshot._code import FINGERPRINT, Reference
from weft.snapshot._errors import BadSnapshot

MAGIC = b"\x93weft"
FORMAT = 1
_DIGEST = 16
_START = struct.Struct(f"<5sBBB4s{_DIGEST}s")
_LENGTHS = struct.Struct("<II")
_LONGEST = 2**32 - 1


def _text(value: str) -> bytes:
    encoded = value.encode()
    if len(encoded) < 0xFF:
        return bytes((len(encoded),)) + encoded
    return b"\xff" + struct.pack("<H", len(encoded)) + encoded


def _table(entries: Iterable[tuple[Reference, bytes]]) -> bytes:
    modules: dict[str, int] = {}
    rows = []
    for (module, name, path), fingerprint in entries:
        number = modules.setdefault(module, len(modules))
        rows.append(
            struct.pack("<HB", number, len(path)) + struct.pack(f"<{len(path)}I", *path) + fingerprint + _text(name)
        )
    return b"".join(
        (struct.pack("<HI", len(modules), len(rows)), *(_text(each) for each in modules), *rows),
    )


def write(entries: Iterable[tuple[Reference, bytes]], pickles: bytes, version: str) -> bytes:
    """All the bytes of a snapshot; entries in the order of their numbers."""
    table = _table(entries)
    if len(pickles) > _LONGEST:
        raise BadSnapshot("the snapshot would have more than 4 GiB: save less at once")
    rest = b"".join((_LENGTHS.pack(len(table), len(pickles)), _text(sys.platform), _text(version), table, pickles))
    digest = hashlib.blake2b(rest, digest_size=_DIGEST).digest()
    return _START.pack(MAGIC, FORMAT, *sys.version_info[:2], MAGIC_NUMBER, digest) + rest


class _Reader:
    """Takes pieces off bytes whose digest was right; IndexError and struct.error mean a mistake of the writer's."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> memoryview:
        piece = self.data[self.at : self.at + count]
        if len(piece) < count:
            raise BadSnapshot("the snapshot's header is inconsistent: it was not written by weft")
        self.at += count
        return piece

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def text(self) -> str:
        (length,) = self.numbers("B")
        if length == 0xFF:
            (length,) = self.numbers("H")
        return str(self.take(length), "utf-8")


def _check_start(data: memoryview) -> bytes:
    """Whether these bytes are a snapshot for this Python at all: the digest of the rest."""
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise BadSnapshot("these bytes are no snapshot of weft's: they do not begin like one")
    if len(data) < _START.size:
        raise BadSnapshot(f"the snapshot is truncated: it ends inside its header, after {len(data)} bytes")
    _, form, major, minor, number, digest = _START.unpack_from(data)
    if form != FORMAT:
        raise BadSnapshot(
            f"the snapshot has format {form}, and this weft reads format {FORMAT}: restore it with the weft that saved it"
        )
    own = sys.version_info[:2]
    if (major, minor) != own or number != MAGIC_NUMBER:
        raise BadSnapshot(
            f"the snapshot is of CPython {major}.{minor} (bytecode {number.hex()}), and this is {own[0]}.{own[1]} "
            f"({MAGIC_NUMBER.hex()}): frames fit their own version alone. Restore it with python{major}.{minor}"
        )
    return bytes(digest)


def read(data: bytes | bytearray | memoryview) -> tuple[list[tuple[Reference, bytes]], memoryview]:
    """Check a snapshot: the references in its table with their fingerprints, and the pickles. Imports and unpickles nothing."""
    view = memoryview(data).cast("B")
    digest = _check_start(view)
    rest = view[_START.size :]
    if hashlib.blake2b(rest, digest_size=_DIGEST).digest() != digest:
        raise BadSnapshot(
            "the snapshot is damaged: its bytes are not those that were saved. Was it truncated, or changed on the way?"
        )
    reader = _Reader(rest)
    table_length, pickles_length = reader.numbers("II")
    platform, version = reader.text(), reader.text()
    if platform != sys.platform:
        raise BadSnapshot(f"the snapshot was made on {platform!r} (by weft {version}), and this is {sys.platform!r}")
    end = reader.at + table_length
    modules_count, count = reader.numbers("HI")
    modules = [reader.text() for _ in range(modules_count)]
    entries = []
    for _ in range(count):
        number, steps = reader.numbers("HB")
        path = reader.numbers(f"{steps}I")
        fingerprint = bytes(reader.take(FINGERPRINT))
        entries.append(((modules[number], reader.text(), path), fingerprint))
    if reader.at != end or len(rest) != end + pickles_length:
        raise BadSnapshot("the snapshot's header is inconsistent: it was not written by weft")
    return entries, rest[end:]
