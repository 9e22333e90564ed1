"""What is needed of ELF: the address of a symbol of a loaded module, found in memory, and the parts of a core file."""

import struct
from typing import NamedTuple

from roamlet.diagnose.outside.system.memory import Memory

IDENT = b"\x7fELF\x02\x01"  # 64 bits, little-endian
LOAD, DYNAMIC, NOTE = 1, 2, 4
STRINGS, SYMBOLS, GNU_HASH = 5, 6, 0x6FFFFEF5
MOST_TAGS = 1000
MOST_IN_A_CHAIN = 100_000


class Segment(NamedTuple):
    """A program header."""

    kind: int
    flags: int
    offset: int
    address: int
    in_file: int  # bytes
    in_memory: int


def segments(data: bytes | bytearray) -> list[Segment]:
    """The program headers of an ELF file that begins with `data`; as many of them as `data` has."""
    where, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    found = []
    for index in range(count):
        at = where + index * size
        if size < 56 or at + 56 > len(data):
            break
        kind, flags, offset, address, _, in_file, in_memory, _ = struct.unpack_from("<IIQQQQQQ", data, at)
        found.append(Segment(kind, flags, offset, address, in_file, in_memory))
    return found


def find_symbol(memory: Memory, base: int, wanted: bytes) -> int:
    """The address of a symbol of the module loaded at `base`, by its dynamic section: no file is opened. 0: it has none."""
    header = memory.read(base, 4096)
    if not header.startswith(IDENT):
        return 0
    dynamic = next((base + each.address for each in segments(header) if each.kind == DYNAMIC), 0)
    tags: dict[int, int] = {}
    for _ in range(MOST_TAGS):
        tag = memory.word(dynamic) if dynamic else 0
        if tag == 0:
            break
        value = memory.word(dynamic + 8)
        tags[tag] = value if value >= base else base + value  # the dynamic linker has made addresses of them
        dynamic += 16
    if not {STRINGS, SYMBOLS, GNU_HASH} <= tags.keys():
        return 0
    table, code = tags[GNU_HASH], 5381
    for byte in wanted:
        code = (code * 33 + byte) & 0xFFFFFFFF
    buckets, first, bloom, _ = struct.unpack("<IIII", memory.read(table, 16))
    if buckets == 0:
        return 0
    chains = table + 16 + bloom * 8 + buckets * 4
    index = int.from_bytes(memory.read(chains - buckets * 4 + code % buckets * 4, 4), "little")
    for _ in range(MOST_IN_A_CHAIN):
        if index < first or index == 0:
            return 0
        name, _, _, _, value, _ = struct.unpack("<IBBHQQ", memory.read(tags[SYMBOLS] + index * 24, 24))
        if memory.read(tags[STRINGS] + name, len(wanted) + 1) == wanted + b"\0":
            return int(base + value)
        if memory.read(chains + (index - first) * 4, 4)[0] & 1:
            return 0
        index += 1
    return 0
