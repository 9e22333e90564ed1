"""How a process or a core file is read: undisturbed where nothing runs in it, else from a moment in which all of it stands."""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from roamlet.diagnose import model
from roamlet.diagnose.outside.describing import Description
from roamlet.diagnose.outside.errors import DAMAGED, CannotRead
from roamlet.diagnose.outside.reader import MOST_THREADS, Reader, monotonic
from roamlet.diagnose.outside.system.corefile import CoreSource
from roamlet.diagnose.outside.system.descriptors import Descriptors
from roamlet.diagnose.outside.system.memory import Memory, ProcessSource, Source
from roamlet.diagnose.outside.system.proc import opened
from roamlet.diagnose.outside.system.stopping import Stopped, activity
from roamlet.diagnose.outside.table import MODULE, NoTable, NotLoaded, Table, find_table

SMALL_SHIFT = 14  # 16 KiB: what a busy process is stopped for to copy is little
LARGE_SHIFT = 18  # 256 KiB: fewer calls for many tasklets, which are near to each other in the heap
FEW = 5_000  # tasklets, for the small blocks
LONGEST_LOADING = 0.2  # seconds that the linker may take, for which a process has roamlet, and no table
UNDISTURBED = 3  # attempts before anything is stopped
LEARNING = 6  # walks before it is stopped, at most
KNOWN = 2  # of them that have to meet nothing new
PASSED = 4  # stops that are given up where code of the core runs
STOPPED = 12  # attempts for which it stands only while memory is copied
# Where it is not known whether the core's code runs: so many times a tasklet has to look paused until it is taken for that.
SIGHTINGS = 6
DESCRIBED = 3  # attempts altogether, where names and code are gone when they are looked at

T = TypeVar("T")


def read_process(pid: int, *, with_locals: bool = False) -> model.Process:
    """The tasklets of a process of this machine. Nothing runs in it.

    It is not stopped as long as no thread of it runs, else for milliseconds at a time, while what is known to be of interest is
    copied, by a thread of its own. `with_locals`: local variables of all frames, as short texts. Blocks this thread. Raises
    CannotRead.
    """
    if pid == os.getpid():
        raise CannotRead(
            "a process cannot stop itself to be read: roamlet.diagnose has what shows this one from inside"
        )
    with collector_off():
        source = ProcessSource(pid)
        reader, stopped = reader_of_process(source, with_locals=with_locals), 0.0
        for attempt in range(DESCRIBED):
            process = model.Process(
                pid, command_of(pid), reader.table.version, backend=reader.table.backend, taken=time.time()
            )
            process.how, now, seconds = _consistent(reader, source)
            stopped += seconds
            process.moment, process.stopped = now / 1e9, stopped
            process.folder = reader.table.folder
            reader.problems.lenient = reader.problems.lenient or attempt == DESCRIBED - 1
            try:
                Description(reader, now).add_to(process)
                break
            except DAMAGED as error:  # code that was freed meanwhile, say
                if reader.problems.lenient:
                    raise CannotRead(f"process {pid} cannot be read: {error or type(error).__name__}") from None
        if not reader.threads:
            process.problems.append("it has loaded roamlet, but no thread of it has used a tasklet yet")
        look_around(process)
    return process


def reader_of_process(source: ProcessSource, *, with_locals: bool) -> Reader:
    """reader_of() of a process, which may be loading roamlet at this moment. Raises CannotRead."""
    until = time.monotonic() + LONGEST_LOADING
    while True:
        try:
            return reader_of(source, with_locals=with_locals)
        except NotLoaded as error:
            raise CannotRead(f"{error}: `roamlet ps` without a PID lists the processes that have") from None
        except NoTable:
            if time.monotonic() > until:
                raise
        time.sleep(LONGEST_LOADING / 10)
        source.look()


def read_core(path: str, exe: str | None = None, *, with_locals: bool = False) -> model.Process:
    """The tasklets of a process that has died, or was copied by gcore. `exe`: its Python, if not where it was.

    Raises CannotRead.
    """
    with collector_off():
        source = CoreSource(path, exe)
        try:
            process = model.Process(source.pid, source.command, taken=os.stat(path).st_mtime, how=f"core file {path}")
            process.problems += source.problems
            add_still(process, source, path, with_locals=with_locals)
        finally:
            source.close()
    return process


