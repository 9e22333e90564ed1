"""This machine, for `roamlet doctor`: the interpreter, the core, ssh, limits and permissions. Reads; changes nothing."""

import importlib
import os
import platform
import resource
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from roamlet.cli.examining.finding import Finding

NATIVE_MACHINES = ("x86_64", "aarch64")  # setup.py builds the native backend for them, on Linux
FEW_DESCRIPTORS = 1024  # what Linux gives by itself; a context over ssh takes a few
SECONDS = 10.0  # for a program that says its version
SHARED_MEMORY = Path("/dev/shm")
PTRACE = Path("/proc/sys/kernel/yama/ptrace_scope")


def findings() -> Iterator[Finding]:
    """All about this machine."""
    for look in (python, core, tables, ssh, descriptors, reading_of_processes, shared_memory, cache):
        yield guarded(look)


def guarded(look: Callable[[], Finding]) -> Finding:
    """What it finds; where it fails, that."""
    try:
        return look()
    except Exception as error:  # one thing that is broken hides no other
        return Finding(look.__name__.replace("_", " "), "wrong", f"{type(error).__name__}: {error}")


def python() -> Finding:
    """The interpreter that runs this."""
    return Finding("Python", "ok", f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}")


def core(load: Callable[[str], object] = importlib.import_module) -> Finding:
    """The C core, and which switching backend it has."""
    again = shlex.join([sys.executable, "-m", "pip", "install", "--force-reinstall", "roamlet"])
    try:
        from roamlet.core import backend  # here, because it cannot be loaded at all on some Pythons, which is a finding
    except ImportError as error:
        return Finding("roamlet", "wrong", str(error))
    said = f"{version('roamlet')}, {backend} backend, {Path(__file__).parents[2]}"
    if backend == "native" or sys.platform != "linux" or platform.machine() not in NATIVE_MACHINES:
        return Finding("roamlet", "ok", said)
    if os.environ.get("ROAMLET_SWITCH") == "greenlet":
        return Finding("roamlet", "note", f"{said}: ROAMLET_SWITCH asks for it", "unset ROAMLET_SWITCH")
    try:
        load("roamlet.core._native")
        why = "the native one can be loaded now"
    except ImportError as error:
        why = f"the native one, which saves and moves tasklets, cannot be loaded: {error}. From a clone, install its folder"
    return Finding("roamlet", "note", f"{said}; {why}", again)


def tables() -> Finding:
    """The package that the command line prints tables with."""
    if find_spec("rich") is None:
        words = [sys.executable, "-m", "pip", "install", "roamlet[cli]"]
        return Finding(
            "tables", "note", "rich is not installed: commands with tables work with --json alone", shlex.join(words)
        )
    return Finding("tables", "ok", f"rich {version('rich')}")


def ssh() -> Finding:
    """The client that contexts on other machines are opened with."""
    program = shutil.which("ssh")
    if program is None:
        return Finding(
            "ssh",
            "wrong",
            "there is no ssh on the PATH: no other machine is reached",
            "sudo apt install openssh-client",
        )
    try:
        done = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(
            "ssh", "wrong", f"{program} does not say its version: {error}", "sudo apt install openssh-client"
        )
    said = (done.stderr or done.stdout).strip().partition(",")[0]
    if done.returncode or not said.startswith("OpenSSH"):
        return Finding(
            "ssh",
            "wrong",
            f"{program} is not OpenSSH's client: {said or done.returncode}",
            "sudo apt install openssh-client",
        )
    return Finding("ssh", "ok", f"{said}, {program}")


def descriptors() -> Finding:
    """How many files and connections a process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= FEW_DESCRIPTORS:
        return Finding("descriptors", "ok", "no limit" if soft == resource.RLIM_INFINITY else f"{soft} a process")
    most = FEW_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(FEW_DESCRIPTORS, hard)
    return Finding("descriptors", "note", f"{soft} a process: enough for few hosts at a time", f"ulimit -n {most}")


def reading_of_processes() -> Finding:
    """Whether `roamlet ps` may read the processes of this account."""
    scope = PTRACE.read_text().strip() if PTRACE.exists() else "0"
    if scope == "0" or os.geteuid() == 0:
        return Finding(
            "roamlet ps", "ok", "reads the processes of this account" if os.geteuid() else "reads all processes"
        )
    if scope == "1":
        said = "needs sudo: kernel.yama.ptrace_scope is 1, which lets a process be read by its parents alone"
        return Finding("roamlet ps", "note", said, "sudo sysctl kernel.yama.ptrace_scope=0")
    if scope == "2":
        return Finding("roamlet ps", "note", "needs sudo: kernel.yama.ptrace_scope is 2")
    return Finding("roamlet ps", "note", f"reads nothing: kernel.yama.ptrace_scope is {scope} until the next boot")


def shared_memory() -> Finding:
    """Where suites of tests and Dask's workers have their files, on this machine."""
    if not os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        said = f"{SHARED_MEMORY} cannot be written to: workers on this machine use the folder for temporary files"
        return Finding("shared memory", "note", said)
    free = shutil.disk_usage(SHARED_MEMORY).free
    return Finding("shared memory", "ok", f"{free / 1e9:.1f} GB free in {SHARED_MEMORY}")


def cache() -> Finding:
    """The folder where compressed modules are kept."""
    try:
        from roamlet.remote.modules.disk_cache import (
            PLACE,
            place,
        )  # here: it loads the core, which may be what is wrong
    except ImportError:
        return Finding("cache", "note", "it is not looked at, as roamlet's core cannot be loaded")

    folder = place()
    if folder is None:
        return Finding("cache", "ok", f"none: {PLACE} says so")
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return Finding("cache", "ok", f"{folder}, made when it is needed")
    except OSError as error:
        return Finding("cache", "note", f"nothing is kept in {folder}: {error.strerror}")
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        what = "is no folder" if not stat.S_ISDIR(found.st_mode) else "belongs to another account"
        return Finding("cache", "note", f"nothing is kept: {folder} {what}", f"export {PLACE}=FOLDER")
    if found.st_mode & 0o022:
        said = f"nothing is kept: others may write into {folder}"
        return Finding("cache", "note", said, f"chmod 700 {shlex.quote(str(folder))}")
    return Finding("cache", "ok", str(folder))
