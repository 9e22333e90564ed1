"""The tables by which roamlet's extension modules say where things are: found, checked, and read into one. Their form is in
core/c/layout.h.
"""

import re
import struct

from roamlet.diagnose.outside.errors import CannotRead, Torn
from roamlet.diagnose.outside.system.elf import find_symbol
from roamlet.diagnose.outside.system.memory import LONGEST_READ, Memory

MODULE = re.compile(r"/roamlet/(core/_(native|greenlet)|sync/_native|io/_native)\.[\w.-]*so( \(deleted\))?$")
IN_MEMORY = re.compile(r"/memfd:.*\(deleted\)$")  # where a context has been sent its modules
MAGIC, OURS = b"roamlet.layout.", b"roamlet.layout.1"
SYMBOL = b"roamlet_layout"
HEAD = struct.Struct("<16sQIIII16s16s")
NUMBER = struct.Struct("<24sQ")
MOST = 10_000  # entries of a table


class NotLoaded(CannotRead):
    """It has no roamlet."""


class NoTable(CannotRead):
    """Its roamlet has no table: an older one, or one that is being loaded at this moment, before the linker has gone through it."""


class Table:
    """What all modules of one process say. `numbers` and `addresses` by their names."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.addresses: dict[str, int] = {}
        self.python: int = 0  # PY_VERSION_HEX
        self.backend: str = ""
        self.folder = ""  # of the package; "" where it was not loaded from files

    @property
    def version(self) -> str:
        """That of Python, "3.12.1"."""
        text = f"{self.python >> 24}.{self.python >> 16 & 255}.{self.python >> 8 & 255}"
        level, serial = self.python >> 4 & 15, self.python & 15
        return text if level == 15 else f"{text}{ {10: 'a', 11: 'b', 12: 'rc'}.get(level, '?') }{serial}"

    def add(self, memory: Memory, at: int) -> None:
        """Take what the table at this address says. Raises Torn for one that cannot be."""
        _, itself, size, python, numbers, addresses, part, backend = HEAD.unpack(memory.read(at, HEAD.size))
        if itself != at or not HEAD.size <= size < 4096 or numbers > MOST or addresses > MOST:
            raise Torn(f"no table at {at:#x}")
        core = part.rstrip(b"\0") == b"core"
        if core:
            self.python = python
            self.backend = backend.rstrip(b"\0").decode("ascii", "replace")
        data = memory.read(at + size, (numbers + addresses) * NUMBER.size)
        for index, (name, value) in enumerate(NUMBER.iter_unpack(data)):
            kept = self.numbers if index < numbers else self.addresses
            kept[name.rstrip(b"\0").decode("ascii", "replace")] = value


def find_table(memory: Memory) -> Table:
    """What the modules of a process say. Raises CannotRead when none is loaded, or says it in a way that is not known."""
    table, modules = Table(), [each for each in memory.source.mappings if MODULE.search(each.path)]
    modules = modules or [each for each in memory.source.mappings if IN_MEMORY.search(each.path)]
    if not modules:
        raise NotLoaded("it has not loaded roamlet")
    strange = b""
    cores = 0
    for path in dict.fromkeys(each.path for each in modules):
        found = _find(memory, path)
        head = bytes(memory.read(found, len(OURS))) if found else b""
        if head != OURS:
            strange = head or strange
            continue
        candidate = Table()
        candidate.add(memory, found)
        if candidate.backend:
            cores += 1
            if table.backend and not memory.word(candidate.addresses["schedulers"]):
                continue  # another backend, which was imported by its name and is not used
            table.folder = path[: path.rfind("/core/") + 1]
        table.add(memory, found)
    if strange:
        raise CannotRead(
            f"its roamlet describes itself as {strange.decode('ascii', 'replace')!r}, which this version cannot read: use"
            " `roamlet ps` of the version that it runs"
        )
    if not table.backend:
        raise NoTable("its roamlet is older than `roamlet ps`: it does not say where its tasklets are")
    return table


def _find(memory: Memory, path: str) -> int:
    """The address of the table of the module that was loaded from `path`; 0 when it has none."""
    mapped = [each for each in memory.source.mappings if each.path == path]
    try:
        at = find_symbol(memory, mapped[0].start, SYMBOL)
        if at and bytes(memory.read(at, len(MAGIC))) == MAGIC:
            return at
    except (Torn, struct.error):
        pass  # a core file may lack those pages
    for start, end, _, writable in mapped:
        data = bytes(memory.read(start, end - start)) if writable and end - start < LONGEST_READ else b""
        for match in re.finditer(re.escape(MAGIC), data):
            if memory.word(start + match.start() + len(OURS)) == start + match.start():
                return start + match.start()
    return 0
