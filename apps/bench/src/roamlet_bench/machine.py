"""What the figures were taken on: the machine, the interpreter, the versions of everything that was measured."""

import contextlib
import datetime
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import roamlet

DISTRIBUTIONS = ("roamlet", "greenlet", "gevent", "uvloop", "mitogen", "dispatch-py", "django")


def header(quick: bool) -> dict[str, Any]:
    """The head of a run's JSON; `quick`: the figures were taken with fewer and shorter turns."""
    return {
        "format": 1,
        "taken": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "machine": machine(),
        "versions": versions(),
    }


def machine() -> dict[str, Any]:
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}",
        "load": list(os.getloadavg()),
    }


def processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        for line in cpuinfo:
            if line.startswith(("model name", "Hardware", "CPU implementer")):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def versions() -> dict[str, str]:
    """Python's and each distribution's version; one that is not installed has no entry. roamlet's with its commit in a checkout."""
    found = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "compiler": platform.python_compiler(),
    }
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "roamlet":  # run from a checkout that is not installed
                found[name] = roamlet.__version__
    if "roamlet" in found and (commit := checkout()):
        found["roamlet"] += f" ({commit})"
    return found


def checkout() -> str | None:
    """The commit that is checked out here, marked when files differ from it; None outside of a checkout of roamlet."""
    source = Path(roamlet.__file__).resolve().parents[1]
    if source.name != "src":  # installed, perhaps inside another project's repository
        return None
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=source,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def busy() -> str | None:
    """A sentence if other processes compute on this machine now, which makes every figure noisy; else None."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load < cores * 0.5:
        return None
    return f"This machine is busy (load {load:.1f} on {cores} cores): read the ratios, and take the figures again when it is quiet."


def is_312() -> bool:
    """The version of Python that the core's bars were set on."""
    return sys.version_info[:2] == (3, 12)
