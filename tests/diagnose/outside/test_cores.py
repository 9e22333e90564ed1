"""Core files: those that the tests write as the kernel does, the kernel's own, and gcore's, where this machine has them."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from roamlet.core import backend
from roamlet.diagnose import model
from roamlet.diagnose.outside import CannotRead, read_core, read_process
from roamlet.diagnose.outside.system import corefile
from tests.diagnose.outside.images import write_core

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="core files are read as Linux writes them")


def seen(process):
    """What a reader sees, without what changes with time and what is the system's."""
    rows = []
    for thread, tasklet in process.tasklets():
        wait = (
            None
            if tasklet.wait is None
            else (tasklet.wait.kind, tasklet.wait.on, tasklet.wait.address, tasklet.wait.owner)
        )
        rows.append((thread.native_id, tasklet.id, tasklet.name, tasklet.state, wait, tasklet.frames, tasklet.parent))
    return rows


def refusal(*arguments):
    try:
        read_core(*arguments)
    except CannotRead as error:  # kept in no variable: its traceback has what was read
        return str(error)
    return "it was read"


@pytest.fixture
def core(started, tmp_path):
    """(a process that hangs, a core file of it)"""
    running = started("kinds", "sleep")
    running.sleeps()
    path = str(tmp_path / "core")
    write_core(running.pid, path)
    return running, path


def test_a_core_file_shows_what_the_process_shows(core):
    running, path = core
    process = read_core(path)
    assert seen(process) == seen(read_process(running.pid))
    assert len(seen(process)) == 16
    assert process.pid == running.pid
    assert process.how == f"core file {path}"
    assert process.command.startswith(sys.executable)  # of which 80 characters are kept
    assert [problem for problem in process.problems if backend not in problem] == []


def test_the_program_may_have_been_moved(core, tmp_path):
    running, path = core
    exe = tmp_path / "python-of-then"
    shutil.copy(os.path.realpath(f"/proc/{running.pid}/exe"), exe)
    assert seen(read_core(path, str(exe))) == seen(read_process(running.pid))


def test_without_the_files_that_were_mapped_only_names_of_types_are_missing(core, tmp_path):
    running, path = core
    data = (
        Path(path)
        .read_bytes()
        .replace(b"/lib", b"/bil")
        .replace(b"/bin/python", b"/nib/python")
        .replace(b"/src/roamlet/core", b"/src/roamlet/core")
    )
    Path(path).write_bytes(data)
    assert [row[:2] for row in seen(read_core(path))] == [row[:2] for row in seen(read_process(running.pid))]


def test_an_incomplete_core_file_says_so(core):
    _, path = core
    os.truncate(path, os.path.getsize(path) * 9 // 10)
    try:
        process = read_core(path)
    except CannotRead as error:
        text = str(error)
        assert "damaged" in text or "older than" in text or "not loaded" in text
    else:
        assert process.problems[0].startswith("the core file is incomplete: its end is missing")


def test_what_is_no_core_file(tmp_path):
    path = tmp_path / "file"
    assert refusal(str(path)) == f"{path} cannot be read, or is empty"
    path.write_bytes(b"")
    assert refusal(str(path)) == f"{path} cannot be read, or is empty"
    path.write_bytes(b"a text that is long enough to have had a header" * 10)
    assert refusal(str(path)) == f"{path} is no core file of a 64-bit process"
    assert refusal(sys.executable) == f"{sys.executable} is no core file of a 64-bit process"
    assert refusal(str(path), str(tmp_path / "absent")).startswith(f"{tmp_path / 'absent'} cannot be read")


def test_a_core_file_of_another_program(tmp_path):
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            while "sleep" not in os.readlink(f"/proc/{process.pid}/exe"):
                pass
            path = str(tmp_path / "core")
            write_core(process.pid, path)
        finally:
            process.kill()
    assert refusal(path) == "it has not loaded roamlet"


def test_of_ranges_that_overlap_the_first_is_taken():
    ranges = [(20, 30, "d"), (5, 20, "b"), (0, 10, "a"), (10, 20, "c"), (30, 30, "empty"), (40, 35, "reversed")]
    assert corefile._apart(ranges) == [(0, 10, "a"), (10, 20, "c"), (20, 30, "d")]
    assert corefile._apart([]) == []


def test_headers_that_contradict_each_other(core):
    _, path = core
    with open(path, "r+b") as file:
        file.seek(32)
        file.write(b"\xff" * 8)
    assert refusal(path) == f"{path} is damaged: its own headers contradict each other"


def test_a_core_file_of_gcore(started, tmp_path):
    running = started("kinds", "sleep")
    running.sleeps()
    path = tmp_path / f"core.{running.pid}"
    if shutil.which("gcore") is None:  # it comes with gdb: a core file with what it writes and the kernel leaves out
        write_core(running.pid, str(path), only_writable=False)
    else:
        made = subprocess.run(
            ["gcore", "-o", str(tmp_path / "core"), str(running.pid)], capture_output=True, text=True, check=False
        )
        assert path.exists(), made.stderr
    assert seen(read_core(str(path))) == seen(read_process(running.pid))


def kernel_writes_here():
    with open("/proc/sys/kernel/core_pattern") as file:
        pattern = file.read().strip()
    return (
        "/" not in pattern
        and "|" not in pattern
        and resource.getrlimit(resource.RLIMIT_CORE)[1] == resource.RLIM_INFINITY
    )


@pytest.mark.skipif(not kernel_writes_here(), reason="kernel.core_pattern does not write into the current folder")
def test_a_core_file_of_the_kernel(started, tmp_path):
    running = started("kinds", "sleep", cwd=str(tmp_path))
    running.sleeps()
    resource.prlimit(running.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    before = seen(read_process(running.pid))
    running.send_signal(signal.SIGABRT)
    assert running.wait(60) == -signal.SIGABRT
    (path,) = tmp_path.glob("core*")
    process = read_core(str(path))
    assert seen(process) == before
    assert process.pid == running.pid
    assert {thread.scheduler is not None for thread in process.threads} == {True}
    assert all(tasklet.state in model.STATES for _, tasklet in process.tasklets())


def test_a_pipe_that_a_core_file_names_is_not_waited_for(core, tmp_path):
    _, path = core
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert refusal(str(pipe)) == f"{pipe} cannot be read, or is empty"
    assert "cannot be read, or is empty: give the Python" in refusal(path, str(pipe))
