"""Targets that are not as they should be, and what tests of faults look at: processes, counts of runs, leftovers."""

import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from roamlet.testing import wait_until
from tests.remote.sshd import UNPACKED, Sshd, running_sshd
from tools import supervised

from .playing import Playing

PATIENCE = 60.0  # seconds; a process of async_wrapper looks every five whether its job has ended

# The words that every task of a test needs which stops in its middle and counts its runs.
HOLD = "echo run >> {runs}; while [ ! -e {go} ]; do sleep 0.05; done"

# Tests of faults look at all processes that are left: ssh's own master process would be one, for as long as ControlPersist says.
NO_MASTER = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no"}


def commands(words: str) -> dict[int, str]:
    """The command lines, by process, of everything that the tests have started and that contains these words."""
    lines = {one.pid: _line(one.pid) for one in supervised.running()}
    return {process: line for process, line in lines.items() if words in line}


def kill(words: str) -> None:
    """SIGKILL to each process of the tests whose command line contains `words`, not to its children; there has to be one."""
    found = commands(words)
    assert found, f"no process has {words!r} in its command line"
    for process in [one for one in found if _parent(one) not in found]:
        os.kill(process, signal.SIGKILL)


def _parent(process: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def kill_sessions(server: Sshd) -> None:
    """What a target that dies looks like: the sessions of its sshd are gone, with no word to anyone."""
    _signal(_sessions(server), signal.SIGKILL)


def stop_sessions(server: Sshd) -> list[int]:
    """What a target without power looks like: the sessions of its sshd say nothing more. Returns them, for end_stopped()."""
    found = _sessions(server)
    _signal(found, signal.SIGSTOP)
    return found


def end_stopped(processes: Sequence[int]) -> None:
    """Kill what stop_sessions() has stopped."""
    _signal(processes, signal.SIGKILL)


def _sessions(server: Sshd) -> list[int]:
    children = [one.pid for one in supervised.below(server.process.pid) if "sshd" in _name(one.pid)]
    assert children, "sshd has no session"
    return children


def _signal(processes: Sequence[int], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text()
    except OSError:
        return ""


def runs(path: Path) -> int:
    """How often something has appended a line to `path`."""
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for(path: Path) -> None:
    wait_until(path.exists, PATIENCE)


@contextmanager
def leaving_nothing(playing: Playing) -> Iterator[None]:
    """Afterwards there is no process that was not there before, and no folder of ours, on either side."""
    before = supervised.running()
    yield
    with suppress(TimeoutError):
        wait_until(lambda: not (supervised.running() - before or list(playing.control.iterdir())), PATIENCE)
    assert [_line(one.pid) for one in supervised.running() - before] == []
    assert list(playing.control.iterdir()) == []
    local = playing.folder / "ansible" / "tmp"
    assert not local.exists() or list(local.iterdir()) == []


def _line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


KEEP_SERVERS = """\
PLACE={place}
if [ -d "{unpacked}" ]; then
    mkdir -p "$PLACE/servers"
    mount --bind "{unpacked}" "$PLACE/servers"
    export LD_LIBRARY_PATH="$(echo "$LD_LIBRARY_PATH" | sed "s,{unpacked},$PLACE/servers,g")"
    program="$(echo "$1" | sed "s,{unpacked},$PLACE/servers,")"
    shift
    set -- "$program" "$@"
fi
"""


@contextmanager
def target(playing: Playing, preparation: str, options: Sequence[str] = ()) -> Iterator[Playing]:
    """`playing` against an sshd whose mount namespace was changed by a shell's `preparation`; its $PLACE is not in /tmp.

    An sshd that was unpacked into the repository is found there too, where `preparation` may hide it.
    """
    with tempfile.TemporaryDirectory(prefix="roamlet-target-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        enter = Path(folder, "enter")
        inside = KEEP_SERVERS.format(place=folder, unpacked=UNPACKED) + f'{preparation}\nexec "$@"'
        enter.write_text(f"#!/bin/sh\nexec unshare --mount --propagation private sh -ec '{inside}' sh \"$@\"\n")
        enter.chmod(0o755)
        with running_sshd(Path(folder), [str(enter)], options) as server:
            variables = {**playing.variables, "ansible_ssh_common_args": f"-F {folder}/ssh_config"}
            changed = Playing(playing.folder, playing.control, server.host, Path(folder, "ssh_config"), "")
            changed.variables = variables
            with leaving_nothing(changed):
                yield changed
