"""Whether a process of this machine has run, and stopping it for a moment: by ptrace, without a signal that it could see.

PTRACE_SEIZE and PTRACE_INTERRUPT leave no trace in the process, and its threads go on by themselves where the thread that has
stopped them ends, or is killed. That thread has to end soon: see Stopped.
"""

import ctypes
import os
import random
import threading
import time

from roamlet.diagnose.outside.errors import CannotRead
from roamlet.diagnose.outside.system.memory import explained
from roamlet.diagnose.outside.system.proc import opened

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
ANY_CHILD = 0x40000000  # __WALL
EVENT_STOP = 128
EPERM, ESRCH = 1, 3
# Seconds for a thread to stop. One that does not is in the kernel (state D) and runs no code until it has stopped.
LONGEST_WAIT = 0.002
LONGEST_TRACED = 1.0  # seconds that another tracer has to go away: another `roamlet ps` or `roamlet top` does
LONGEST_LOAD = 10.0  # seconds for one that may run, and gets no processor
ROUNDS = 20  # of looking for threads that were started meanwhile


def activity(pid: int) -> dict[str, str] | None:
    """What changes when a thread of the process runs: equal values before and after prove that none did. None: one runs now."""
    found = {}
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            folder = f"/proc/{pid}/task/{tid}"
            with opened(f"{folder}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            if fields[0] == "R":
                return None
            try:
                with opened(f"{folder}/schedstat") as file:
                    found[tid] = file.read()
            except FileNotFoundError:  # a kernel without it
                with opened(f"{folder}/status") as file:
                    found[tid] = "".join(line for line in file if "ctxt_switches" in line)
                if not found[tid]:
                    return None
            found[tid] += " ".join(fields[11:13])  # ticks of processor time
    except OSError as error:
        raise explained(error, pid) from None
    return found


class _Traced(Exception):
    """A thread has another tracer: the thread `by`."""

    def __init__(self, by: int) -> None:
        super().__init__(by)
        self.by = by


class Stopped:
    """A context manager: while it is entered, no thread of the process runs. Raises CannotRead where that is not allowed.

    All calls come from one thread of this process, as ptrace demands, and that ends soon after: a thread of the process that sleeps
    in the kernel for longer cannot be let go, and would stop when it comes back, until its tracer ends.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.seized: dict[int, int] = {}  # thread -> the signal that it is to get when it goes on
        self.seconds: float = 0.0
        self.instructions: dict[int, int] = {}  # where each thread stands, as far as that is known
        self._tracer = threading.get_native_id()
        libc = ctypes.CDLL(None, use_errno=True)
        self._ptrace = libc.ptrace
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self._ptrace.restype = ctypes.c_long

    def __enter__(self) -> "Stopped":
        until = time.perf_counter() + LONGEST_TRACED
        while True:
            self._began = time.perf_counter()
            try:
                self._stop()
                return self
            except _Traced as error:
                # Another reader's stop is over in milliseconds. Nothing stands while it is waited for: two readers that each keep
                # some of the threads would wait for each other.
                self.__exit__()
                if time.perf_counter() > until:
                    raise _in_the_way(self.pid, error.by) from None
                time.sleep(random.uniform(0.0005, 0.003))
            except OSError as error:
                self.__exit__()
                raise explained(error, self.pid) from None
            except BaseException:
                self.__exit__()
                raise

    def _stop(self) -> None:
        for _ in range(ROUNDS):
            new = [tid for tid in map(int, os.listdir(f"/proc/{self.pid}/task")) if tid not in self.seized]
            if not new:
                break
            asked = [tid for tid in new if self._seize(tid)]
            for tid in asked:
                self._await(tid)

    def look(self) -> None:
        """Note where each thread stands."""
        for tid in self.seized:
            try:
                with opened(f"/proc/{self.pid}/task/{tid}/syscall") as file:
                    self.instructions[tid] = int(file.read().split()[-1], 16)
            except (OSError, ValueError, IndexError):  # a kernel without it, or the thread does not stand
                continue

    def __exit__(self, *error: object) -> None:
        left = [tid for tid, signal in self.seized.items() if self._ptrace(DETACH, tid, None, signal) != 0]
        for tid in left:
            if self._await(tid):  # it had not stopped until now
                self._ptrace(DETACH, tid, None, self.seized[tid])
        self.seized = {}
        self.seconds = time.perf_counter() - self._began

    def _seize(self, tid: int) -> bool:
        for last in (False, True):
            if self._ptrace(SEIZE, tid, None, None) == 0:
                break
            number = ctypes.get_errno()
            if number == ESRCH:  # it has ended
                return False
            if number == EPERM and (other := _tracer(tid)):
                if other == self._tracer:  # it did not come back from the kernel since this thread stopped it before
                    break
                raise _Traced(other)
            if number != EPERM or last:  # a tracer that has gone since then is not seen any more
                raise OSError(number, os.strerror(number))
        self.seized[tid] = 0
        return bool(self._ptrace(INTERRUPT, tid, None, None) == 0)

    def _await(self, tid: int, patience: float = LONGEST_WAIT) -> bool:
        """Until the thread stands: true. False: it has ended, or is in the kernel for longer."""
        began = time.perf_counter()
        while True:
            try:
                which, status = os.waitpid(tid, ANY_CHILD | os.WNOHANG)
            except ChildProcessError:  # it has ended
                return False
            if which == tid:
                if os.WIFSTOPPED(status) and status >> 16 != EVENT_STOP:
                    self.seized[tid] = os.WSTOPSIG(status)  # a signal was just about to be delivered
                return True
            waited = time.perf_counter() - began
            if waited > patience and _in_the_kernel(tid):
                return False
            if waited > LONGEST_LOAD:
                raise CannotRead(f"thread {tid} of process {self.pid} does not stop: the machine is overloaded")
            os.sched_yield()


def _in_the_kernel(tid: int) -> bool:
    try:
        with opened(f"/proc/{tid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("R", "S")
    except OSError:
        return True


def _tracer(tid: int) -> int:
    """The thread that traces this one; 0: none."""
    return _number(tid, "TracerPid:")


def _number(tid: int, name: str) -> int:
    try:
        with opened(f"/proc/{tid}/status") as lines:
            return int(next(line for line in lines if line.startswith(name)).split()[1])
    except (OSError, StopIteration, ValueError):
        return 0


def _in_the_way(pid: int, other: int) -> CannotRead:
    process = _number(other, "Tgid:") or other
    return CannotRead(
        f"process {pid} runs, so it has to be stopped for a moment, but process {process} traces it already (a debugger, or strace)"
    )
