"""Shared objects that only a reader of ELF would take: each field as a test wants it, and no code."""

import struct

BASE = 0x10000


def shared_object(
    needed: tuple[str, ...] = (),
    soname: str = "",
    search: str = "",
    versions: tuple[tuple[str, tuple[str, ...]], ...] = (),
    machine: int = 62,
    bits: int = 64,
    order: str = "<",
    tag_of_search: int = 29,
) -> bytes:
    """The bytes of a file whose only loaded segment is itself, at the address BASE."""
    strings = bytearray(b"\0")

    def name(text: str) -> int:
        at = len(strings)
        strings.extend(text.encode() + b"\0")
        return at

    entries = [(1, name(one)) for one in needed]
    if soname:
        entries.append((14, name(soname)))
    if search:
        entries.append((tag_of_search, name(search)))
    verneed = b""
    for index, (library, names) in enumerate(versions):
        following = 16 + 16 * len(names) if index + 1 < len(versions) else 0
        verneed += struct.pack(order + "HHIII", 1, len(names), name(library), 16, following)
        for number, version in enumerate(names):
            verneed += struct.pack(order + "IHHII", 0, 0, 2, name(version), 16 if number + 1 < len(names) else 0)
    wide = bits == 64
    header, program, word = (64, 56, "Q") if wide else (52, 32, "I")
    count = len(entries) + 5
    dynamic_at = header + 2 * program
    strings_at = dynamic_at + count * 2 * struct.calcsize(order + word)
    versions_at = strings_at + len(strings)
    end = versions_at + len(verneed)
    entries += [(5, BASE + strings_at), (10, len(strings))]
    if versions:
        entries += [(0x6FFFFFFE, BASE + versions_at), (0x6FFFFFFF, len(versions))]
    entries += [(0, 0)] * (count - len(entries))
    dynamic = b"".join(struct.pack(order + 2 * word, *entry) for entry in entries)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    head = ident + struct.pack(
        f"{order}HHI{3 * word}IHHHHHH", 3, machine, 1, 0, header, 0, 0, header, program, 2, 0, 0, 0
    )
    segments = b""
    for kind, offset, size in ((1, 0, end), (2, dynamic_at, len(dynamic))):
        if wide:
            segments += struct.pack(order + "IIQQQQQQ", kind, 4, offset, BASE + offset, 0, size, size, 8)
        else:
            segments += struct.pack(order + "IIIIIIII", kind, offset, BASE + offset, 0, size, size, 4, 8)
    return head + segments + dynamic + bytes(strings) + verneed
