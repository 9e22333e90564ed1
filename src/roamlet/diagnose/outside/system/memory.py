"""Somebody else's memory, read in blocks, each of them once. Where the bytes come from is a Source: a process or a core file."""

import bisect
import ctypes
import os
import re
import struct
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple, TypeAlias

from roamlet.diagnose.outside.errors import CannotRead, Torn
from roamlet.diagnose.outside.system.proc import opened

Block: TypeAlias = "bytearray | memoryview[int]"
Buffers = list[tuple[int, Block]]  # addresses, and what is filled with the bytes from there on

WORD = struct.Struct("<Q")
LONGEST_READ = 1 << 24  # bytes; nothing that is looked at is longer
IOVECS = 1024  # the kernel's limit for one call
PIECE = 1 << 24  # bytes of one call at most, where threads share the work
MOST_THREADS = 4
FOR_A_THREAD = 1 << 25  # bytes, for which one more thread is started,
CALLS_FOR_A_THREAD = 16  # and calls that gather small pieces


class Mapping(NamedTuple):
    """A range of addresses that can be read."""

    start: int
    end: int
    path: str  # of the mapped file; "" for none
    writable: bool


class Source:
    """What has bytes at addresses. `mappings` are sorted."""

    mappings: list[Mapping]
    starts: list[int]

    def set_mappings(self, mappings: Iterable[Mapping]) -> None:
        """Take these, in any order."""
        self.mappings = sorted(mappings)
        self.starts = [mapping.start for mapping in self.mappings]

    def pieces(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The mapped parts of [low, high)."""
        for index in range(max(bisect.bisect_right(self.starts, low) - 1, 0), len(self.mappings)):
            mapping = self.mappings[index]
            if mapping.start >= high:
                return
            if mapping.end > low:
                yield max(mapping.start, low), min(mapping.end, high)

    def plan(self, buffers: Buffers, places: list[int] | None = None) -> Callable[[], None]:
        """A function that fills the buffers with what is there when it is called. What is not mapped is left as it is.

        All that takes time is done here, so that the function can be called while a process is stopped. `places`: where each of
        the buffers is in this process; looked up when it is not given.
        """
        raise NotImplementedError

    def thread(self, own: int) -> int:
        """The system's number of a thread, by the one that the process itself has for it."""
        return own

    def gathered(self, places: list[int], size: int) -> bytearray | None:
        """So many bytes at each of these places, one after the other; None where that is no faster than in blocks, or fails."""
        return None


class Memory:
    """The blocks of a source that were read so far, each of 2**shift bytes. `late` counts those read since it was set to 0.

    `direct`: many small pieces are read by themselves, and not kept, because the source does not change now.
    """

    def __init__(self, source: Source, shift: int) -> None:
        self.source = source
        self.shift = shift
        self.size: int = 1 << shift
        self.mask: int = self.size - 1
        self.blocks: dict[int, Block] = {}
        self._places: dict[int, int] = {}  # of blocks, in this process
        self.late: int = 0
        self.direct = False

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address. Raises Torn where nothing is mapped."""
        at, block = address & self.mask, self.blocks.get(address >> self.shift)
        if block is None:
            block = self._fetch(address >> self.shift)
        if at + size <= self.size:
            return bytes(block[at : at + size])
        if size > LONGEST_READ:
            raise Torn(f"{size} bytes at {address:#x}")
        parts = bytearray(block[at:])
        while len(parts) < size:
            number = (address + len(parts)) >> self.shift
            known = self.blocks.get(number)
            parts += (known if known is not None else self._fetch(number))[: size - len(parts)]
        return bytes(parts)

    def word(self, address: int) -> int:
        """The pointer, or the unsigned 64-bit number, at an address."""
        at, block = address & self.mask, self.blocks.get(address >> self.shift)
        if block is None or at > self.size - 8:
            return int.from_bytes(self.read(address, 8), "little")
        return int(WORD.unpack_from(block, at)[0])

    def signed(self, address: int, size: int) -> int:
        """The signed number of so many bytes at an address."""
        return int.from_bytes(self.read(address, size), "little", signed=True)

    def text(self, address: int, longest: int = 200) -> str:
        """The C string at an address."""
        data = bytearray()
        while len(data) < longest and b"\0" not in data:  # not further than it is mapped
            data += self.read(address + len(data), 16)
        return data.partition(b"\0")[0].decode("utf-8", "replace")

    def prefetch(self, addresses: Iterable[int]) -> None:
        """Read the blocks of these addresses with few calls; those that are not mapped are left out."""
        shift = self.shift
        wanted = {address >> shift for address in addresses}.difference(self.blocks)
        self._add([number for number in sorted(wanted) if self._is_mapped(number)])

    def refreshed(self) -> Callable[[], None]:
        """A function that reads again all that was read."""
        numbers = list(self.blocks)
        buffers = [(number << self.shift, self.blocks[number]) for number in numbers]
        return self.source.plan(buffers, [self._places[number] for number in numbers])

    def words(self, places: list[int]) -> list[int]:
        """The pointers at many addresses. Raises Torn where nothing is mapped at one of them."""
        data = self.source.gathered(places, 8) if self.direct else None
        if data is not None:
            return memoryview(data).cast("Q").tolist()
        self.prefetch(places)
        return [self.word(place) for place in places]

    def pieces_at(self, places: list[int], size: int) -> tuple[bytes | bytearray, list[int]]:
        """The bytes at many addresses, one after the other; and the numbers of those that are not what is there, and not mapped."""
        data = self.source.gathered(places, size) if self.direct else None
        if data is not None:
            return data, []
        self.prefetch(places)
        blocks, shift, mask, missing = self.blocks, self.shift, self.mask, list[int]()
        parts: list[bytes | Block]
        try:
            parts = [blocks[at >> shift][(low := at & mask) : low + size] for at in places]
        except KeyError:
            parts = [blocks.get(at >> shift, b"")[(low := at & mask) : low + size] for at in places]
        if list(map(len, parts)).count(size) < len(parts):
            for index, part in enumerate(parts):
                if len(part) == size:
                    continue
                try:  # it goes on in the next block
                    parts[index] = self.read(places[index], size)
                except Torn:
                    missing.append(index)
                    parts[index] = bytes(size)
        return b"".join(parts), missing

    def forget(self) -> None:
        """Know nothing any more."""
        self.blocks.clear()
        self._places.clear()

    def _fetch(self, number: int) -> Block:
        if not self._is_mapped(number):
            raise Torn(f"nothing is mapped at {number << self.shift:#x}")
        self._add([number])
        return self.blocks[number]

    def _is_mapped(self, number: int) -> bool:
        return any(True for _ in self.source.pieces(number << self.shift, (number + 1) << self.shift))

    def _add(self, numbers: list[int]) -> None:
        """Read these blocks, which are not known yet. They are one piece of memory here: that takes fewest objects."""
        if not numbers:
            return
        size = self.size
        arena = bytearray(len(numbers) * size)
        base = ctypes.addressof(ctypes.c_char.from_buffer(arena))
        view = memoryview(arena)
        blocks: list[Block] = [arena]
        if len(numbers) > 1:
            blocks = [view[at : at + size] for at in range(0, len(arena), size)]
        places = list(range(base, base + len(arena), size))
        self.source.plan(
            [(number << self.shift, block) for number, block in zip(numbers, blocks, strict=True)], places
        )()
        self.blocks.update(zip(numbers, blocks, strict=True))
        self._places.update(zip(numbers, places, strict=True))
        self.late += len(numbers)


# ---- a process ----

LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r(.).. \S+ \S+ \d+ *(.*)$", re.MULTILINE)
NOT_MEMORY = ("[vvar]", "[vvar_vclock]", "[vsyscall]")


def shared(some: Callable[[int], None], threads: int) -> None:
    """Call `some` with each number below `threads`, 0 at least, each in a thread of its own. Blocks until all have ended."""
    with ExitStack() as stack:
        for number in range(1, threads):
            helper = threading.Thread(target=some, args=(number,))
            helper.start()
            stack.callback(helper.join)
        some(0)


class ProcessSource(Source):
    """A process of this machine, which may run meanwhile. Raises CannotRead when it is not to be read, or has ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.calls: int = 0
        self.look()
        self._readv = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)  # None: a libc that lacks it

    def look(self) -> None:
        """Read anew what is mapped."""
        try:
            with opened(f"/proc/{self.pid}/maps") as lines:
                text = lines.read()
        except OSError as error:
            raise explained(error, self.pid) from None
        self.set_mappings(
            Mapping(int(start, 16), int(end, 16), path, mode == "w")
            for start, end, mode, path in LINE.findall(text)
            if path not in NOT_MEMORY
        )
        if not self.mappings:  # a zombie's, or a kernel thread's
            raise CannotRead(f"process {self.pid} has no memory: it has ended, or is a part of the kernel")
        self._threads = threads_of_container(self.pid)

    def thread(self, own: int) -> int:
        return self._threads.get(own, own)

    def plan(self, buffers: Buffers, places: list[int] | None = None) -> Callable[[], None]:
        local, remote, sizes = list[int](), list[int](), list[int]()
        if places is None:
            places = [ctypes.addressof(ctypes.c_char.from_buffer(buffer)) for _, buffer in buffers]
        start = end = 0  # of the mapping that the block before was in: the next one is mostly there, too
        for (address, buffer), place in zip(buffers, places, strict=True):
            high = address + len(buffer)
            if start <= address and high <= end:
                local += (place, high - address)
                remote += (address, high - address)
                sizes.append(high - address)
                continue
            for low, high in self.pieces(address, address + len(buffer)):
                local += (place + low - address, high - low)
                remote += (low, high - low)
                sizes.append(high - low)
            mapping = self.mappings[max(bisect.bisect_right(self.starts, address) - 1, 0)]
            start, end = mapping.start, mapping.end
        calls = []
        several = max(1, min(IOVECS, PIECE // max(sizes, default=1)))
        for first in range(0, len(sizes), several):
            part = sizes[first : first + several]
            words = ctypes.c_uint64 * (2 * len(part))
            calls.append(
                (
                    words(*local[2 * first : 2 * (first + len(part))]),
                    words(*remote[2 * first : 2 * (first + len(part))]),
                    part,
                )
            )

        copy = self._by_call if self._readv is not None else self._by_file
        threads = min(MOST_THREADS, len(os.sched_getaffinity(0)), len(calls), sum(sizes) // FOR_A_THREAD)
        refusals = list[str]()

        def some(first: int) -> None:
            try:
                for call in calls[first :: max(threads, 1)]:
                    copy(*call)
            except CannotRead as error:
                refusals.append(str(error))

        def fill() -> None:
            refusals.clear()
            shared(some, threads)  # the process stands still meanwhile: its processor is free to help
            if refusals:
                raise CannotRead(refusals.pop())

        fill.buffers = buffers  # type: ignore[attr-defined]  # must live as long as their addresses are used
        return fill

    def gathered(self, places: list[int], size: int) -> bytearray | None:
        if self._readv is None or not places:
            return None
        made = bytearray(len(places) * size)
        base = ctypes.addressof(ctypes.c_char.from_buffer(made))
        starts = range(0, len(places), IOVECS)
        threads = min(MOST_THREADS, len(os.sched_getaffinity(0)), len(starts) // CALLS_FOR_A_THREAD)
        unmapped = list[int]()

        def some(number: int) -> None:
            for first in starts[number :: max(threads, 1)]:
                part = places[first : first + IOVECS]
                remote = array("Q", [size]) * (2 * len(part))
                remote[::2] = array("Q", part)
                local = (ctypes.c_uint64 * 2)(base + first * size, len(part) * size)
                counts = ctypes.c_ulong(1), ctypes.c_void_p(remote.buffer_info()[0]), ctypes.c_ulong(len(part))
                self.calls += 1
                assert self._readv is not None
                if self._readv(self.pid, ctypes.byref(local), *counts, ctypes.c_ulong(0)) != len(part) * size:
                    unmapped.append(first)
                if unmapped:
                    return

        shared(some, threads)
        return None if unmapped else made

    def _by_call(
        self, local: "ctypes.Array[ctypes.c_uint64]", remote: "ctypes.Array[ctypes.c_uint64]", sizes: list[int]
    ) -> None:
        assert self._readv is not None
        count, done = len(sizes), 0
        while done < count:
            at = 16 * done
            got = self._readv(
                self.pid,
                ctypes.byref(local, at),
                ctypes.c_ulong(count - done),
                ctypes.byref(remote, at),
                ctypes.c_ulong(count - done),
                ctypes.c_ulong(0),
            )
            self.calls += 1
            if got < 0:
                number = ctypes.get_errno()
                if number != 14:  # EFAULT: the first piece went away
                    raise explained(OSError(number, os.strerror(number)), self.pid)
                done += 1
                continue
            while done < count and got >= sizes[done]:
                got -= sizes[done]
                done += 1
            if done < count:
                done += 1  # this one went away, or a part of it

    def _by_file(
        self, local: "ctypes.Array[ctypes.c_uint64]", remote: "ctypes.Array[ctypes.c_uint64]", sizes: list[int]
    ) -> None:
        try:
            with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as file:
                for index, size in enumerate(sizes):
                    self.calls += 1
                    try:
                        data = os.pread(file.fileno(), size, remote[2 * index])
                    except OSError as error:
                        if error.errno not in (5, 14):  # EIO, EFAULT: it went away
                            raise
                        continue
                    ctypes.memmove(local[2 * index], data, len(data))
        except OSError as error:
            raise explained(error, self.pid) from None


def threads_of_container(pid: int) -> dict[int, int]:
    """The numbers of threads by those that they have in the PID namespace of their process; {} where that is this one."""
    found = {}
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with opened(f"/proc/{pid}/task/{tid}/status") as lines:
                numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
            if len(numbers) < 2:
                break
            found[int(numbers[-1])] = int(tid)
    except OSError:  # it has ended meanwhile
        pass
    return found


def explained(error: OSError, pid: int) -> CannotRead:
    """The error of a system call about a process, in words that help."""
    if error.errno in (2, 3) or isinstance(error, ProcessLookupError):  # ENOENT, ESRCH
        return CannotRead(f"there is no process {pid}, or it has ended meanwhile")
    if error.errno not in (1, 13):  # EPERM, EACCES
        return CannotRead(f"process {pid} cannot be read: {error.strerror}")
    return CannotRead(f"process {pid} may not be read: {_what_helps(pid)}")


def _what_helps(pid: int) -> str:
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
        with opened(f"/proc/{pid}/status") as lines:
            owner = int(next(line for line in lines if line.startswith("Uid:")).split()[1])
    except (OSError, StopIteration, ValueError):
        return "it has just ended"
    if owner != os.geteuid():
        return f"it is of another user (number {owner}). Run this as that user, or with sudo"
    try:
        with opened("/proc/sys/kernel/yama/ptrace_scope") as file:
            scope = file.read().strip()
    except OSError:
        scope = "0"
    if scope == "1":
        return (
            "kernel.yama.ptrace_scope is 1, which lets a process be read by its parents alone. Run this with sudo, or once:"
            " sudo sysctl kernel.yama.ptrace_scope=0"
        )
    if scope in ("2", "3"):
        return f"kernel.yama.ptrace_scope is {scope}. " + (
            "Run this with sudo" if scope == "2" else "Nothing may be read until the machine is booted with less"
        )
    return (
        "it has raised its own privileges, or is in a container that this one may not look into. Run this with sudo, or in a"
        " container with the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE)"
    )
