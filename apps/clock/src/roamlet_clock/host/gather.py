"""The facts of a host, all in one call. Changes nothing.

Runs on the host: standard library, Python 2.7, or 3.6 and later. roamlet_clock.facts checks what goes up, and says its shape.
"""

from __future__ import unicode_literals

import ctypes
import errno
import glob
import os
import re
import socket
import stat
import time

from roamlet_clock.host import commands

VERSION = 1
LARGEST = 1 << 16  # bytes of a file that are looked at: what roamlet clock writes is far smaller
SYNCED = 16 * 1000 * 1000  # microseconds of possible error below which systemd, too, calls a clock synchronised
UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
UNIT_STATES = {"load": "LoadState", "enabled": "UnitFileState", "active": "ActiveState", "result": "Result"}
# Of timesyncd: today, with DynamicUser=, and up to systemd 234.
CLOCK_FILES = (
    "/var/lib/systemd/timesync/clock",
    "/var/lib/private/systemd/timesync/clock",
    "/var/lib/systemd/clock",
)


def gather(paths, units, program, root=""):
    """The facts of this host as a dict of plain values; what could not be found out is in its `missing`, with the reason.

    `paths` are files and folders to describe, `units` names of systemd's to ask for, `program` the script that may be installed.
    `root` is for tests: what stands before each path. Blocks while some short commands run.
    """
    missing = {}

    def ask(name, question, otherwise):
        try:
            return question()
        except (commands.CannotDo, OSError, ValueError, IndexError) as error:
            missing[name] = commands.told(error) or type(error).__name__
            return otherwise

    booted = os.path.isdir(root + "/run/systemd/system")
    found = {path: ask(path, lambda path=path: _described(root + path), None) for path in paths}
    facts = {
        "version": VERSION,
        "hostname": commands.shown(_bytes(socket.gethostname())),
        "is_root": os.geteuid() == 0,
        "systemd": ask("systemd", _systemd_version, None) if booted else None,
        "time_set": any(os.path.exists(root + folder + "/time-set.target") for folder in UNIT_FOLDERS),
        "rtc": ask("rtc", lambda: _rtc(root), None),
        "clock_file": ask("clock_file", lambda: _clock_file(root), None),
        "synchronised": ask("synchronised", _synchronised, None),
        "paths": {path: one for path, one in found.items() if one is not None},
        "units": {name: ask(name, lambda name=name: _unit(name), None) for name in units} if booted else {},
        "status": ask("status", lambda: _status(root + program), None),
        "missing": missing,
    }
    facts["time"] = time.time()
    return facts


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")


def _systemd_version():
    match = re.search(r"^systemd (\d+)", commands.must("systemctl", "--version"), re.MULTILINE)
    if match is None:
        raise commands.CannotDo("systemctl --version does not say which version it is")
    return int(match.group(1))


def _described(path):
    """What is there: a file with its text, a folder with the names in it, a link with where it leads; None when nothing is."""
    path = path.encode("utf-8")  # bytes, because names below it may not be text
    try:
        about = os.lstat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    found = {"kind": "other", "mode": stat.S_IMODE(about.st_mode), "uid": about.st_uid, "text": ""}
    if stat.S_ISLNK(about.st_mode):
        found.update(kind="link", text=commands.shown(os.readlink(path)))
    elif stat.S_ISDIR(about.st_mode):
        names = sorted(os.listdir(path))
        found.update(kind="folder", text=commands.shown(b"\n".join(names))[:LARGEST])
    elif stat.S_ISREG(about.st_mode):
        with open(path, "rb") as file:
            found.update(kind="file", text=file.read(LARGEST).decode("utf-8", "replace"))
    return found


def _rtc(root):
    """The first hardware clock that the kernel knows, with its time; None on a host without one."""
    for folder in sorted(glob.glob(root + "/sys/class/rtc/rtc*")):
        try:
            since = int(_first_line(folder + "/since_epoch"))
        except (OSError, ValueError):  # there, but it cannot be read: the kernel says EINVAL where its battery is empty
            since = None
        return {"device": os.path.basename(folder), "name": _first_line(folder + "/name"), "epoch": since}
    return None


def _first_line(path):
    with open(path, "rb") as file:
        return commands.shown(file.read(200)).strip()


def _clock_file(root):
    """The newest clock file of systemd-timesyncd, and when it was touched."""
    found = []
    for path in CLOCK_FILES:
        try:
            found.append((os.stat(root + path).st_mtime, path))
        except OSError:
            continue
    return {"path": max(found)[1], "time": max(found)[0]} if found else None


def _synchronised():
    """Whether the kernel has been told the time by somebody who knows it; None where it does not say. Asks, and sets nothing."""
    # struct timex: modes, padded to a long, then longs: offset, freq, maxerror. Larger than any libc's.
    asked = (ctypes.c_long * 64)()
    if ctypes.CDLL(None).adjtimex(ctypes.byref(asked)) < 0:  # the filters of a container forbid the call
        return None
    return asked[3] < SYNCED


def _unit(name):
    """systemd's own words; a unit that it does not know is "not-found"."""
    said = _values(commands.must("systemctl", "show", "-p", ",".join(UNIT_STATES.values()), name))
    return {key: said.get(state, "") for key, state in UNIT_STATES.items()}


def _status(program):
    """What the installed script reports, NAME=VALUE on each line. None where it is not installed."""
    return _values(commands.must("sh", program, "status")) if os.path.exists(program) else None


def _values(output):
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
