"""Private folders: where they are, and that they are removed when their process ends, in whatever way."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roamlet.wire.files import private

MAKE = """\
import os, signal, sys, tempfile
from roamlet.wire.files import private
private.MEMORY, private.SHELL, tempfile.tempdir = sys.argv[2:5]
folder = private.private_folder("roamlet-test-")
print(folder, flush=True)
exec(sys.argv[1])
"""


def made(then: str, memory: object, tmp: object, shell: str = "/bin/sh") -> Path:
    """Where a process had its private folder that then did `then`, and is over."""
    done = subprocess.run(
        [sys.executable, "-c", MAKE, then, str(memory), shell, str(tmp)], capture_output=True, text=True, check=False
    )
    assert not done.stderr
    return Path(done.stdout.strip())


def gone(folder: Path, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return not folder.exists()


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_it_is_removed_with_all_that_is_in_it_however_its_process_ends(tmp_path: Path, end: str) -> None:
    fill = (
        "os.mkdir(folder + '/inside'); open(folder + '/inside/file', 'w').close(); os.chmod(folder + '/inside', 0o500);"
    )
    folder = made(fill + end, tmp_path, tmp_path)
    assert folder.parent == tmp_path and folder.name.startswith("roamlet-test-")
    assert gone(folder)


def test_it_belongs_to_its_account_alone_and_is_in_memory(tmp_path: Path) -> None:
    mode = tmp_path / "mode"
    folder = made(f"open({str(mode)!r}, 'w').write(str(os.stat(folder).st_mode))", private.MEMORY, tmp_path)
    assert folder.parent == Path("/dev/shm")
    assert stat.S_IMODE(int(mode.read_text())) == 0o700
    assert gone(folder)


def test_where_memory_takes_no_folder_the_usual_place_does(tmp_path: Path) -> None:
    folder = made("os.kill(os.getpid(), signal.SIGKILL)", tmp_path / "absent", tmp_path)
    assert folder.parent == tmp_path
    assert gone(folder)


def test_where_no_shell_can_be_started_an_orderly_end_removes_it(tmp_path: Path) -> None:
    folder = made("assert os.path.isdir(folder)", tmp_path, tmp_path, shell=str(tmp_path / "no-shell"))
    assert folder.parent == tmp_path
    assert not folder.exists()


def test_a_child_that_outlives_the_process_does_not_keep_it(tmp_path: Path) -> None:
    """It has inherited what subprocess leaves open, and nothing of this."""
    folder = made(
        "import subprocess; silent = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL};"
        "print(subprocess.Popen(['sleep', '60'], **silent).pid, file=open(folder + '.pid', 'w'))",
        tmp_path,
        tmp_path,
    )
    try:
        assert gone(folder)
    finally:
        os.kill(int(Path(f"{folder}.pid").read_text()), 9)


FORK = """\
pid = os.fork()
if not pid:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1), os.dup2(silence, 2)
    signal.pause()
print(pid, file=open(folder + ".pid", "w"))
"""


def test_a_fork_that_outlives_the_process_does_not_keep_it(tmp_path: Path) -> None:
    """It has inherited the pipe, which no exec closes."""
    folder = made(FORK, tmp_path, tmp_path)
    try:
        assert gone(folder)
    finally:
        os.kill(int(Path(f"{folder}.pid").read_text()), 9)


def test_the_end_of_a_fork_leaves_the_folder_of_its_parent(tmp_path: Path) -> None:
    """What is registered for the end of the process is inherited as well."""
    shell = str(tmp_path / "no-shell")
    folder = made("if os.fork(): os.wait(); assert os.path.isdir(folder)", tmp_path, tmp_path, shell=shell)
    assert not folder.exists()


def removing(tmp_path: Path, commands: dict[str, str]) -> tuple[Path, list[str]]:
    """Run the remover with these commands in place of the system's; the folder, and what the commands said."""
    folder, places = tmp_path / "folder", tmp_path / "commands"
    places.mkdir()
    for name, text in commands.items():
        (places / name).write_text(f"#!/bin/sh\n{text}\n")
        (places / name).chmod(0o755)
    (folder / "inside").mkdir(parents=True)
    (folder / "inside").chmod(0o500)
    done = subprocess.run(
        [private.SHELL, "-c", private.REMOVER, "sh", str(folder)],
        env={"PATH": f"{places}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0
    return folder, (tmp_path / "said").read_text().split("\n")[:-1]


def test_what_cannot_be_removed_at_once_is_removed_later(tmp_path: Path) -> None:
    """Processes that end may still write to it, and tests make folders that cannot be written to."""
    rm = f'echo rm >> {tmp_path}/said; [ "$(grep -c rm {tmp_path}/said)" -gt 3 ] && exec /bin/rm "$@"; exit 1'
    folder, said = removing(tmp_path, {"rm": rm, "sleep": f"echo sleep $1 >> {tmp_path}/said"})
    assert not folder.exists()
    assert said == ["rm", "rm", "sleep 1", "rm", "rm", "sleep 3"]


def test_what_is_made_anew_after_it_was_removed_is_removed_again(tmp_path: Path) -> None:
    """A worker that ends makes folders of its own in it."""
    once = f'[ "$(grep -c sleep {tmp_path}/said)" = 1 ] && mkdir -p {tmp_path}/folder/anew; exit 0'
    again = f"echo sleep $1 >> {tmp_path}/said; {once}"
    folder, said = removing(tmp_path, {"sleep": again})
    assert not folder.exists()
    assert said == ["sleep 1", "sleep 3"]
