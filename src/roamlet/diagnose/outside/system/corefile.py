"""Core files as a source of memory: what the kernel or gcore has written, and the files that were mapped, if they still exist."""

import bisect
import mmap
import os
import stat
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from roamlet.diagnose.outside.errors import CannotRead
from roamlet.diagnose.outside.system import elf
from roamlet.diagnose.outside.system.memory import Buffers, Mapping, Source

CORE = 4  # e_type
NT_PRPSINFO, NT_AUXV, NT_FILE = 3, 6, 0x46494C45
AT_ENTRY = 9
PAGE = 4096
MOST_NOTES = 100_000


class Load(NamedTuple):
    """A range of addresses and where its bytes are: in `file` from `offset` on."""

    start: int
    end: int
    file: mmap.mmap
    offset: int
    path: str
    writable: bool


R = TypeVar("R", bound=tuple[Any, ...])


def _apart(ranges: list[R]) -> list[R]:
    """Ranges, each a start, an end and what it is, by their starts. Of those that overlap, which no process has, the first."""
    found = list[R]()
    for each in sorted(ranges):
        if each[0] < each[1] and (not found or found[-1][1] <= each[0]):
            found.append(each)
    return found


class CoreSource(Source):
    """A core file. `exe`: the program's file, where it is not where it was. Raises CannotRead for what is no core file."""

    def __init__(self, path: str, exe: str | None = None) -> None:
        self.pid: int = 0
        self.command: str = ""
        self.problems: list[str] = list[str]()
        self._files: dict[str, mmap.mmap | None] = {}
        self._exe = exe
        if exe is not None and self._mapped(exe) is None:
            raise CannotRead(
                f"{exe} cannot be read, or is empty: give the Python that {path} is of, for example /usr/bin/python3"
            )
        core = self._mapped(path)
        if core is None:
            raise CannotRead(f"{path} cannot be read, or is empty")
        if core[:6] != elf.IDENT or len(core) < 64 or struct.unpack_from("<H", core, 16)[0] != CORE:
            raise CannotRead(f"{path} is no core file of a 64-bit process")
        self._core = core
        try:
            self._read(path)
        except (struct.error, ValueError, IndexError, OverflowError):
            raise CannotRead(f"{path} is damaged: its own headers contradict each other") from None

    def _read(self, path: str) -> None:
        core = self._core
        where, size, count = *struct.unpack_from("<Q", core, 32), *struct.unpack_from("<HH", core, 54)
        if count == 0xFFFF:  # more than fit: the number is in the first section header
            count = struct.unpack_from("<I", core, struct.unpack_from("<Q", core, 40)[0] + 44)[0]
        if size < 56 or where + size * min(count, 1) > len(core):
            raise ValueError
        dumped, files, entry = [], list[tuple[int, int, int, str]](), 0
        cut = False
        for index in range(count):
            at = where + index * size
            kind, flags, offset, address, _, in_file, _, _ = struct.unpack_from("<IIQQQQQQ", core, at)
            if kind == elf.LOAD and in_file:
                there = max(min(in_file, len(core) - offset), 0)
                cut = cut or there < in_file
                if there:
                    dumped.append(Load(address, address + there, core, offset, "", bool(flags & 2)))
            elif kind == elf.NOTE:
                found = self._notes(offset, in_file)
                files += found[0]
                entry = found[1] or entry
        if cut:
            self.problems.append(
                "the core file is incomplete: its end is missing. `ulimit -c unlimited` before the program starts avoids that"
            )
        self._loads = self._with_files(_apart(dumped), _apart(files), entry)
        self.set_mappings(Mapping(load.start, load.end, load.path, load.writable) for load in self._loads)
        if not self._loads:
            raise CannotRead(f"{path} has no memory in it")

    def _notes(self, at: int, left: int) -> tuple[list[tuple[int, int, int, str]], int]:
        """The mapped files (start, end, offset, path), and the address where the program begins."""
        core, files, entry = self._core, list[tuple[int, int, int, str]](), 0
        end = min(at + left, len(core))
        for _ in range(MOST_NOTES):
            if at + 12 > end:
                break
            name, size, kind = struct.unpack_from("<III", core, at)
            body = at + 12 + (name + 3 & ~3)
            at = body + (size + 3 & ~3)
            if body + size > end:
                break
            if kind == NT_FILE and size >= 16:
                count, page = struct.unpack_from("<QQ", core, body)
                paths = core[body + 16 + count * 24 : body + size].split(b"\0") if count < 1 << 24 else []
                for index, path in enumerate(paths[:count]):
                    start, stop, offset = struct.unpack_from("<QQQ", core, body + 16 + index * 24)
                    files.append((start, stop, offset * page, os.fsdecode(path)))
            elif kind == NT_AUXV:
                for key, value in struct.iter_unpack("<QQ", core[body : body + size // 16 * 16]):
                    entry = value if key == AT_ENTRY else entry
            elif kind == NT_PRPSINFO and size >= 136:
                self.pid = struct.unpack_from("<i", core, body + 24)[0]
                self.command = core[body + 56 : body + 136].partition(b"\0")[0].decode("utf-8", "replace").strip()
        return files, entry

    def _with_files(self, dumped: list[Load], files: list[tuple[int, int, int, str]], entry: int) -> list[Load]:
        """What was dumped, with the paths of mapped files, and parts of those files where nothing was dumped."""
        program = next((path for start, end, _, path in files if start <= entry < end), None)
        loads, strange = list[Load](), set[str]()
        starts, ends = [load.start for load in dumped], [load.end for load in dumped]
        for start, end, offset, path in files:
            inside = dumped[bisect.bisect_right(ends, start) : bisect.bisect_left(starts, end)]
            file = self._mapped(self._exe if self._exe and path == program else path)
            if file is None:
                continue
            if any(self._differs(load, file, offset + load.start - start) for load in inside[:1] if not load.writable):
                strange.add(path)
            if path in strange:
                continue
            low = start
            for load in [*inside, None]:
                high = load.start if load is not None else end
                there = min(high, start + max(len(file) - offset, 0))
                if there > low:
                    loads.append(Load(low, there, file, offset + low - start, path, False))
                low = max(low, load.end) if load is not None else low
        if strange:
            self.problems.append(
                f"{', '.join(sorted(strange))}: the file is no longer the one that the process had mapped"
            )
        begins = [start for start, *_ in files]
        for load in dumped:
            index = bisect.bisect_right(begins, load.start) - 1
            inside_one = index >= 0 and load.start < files[index][1]
            loads.append(load._replace(path=files[index][3] if inside_one else ""))
        return sorted(loads)

    def _differs(self, load: Load, file: mmap.mmap, offset: int) -> bool:
        size = min(PAGE, load.end - load.start, len(file) - offset)
        return size > 0 and load.file[load.offset : load.offset + size] != file[offset : offset + size]

    def _mapped(self, path: str) -> mmap.mmap | None:
        """The file's bytes; None when it cannot be read. Kept: a core file names few files."""
        if path not in self._files:
            try:
                # The names come from the core file: one may be of a pipe, which would be waited for, or of a device.
                if not stat.S_ISREG(os.stat(path).st_mode):
                    raise ValueError
                with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
                    self._files[path] = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            except (OSError, ValueError):
                self._files[path] = None
        return self._files[path]

    def plan(self, buffers: Buffers, places: list[int] | None = None) -> Callable[[], None]:
        def fill() -> None:
            for address, buffer in buffers:
                end = address + len(buffer)
                for index in self._within(address, end):
                    load = self._loads[index]
                    low, high = max(load.start, address), min(load.end, end)
                    data = load.file[load.offset + low - load.start : load.offset + high - load.start]
                    buffer[low - address : low - address + len(data)] = data

        return fill

    def _within(self, low: int, high: int) -> list[int]:
        found, index = [], max(self._first(low) - 1, 0)
        while index < len(self._loads) and self._loads[index].start < high:
            if self._loads[index].end > low:
                found.append(index)
            index += 1
        return found

    def _first(self, address: int) -> int:
        return bisect.bisect_right(self.starts, address)

    def close(self) -> None:
        """Give the files back."""
        for file in self._files.values():
            if file is not None:
                file.close()