def add_still(process: model.Process, source: Source, what: str, *, with_locals: bool = False) -> None:
    """Read a source that does not change into `process`; what is damaged is left out and said. Raises CannotRead."""
    reader = reader_of(source, with_locals=with_locals)
    process.python, process.backend = reader.table.version, reader.table.backend
    reader.problems.lenient = True
    try:
        reader.walk()
        Description(reader, None).add_to(process)
    except DAMAGED as error:
        raise CannotRead(f"{what} is damaged or incomplete: {error or type(error).__name__}") from None
    if not reader.threads and not reader.problems:
        process.problems.append(f"no thread had a tasklet, or what tells where they were is not in {what}")


def reader_of(source: Source, *, with_locals: bool) -> Reader:
    """What reads a source. Raises CannotRead."""
    memory = Memory(source, SMALL_SHIFT)
    try:
        table = find_table(memory)
        if _tasklets(memory, table) > FEW:
            memory = Memory(source, LARGE_SHIFT)
    except DAMAGED as error:
        raise CannotRead(f"the table of its roamlet is damaged: {error or type(error).__name__}") from None
    return Reader(memory, table, with_locals=with_locals)


def _tasklets(memory: Memory, table: Table) -> int:
    """How many tasklets there are, about: the lists of a process that runs may change meanwhile."""
    count, at = 0, memory.word(table.addresses["schedulers"])
    for _ in range(MOST_THREADS):
        if at == 0:
            break
        count += memory.signed(at + table.numbers["scheduler.tasklets"], 8)
        at = memory.word(at + table.numbers["scheduler.next"])
    return count


def _consistent(reader: Reader, source: ProcessSource) -> tuple[str, int, float]:
    """Walk until all was read of one moment: how, in words; when, on the monotonic clock; for how many seconds it was stopped."""
    now = _undisturbed(reader, source)
    if now is not None:
        return "undisturbed: none of its threads ran meanwhile", now, 0.0
    now, longest, total = _apart(lambda: _stopping(reader, source))
    return f"from one moment, for which it was stopped: {longest * 1e3:.1f} ms", now, total


def _undisturbed(reader: Reader, source: ProcessSource) -> int | None:
    """Walk while nothing runs, if that is so: when. None: something ran, or was interrupted in the middle of a switch."""
    memory = reader.memory
    for attempt in range(UNDISTURBED):
        before = activity(source.pid)
        if before is None and attempt > 0:
            return None
        if attempt > 0:
            source.look()
            memory.refreshed()()
        now, whole = monotonic(), False
        memory.direct = before is not None
        try:
            with suppress(*DAMAGED):
                reader.walk()
                whole = not reader.switching
        finally:
            memory.direct = False
        if before is None:
            return None
        if activity(source.pid) == before:
            return now if whole else None
    return None


def _stopping(reader: Reader, source: ProcessSource) -> tuple[int, float, float]:
    """Walk over a process that runs: when; for how many seconds it was stopped at most, and in total."""
    now, longest, total = _from_a_moment(reader, source)
    if now is None:
        now, seconds = _while_it_stands(reader, source)
        longest, total = max(longest, seconds), total + seconds
    return now, longest, total


def _apart(function: Callable[[], T]) -> T:
    """Call the function in a thread that ends then: whatever that has stopped goes on at the latest with its end. See Stopped."""
    results, errors = list[T](), list[BaseException]()

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)  # a Ctrl-C ends this process at once
    thread.start()
    thread.join()
    if errors:
        raise errors.pop()
    return results[0]


