"""Which processes of this machine use roamlet; nothing is read of them but what the system says to everybody who may look."""

import os

from roamlet.diagnose.outside.system.proc import opened
from roamlet.diagnose.outside.table import IN_MEMORY, MODULE


def find_processes(name: str | None = None) -> list[int]:
    """The PIDs of those that have loaded roamlet, may be looked at, and have `name` in their command line; without this one."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                command = os.fsdecode(file.read().replace(b"\0", b" "))
            if name is not None and name not in command:
                continue
            with opened(f"/proc/{entry}/maps") as lines:
                paths = {line.rstrip("\n").split(None, 5)[-1] for line in lines if ".so" in line or "/memfd:" in line}
        except OSError:  # it has ended, or is not ours to look at
            continue
        if any(MODULE.search(path) or IN_MEMORY.search(path) for path in paths):
            found.append(int(entry))
    return sorted(found)
