"""Copies of a process's memory, for tests that damage them; and core files made of a live process."""

import os
import random
import struct
from collections.abc import Callable, Iterator
from io import FileIO

from roamlet.diagnose.outside.reading import _consistent, reader_of
from roamlet.diagnose.outside.system.memory import Buffers, Mapping, ProcessSource, Source


class ImageSource(Source):
    """Blocks of memory, as they are."""

    def __init__(self, blocks: dict[int, bytes], mappings: list[Mapping]) -> None:
        self.blocks = blocks
        self.set_mappings(mappings)

    def plan(self, buffers: Buffers, places: list[int] | None = None) -> Callable[[], None]:
        def fill() -> None:
            for address, buffer in buffers:
                for low, high in self.pieces(address, address + len(buffer)):
                    block = self.blocks.get(low)
                    if block is not None:
                        buffer[low - address : high - address] = block[: high - low]

        return fill


def captured(pid: int) -> ImageSource:
    """What a reader looks at when it reads a process."""
    source = ProcessSource(pid)
    reader = reader_of(source, with_locals=True)
    _consistent(reader, source)
    from roamlet.diagnose import model
    from roamlet.diagnose.outside.describing import Description

    Description(reader, None).add_to(model.Process(pid))
    memory = reader.memory
    blocks, mappings = {}, []
    for number, block in memory.blocks.items():
        address = number << memory.shift
        blocks[address] = bytes(block)
        inside = next((m for m in source.mappings if m.start < address + memory.size and m.end > address), None)
        mappings.append(Mapping(address, address + memory.size, "", inside is not None and inside.writable))
    # A module is found by the path of its first page.
    for module in source.mappings:
        if "/roamlet/" in module.path:
            mappings = [
                Mapping(m.start, m.end, module.path, module.writable)
                if m.start <= module.start < m.end or module.start <= m.start < module.end
                else m
                for m in mappings
            ]
    return ImageSource(blocks, mappings)


def damaged(image: ImageSource, chance: random.Random) -> ImageSource:
    """The same image with something wrong in it."""
    blocks, mappings = dict(image.blocks), list(image.mappings)
    addresses = list(blocks)
    kind = chance.randrange(6)
    for _ in range(chance.choice((1, 3, 30, 300))):
        address = chance.choice(addresses)
        block = bytearray(blocks[address])
        at = chance.randrange(0, len(block), 8)
        if kind == 0:
            block[at] ^= 1 << chance.randrange(8)
        elif kind == 1:  # a pointer to somewhere that exists
            struct.pack_into("<Q", block, at, chance.choice(addresses) + chance.randrange(0, len(block), 8))
        elif kind == 2:
            struct.pack_into("<Q", block, at, chance.getrandbits(64))
        elif kind == 3:
            struct.pack_into("<Q", block, at, chance.choice((0, 1, 2**63, 2**64 - 1, 2**31)))
        elif kind == 4:  # a pointer moved from one place to another
            block[at : at + 8] = block[(at + 8 * chance.randrange(1, 20)) % len(block) :][:8].ljust(8, b"\0")
        else:
            size = chance.choice((64, 4096, len(block)))
            block[at : at + size] = bytes(len(block[at : at + size]))
        blocks[address] = bytes(block)
    if chance.random() < 0.2:
        mappings.remove(chance.choice(mappings))
    return ImageSource(blocks, mappings)


def write_core(pid: int, path: str, *, only_writable: bool = True) -> None:
    """A core file of a process as the kernel writes it: what is writable, and a note that names the mapped files."""
    ranges, files = [], []
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            span, mode, offset, _, _, *name = line.split(None, 5)
            start, end = (int(word, 16) for word in span.split("-"))
            file = name[0].strip() if name else ""
            if file.startswith("/"):
                files.append((start, end, int(offset, 16), file))
            if (
                mode[0] == "r"
                and file not in ("[vvar]", "[vsyscall]", "[vvar_vclock]")
                and ("w" in mode or not only_writable or not file)
            ):
                ranges.append((start, end, mode))
    names = b"".join(os.fsencode(file) + b"\0" for *_, file in files)
    described = (
        struct.pack("<QQ", len(files), 4096)
        + b"".join(struct.pack("<QQQ", s, e, o // 4096) for s, e, o, _ in files)
        + names
    )
    with open(f"/proc/{pid}/auxv", "rb") as auxv:
        vector = auxv.read()
    with open(f"/proc/{pid}/cmdline", "rb") as command:
        words = command.read().replace(b"\0", b" ")[:79]
    status = bytearray(136)
    struct.pack_into("<i", status, 24, pid)
    status[56 : 56 + len(words)] = words
    note = b"".join(
        struct.pack("<III", 5, len(body), kind) + b"CORE\0\0\0\0" + body + bytes(-len(body) % 4)
        for kind, body in ((3, bytes(status)), (6, vector), (0x46494C45, described))
    )
    headers, at = (
        [struct.pack("<IIQQQQQQ", 4, 0, 64 + 56 * (len(ranges) + 1), 0, 0, len(note), 0, 4)],
        64 + 56 * (len(ranges) + 1) + len(note),
    )
    at += -at % 4096
    with FileIO(f"/proc/{pid}/mem") as memory, open(path, "wb") as core:
        bodies = []
        for start, end, mode in ranges:
            size = end - start
            headers.append(struct.pack("<IIQQQQQQ", 1, 6 if "w" in mode else 4, at, start, 0, size, size, 4096))
            bodies += [(at + low - start, _read(memory, low, high)) for low, high in _in_use(pid, start, end)]
            at += size
        core.write(
            b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
            + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, len(headers), 0, 0, 0)
        )
        core.write(b"".join(headers) + note)
        for place, body in bodies:  # what was never used stays a hole of the file
            core.seek(place)
            core.write(body)
        core.truncate(at)


def _in_use(pid: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a mapping that have pages, by /proc/PID/pagemap: regions of C stacks are gigabytes of which little is used."""
    with open(f"/proc/{pid}/pagemap", "rb") as pagemap:
        pagemap.seek(start // 4096 * 8)
        entries = memoryview(pagemap.read((end - start) // 4096 * 8)).cast("Q")
    low = None
    for index, entry in enumerate(entries):
        used = entry >> 62 != 0  # present, or swapped out
        if used and low is None:
            low = index
        elif not used and low is not None:
            yield start + low * 4096, start + index * 4096
            low = None
    if low is not None:
        yield start + low * 4096, end


def _read(memory: FileIO, low: int, high: int) -> bytes:
    memory.seek(low)
    try:
        return memory.read(high - low)
    except OSError:  # a guard page
        return b""