def _from_a_moment(reader: Reader, source: ProcessSource) -> tuple[int | None, float, float]:
    """Stop it only while what is known to be of interest is copied, and walk afterwards.

    When; for how many seconds it was stopped at most, and in total.
    """
    memory = reader.memory
    longest, total, sightings = 0.0, 0.0, dict[int, int]()
    _learn(reader, source)
    passed = attempts = 0
    while attempts < STOPPED:
        source.look()
        copy = memory.refreshed()
        core = [(each.start, each.end) for each in source.mappings if MODULE.search(each.path)]
        with Stopped(source.pid) as stopped:
            now = monotonic()
            stopped.look()
            switches = passed < PASSED and any(
                low <= at < high for at in stopped.instructions.values() for low, high in core
            )
            if not switches:
                copy()
        longest, total = max(longest, stopped.seconds), total + stopped.seconds
        if switches:  # most probably: a copy would take many times as long as the stop has, and be of no use
            passed += 1
            continue
        attempts += 1
        memory.late = 0
        try:
            reader.walk()
        except DAMAGED:
            continue
        seen, sightings = sightings, {}
        for t, thread in reader.adrift.items():
            at = stopped.instructions.get(thread)
            if at is None:
                sightings[t] = seen.get(t, 0) + 1
            elif not any(low <= at < high for low, high in core):
                sightings[t] = SIGHTINGS  # no code of the core runs: it is paused
        uncertain = any(sightings.get(t, 0) < SIGHTINGS for t in reader.adrift)
        if not memory.late and not reader.switching and not uncertain:
            return now, longest, total
    return None, longest, total


def _learn(reader: Reader, source: ProcessSource) -> None:
    """Walk while it runs, until all is known that is to be copied: what is met then for the first time takes one more stop.

    What is of interest depends on which tasklet runs: of a process with few of them more than one walk has to meet nothing new.
    """
    memory = reader.memory
    left = KNOWN if memory.shift == SMALL_SHIFT else 1
    for _ in range(LEARNING):
        source.look()
        memory.refreshed()()
        memory.late = 0
        try:
            reader.walk()
        except DAMAGED:  # it has changed meanwhile
            continue
        left -= not memory.late
        if left == 0:
            break


def _while_it_stands(reader: Reader, source: ProcessSource) -> tuple[int, float]:
    """Walk while it is stopped: it always has what was not seen before. When, and how many seconds it took."""
    source.look()
    reader.problems.lenient = True
    reader.memory.forget()
    with Stopped(source.pid) as stopped:
        now = monotonic()
        try:
            reader.walk()
        except DAMAGED as error:
            why = str(error) or type(error).__name__
            raise CannotRead(f"process {source.pid} changes in ways that cannot be followed: {why}") from None
    return now, stopped.seconds


@contextmanager
def collector_off() -> Iterator[None]:
    """Hundreds of thousands of objects are made, none of which is garbage: going through them takes a tenth of the time.

    A caller that has this entered until they are gone spares the pass that comes at the end, too.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def command_of(pid: int) -> str:
    """The command line of a process; "" when it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsdecode(file.read().rstrip(b"\0").replace(b"\0", b" "))
    except OSError:
        return ""


STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in the disk",
    "T": "stopped",
    "t": "stopped",
    "Z": "ended",
    "X": "ended",
}


def look_around(process: model.Process) -> None:
    """Add what the system knows: of descriptors what is at their other end, of threads their states and names of their own, and
    what memory and processor time the process has used.
    """
    descriptors = Descriptors(process.pid)
    for wait in process.waits():
        if wait.descriptor is not None:
            wait.peer, wait.process = descriptors.peer(wait.descriptor)
    names: dict[int | None, str] = {}
    for thread in process.threads:
        found = _stat(f"/proc/{process.pid}/task/{thread.native_id}/stat")
        if found is not None:
            names[thread.native_id], thread.state, thread.processor = found
    program = names.get(process.pid)
    for thread in process.threads:
        own = names.get(thread.native_id)
        thread.name = "MainThread" if thread.main else None if own == program else own
    found = _stat(f"/proc/{process.pid}/stat")
    if found is not None:
        process.processor = found[2]
    with suppress(OSError), opened(f"/proc/{process.pid}/statm") as file:
        process.memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _stat(path: str) -> tuple[str, str, float] | None:
    """The name, the state in words and the seconds of processor time that such a file tells; None when it is gone."""
    try:
        with opened(path) as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    return name, STATES.get(fields[0], fields[0]), sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
