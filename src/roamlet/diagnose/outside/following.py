"""One process that is looked at again and again: its counters as often as anybody likes, its tasklets as often as it can bear."""

import time

from roamlet.diagnose import model
from roamlet.diagnose.outside.errors import DAMAGED, CannotRead
from roamlet.diagnose.outside.reader import MOST_THREADS
from roamlet.diagnose.outside.reading import command_of, look_around, read_process, reader_of
from roamlet.diagnose.outside.system.memory import ProcessSource

SHARE = 0.008  # of the time: for so much the process may be stopped by looks at its tasklets
ATTEMPTS = 5  # at counters, where the list of threads changes meanwhile


class Followed:
    """A process of this machine. Raises CannotRead, as every look does."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.pause = 0.0  # seconds between two looks at its tasklets that the last stop asks for
        self._rested = 0.0  # on the monotonic clock: until then its tasklets are left alone
        self._source = ProcessSource(pid)
        self._reader = reader_of(self._source, with_locals=False)

    def look(self, *, tasklets: bool = True) -> model.Process:
        """All of it, or counters() where it was stopped for a look so lately that another one would cost it too much.

        Blocks the thread, as read_process() does.
        """
        if not tasklets or time.monotonic() < self._rested:
            return self.counters()
        process = read_process(self.pid)
        self.pause = process.stopped / SHARE
        self._rested = time.monotonic() + self.pause
        return process

    def counters(self) -> model.Process:
        """Its threads with what they count, without frames and tasklets. It is not stopped for that: each number is right by itself."""
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
        for each in (memory, reader.stack_memory):
            each.forget()
        at, seen = memory.word(reader.addresses["schedulers"]), set[int]()
        while at and at not in seen and len(seen) < MOST_THREADS:
            seen.add(at)
            fields = reader.scheduler(at)
            at = memory.word(at + numbers["scheduler.next"])
            tstate = fields["tstate"]
            if tstate == 0:
                continue
            thread = model.Thread(memory.word(tstate + numbers["tstate.thread_id"]))
            thread.native_id = memory.word(tstate + numbers["tstate.native_id"]) or None
            thread.main, thread.service = thread.native_id == process.pid, bool(fields["service"])
            idle = bool(fields["idle"])
            thread.scheduler = model.Scheduler(idle=idle, current=None if idle else fields["current"] or None)
            thread.scheduler.timers = fields["timer_count"]
            thread.scheduler.switches, thread.scheduler.messages = fields.get("switches"), fields.get("messages")
            process.threads.append(thread)
        process.threads.sort(key=lambda thread: (not thread.main, thread.native_id or 0))
