"""One process that is looked at again and again: its counters as often as anybody likes, its tasklets as often as it can bear."""

import time
from typing import Any

from roamlet.diagnose import model
from roamlet.diagnose.outside.errors import DAMAGED, CannotRead
from roamlet.diagnose.outside.reader import MOST_THREADS
from roamlet.diagnose.outside.reading import command_of, look_around, read_process, reader_of_process
from roamlet.diagnose.outside.system.finding import find_processes
from roamlet.diagnose.outside.system.memory import ProcessSource

SHARE = 0.008  # of the time, for which the process may be stopped by looks at its tasklets
OF_READER = 0.25  # of the time, which the reader may take to look at them: of one core of that machine
ATTEMPTS = 5  # at counters, where the list of threads changes meanwhile


class Followed:
    """A process of this machine. Raises CannotRead, as every look does."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.pause: float = (
            0.0  # seconds for which its tasklets are left alone after the last look at them, by what that took
        )
        self._rested = 0.0  # on the monotonic clock: until then its tasklets are left alone
        self._source = ProcessSource(pid)
        self._reader = reader_of_process(self._source, with_locals=False)

    def look(self) -> tuple[model.Process, model.Process | None]:
        """counters(), and all of it unless that was read so lately that it would cost too much.

        Blocks the thread, as read_process() does.
        """
        counters = self.counters()
        if time.monotonic() < self._rested:
            return counters, None
        began = time.monotonic()
        process = read_process(self.pid)
        ended = time.monotonic()
        self.pause = max(process.stopped / SHARE, (ended - began) / OF_READER)
        self._rested = ended + self.pause
        return counters, process

    def counters(self) -> model.Process:
        """Its threads with what they count, without frames and tasklets. It is not stopped: each number is right by itself."""
        self._source.look()
        for attempt in range(ATTEMPTS):
            process = model.Process(self.pid, command_of(self.pid), self._reader.table.version, how="counters alone")
            process.backend, process.folder = self._reader.table.backend, self._reader.table.folder
            process.taken, process.moment = time.time(), time.monotonic()
            try:
                self._read_into(process)
                break
            except DAMAGED as error:
                if attempt == ATTEMPTS - 1:
                    raise CannotRead(f"process {self.pid} cannot be read: {error or type(error).__name__}") from None
        look_around(process)
        return process

    def _read_into(self, process: model.Process) -> None:
        reader = self._reader
        memory, numbers = reader.memory, reader.numbers
        memory.forget()
        at, seen = memory.word(reader.addresses["schedulers"]), set[int]()
        while at and at not in seen and len(seen) < MOST_THREADS:
            seen.add(at)
            fields = reader.scheduler(at)
            at = memory.word(at + numbers["scheduler.next"])
            tstate = fields["tstate"]
            if tstate == 0:
                continue
            thread = model.Thread(memory.word(tstate + numbers["tstate.thread_id"]))
            thread.native_id = memory.source.thread(memory.word(tstate + numbers["tstate.native_id"])) or None
            thread.main, thread.service = thread.native_id == process.pid, bool(fields["service"])
            idle = bool(fields["idle"])
            thread.scheduler = model.Scheduler(idle=idle, current=None if idle else fields["current"] or None)
            thread.scheduler.timers = fields["timer_count"]
            thread.scheduler.switches, thread.scheduler.messages = fields.get("switches"), fields.get("messages")
            process.threads.append(thread)
        process.threads.sort(key=lambda thread: (not thread.main, thread.native_id or 0))


class Following:
    """One process, or all of this machine that use roamlet and have `name` in their command lines: looked at again and again."""

    def __init__(self, pid: int | None, name: str | None = None) -> None:
        self._pid, self._name = pid, name
        self._followed: dict[int, Followed] = {}

    def look(self) -> list[dict[str, Any]]:
        """For each {"pid", and "counters" and "full" (Process, or None) and "pause" (seconds), or "error" (text)}."""
        pids = [self._pid] if self._pid is not None else find_processes(self._name)
        self._followed = {pid: followed for pid, followed in self._followed.items() if pid in pids}
        found: list[dict[str, Any]] = []
        for pid in pids:
            try:
                followed = self._followed.get(pid) or self._followed.setdefault(pid, Followed(pid))
                counters, full = followed.look()
                found.append({"pid": pid, "counters": counters, "full": full, "pause": followed.pause})
            except CannotRead as error:
                self._followed.pop(pid, None)
                found.append({"pid": pid, "error": str(error)})
        return found


_kept: dict[tuple[int | None, str | None], Following] = {}


def look_again(pid: int | None, name: str | None) -> list[dict[str, Any]]:
    """Following(pid, name).look() as plain data; what was followed before still is. For on_target.py."""
    following = _kept.get((pid, name)) or _kept.setdefault((pid, name), Following(pid, name))
    found = following.look()
    for each in found:
        for part in ("counters", "full"):
            if each.get(part) is not None:
                each[part] = each[part].to_json()
    return found
