"""Takes the right to set a clock away from this process and from all that it starts: from here on no test can change the time.

Capabilities belong to threads: this is called before there is a second one.
"""

import ctypes
import errno
import os
import time
from pathlib import Path

__all__ = ["CAP_SYS_TIME", "SETS", "can_set_the_clock", "give_up_the_clock", "held"]

CAP_SYS_TIME = 25
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")  # as /proc calls them
VERSION_3 = 0x20080522
PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24
PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER = 47, 3


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def give_up_the_clock() -> None:
    """Drop CAP_SYS_TIME from the bounding set, so that no program gets it back, and from the sets of this thread.

    Without root a process cannot change the bounding set, and has no CAP_SYS_TIME either. Right to do twice. Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def must(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"CAP_SYS_TIME cannot be given up: {os.strerror(number)}")
        return result

    def prctl(*words: int) -> int:
        return libc.prctl(*(ctypes.c_ulong(word) for word in (*words, *[0] * (5 - len(words)))))

    if prctl(PR_CAPBSET_READ, CAP_SYS_TIME) == 1 and prctl(PR_CAPBSET_DROP, CAP_SYS_TIME) < 0:
        number = ctypes.get_errno()
        if number != errno.EPERM or os.geteuid() == 0:
            raise OSError(number, f"CAP_SYS_TIME cannot be given up: {os.strerror(number)}")
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, CAP_SYS_TIME)  # fails on a kernel that has no such set
    header, data = _Header(VERSION_3, 0), (_Data * 2)()
    must(libc.capget(ctypes.byref(header), ctypes.byref(data)))
    for name in ("effective", "permitted", "inheritable"):
        setattr(data[0], name, getattr(data[0], name) & ~(1 << CAP_SYS_TIME))
    must(libc.capset(ctypes.byref(header), ctypes.byref(data)))


def held(status: str) -> dict[str, bool]:
    """For each set of capabilities in the text of a /proc/PID/status: whether CAP_SYS_TIME is in it."""
    words = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return {name: bool(int(words[name], 16) >> CAP_SYS_TIME & 1) for name in SETS if name in words}


def can_set_the_clock() -> bool:
    """Whether this process may set the clock. The kernel is asked, by setting the time that it is, when the sets say no."""
    if any(held(Path("/proc/thread-self/status").read_text())[name] for name in ("CapPrm", "CapEff")):
        return True
    try:
        time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME))
    except PermissionError:
        return False
    return True


if __name__ == "__main__":  # in a child of a test: with what it has inherited, says what it may
    print(can_set_the_clock())
