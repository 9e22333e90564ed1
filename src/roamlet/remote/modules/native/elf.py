"""What a shared object asks of the machine that loads it: a small reader of ELF files, for Linux.

Reads what the dynamic linker reads (program headers, dynamic section, needed versions) and nothing else; section headers may be
stripped. A file is untrusted input: whatever in it is wrong raises BadObject, which names the file.
"""

import os
import struct
from typing import BinaryIO, NamedTuple

MACHINES = {
    3: "i386",
    8: "mips",
    20: "ppc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
LARGEST_TABLE = 16 << 20
"""In bytes: no real dynamic section or string table comes near it."""
MOST_HEADERS = 4096
MOST_VERSIONS = 65536

_LOAD, _DYNAMIC = 1, 2  # kinds of program headers
_NEEDED, _STRTAB, _STRSZ, _SONAME, _RPATH, _RUNPATH = 1, 5, 10, 14, 15, 29  # tags of the dynamic section
_VERNEED, _VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


class BadObject(ValueError):
    """A file that is no shared object, or one whose parts do not fit together. The message names it."""


class SharedObject(NamedTuple):
    """What one file contains.

    `needed` are the sonames that it needs, in order; `search` is its RUNPATH, or else its RPATH, as written. `versions` are
    pairs: the soname of a library, a version of its symbols that must be there ("libc.so.6", "GLIBC_2.28"). `machine` is
    "x86_64" and so on, or "machine 123" for one that is not known here.
    """

    machine: str
    soname: str
    needed: tuple[str, ...]
    search: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]


def read(path: str) -> SharedObject:
    """Read the file at `path`: some kilobytes of it, however large it is. Raises BadObject, and OSError when it cannot be read."""
    with open(path, "rb") as file:
        return _Reader(file, path).read()


class _Reader:
    """One reading of one file; thrown away afterwards."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self.file = file
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self.segments: list[tuple[int, int, int]] = []  # address, offset in the file, bytes that are in the file
        self.dynamic: list[tuple[int, int]] = []
        self.strings = b""

    def read(self) -> SharedObject:
        start = self.bytes_at(0, 20)
        if start[:4] != b"\x7fELF" or start[4] not in (1, 2) or start[5] not in (1, 2):
            raise self.bad("it does not begin as one")
        self.wide = start[4] == 2
        self.order = "<" if start[5] == 1 else ">"
        kind, machine = self.unpack("HH", start[16:20])
        if kind != 3:
            raise self.bad(f"its type is {kind}, not 3 (shared object)")
        self.read_headers()
        entries = dict(reversed(self.dynamic))  # of tags that stand once; the first one counts
        if _STRTAB in entries:
            length = min(entries.get(_STRSZ, 0), LARGEST_TABLE)
            self.strings = self.bytes_at(self.offset_of(entries[_STRTAB]), length)
        search = entries.get(_RUNPATH, entries.get(_RPATH))
        return SharedObject(
            MACHINES.get(machine, f"machine {machine}"),
            self.string(entries[_SONAME]) if _SONAME in entries else "",
            tuple(self.string(value) for tag, value in self.dynamic if tag == _NEEDED),
            () if search is None else tuple(filter(None, self.string(search).split(":"))),
            tuple(self.versions(entries)),
        )

    def bad(self, why: str) -> BadObject:
        return BadObject(f"{self.path} is no shared object that could be loaded: {why}")

    def bytes_at(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise self.bad(f"{length} bytes at {offset} lie outside of its {self.size} bytes; is it cut off?")
        self.file.seek(offset)
        data = self.file.read(length)
        if len(data) != length:
            raise self.bad("it became shorter while it was read")
        return data

    def unpack(self, layout: str, data: bytes) -> tuple[int, ...]:
        return struct.unpack(self.order + layout, data)

    def read_headers(self) -> None:
        """The program headers: what lies where in memory, and the dynamic section."""
        if self.wide:
            (table,) = self.unpack("Q", self.bytes_at(32, 8))
            size, count = self.unpack("HH", self.bytes_at(54, 4))
        else:
            (table,) = self.unpack("I", self.bytes_at(28, 4))
            size, count = self.unpack("HH", self.bytes_at(42, 4))
        if size != (56 if self.wide else 32) or not 0 < count <= MOST_HEADERS:
            raise self.bad(f"it has {count} program headers of {size} bytes")
        data = self.bytes_at(table, size * count)
        dynamic = None
        for at in range(0, size * count, size):
            one = data[at : at + size]
            if self.wide:
                kind, _, offset, address, _, length, _, _ = self.unpack("IIQQQQQQ", one)
            else:
                kind, offset, address, _, length, _, _, _ = self.unpack("IIIIIIII", one)
            if kind == _LOAD:
                self.segments.append((address, offset, length))
            elif kind == _DYNAMIC:
                dynamic = (offset, length)
        if dynamic is None:
            raise self.bad("it has no dynamic section")
        self.read_dynamic(*dynamic)

    def read_dynamic(self, offset: int, length: int) -> None:
        entry = 16 if self.wide else 8
        if length > LARGEST_TABLE:
            raise self.bad(f"its dynamic section has {length} bytes")
        data = self.bytes_at(offset, length - length % entry)
        for tag, value in struct.iter_unpack(self.order + ("QQ" if self.wide else "II"), data):
            if tag == 0:
                break
            self.dynamic.append((tag, value))

    def offset_of(self, address: int) -> int:
        for start, offset, length in self.segments:
            if start <= address < start + length:
                return offset + address - start
        raise self.bad(f"the address {address:#x} is in none of its segments")

    def string(self, at: int) -> str:
        end = self.strings.find(b"\0", at)
        if at >= len(self.strings) or end < 0:
            raise self.bad(f"a name at {at} is not in its table of {len(self.strings)} bytes")
        return os.fsdecode(self.strings[at:end])

    def versions(self, entries: dict[int, int]) -> list[tuple[str, str]]:
        """The versions of other libraries' symbols that must be there: a list of lists, linked by distances."""
        found: list[tuple[str, str]] = []
        if _VERNEED not in entries:
            return found
        at = self.offset_of(entries[_VERNEED])
        for _ in range(min(entries.get(_VERNEEDNUM, 0), MOST_VERSIONS)):
            _, count, library, first, following = self.unpack("HHIII", self.bytes_at(at, 16))
            name = self.string(library)
            one = at + first
            for _ in range(count):
                _, _, _, version, after = self.unpack("IHHII", self.bytes_at(one, 16))
                found.append((name, self.string(version)))
                if len(found) > MOST_VERSIONS:
                    raise self.bad("its list of versions does not end")
                if not after:
                    break
                one += after
            if not following:
                break
            at += following
        return found
