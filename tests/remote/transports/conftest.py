"""A folder in front of PATH for the commands that the tests of transports bring along."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from roamlet import io
from tests.remote.transports.private_system import OPEN, CannotBeMade, PrivateSystem, make


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in front of everything else on PATH."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture(scope="session")
def private_system(tmp_path_factory: pytest.TempPathFactory) -> PrivateSystem:
    """Accounts, sudo and doas that the machine does not have; without root the tests that need them are skipped and say so."""
    try:
        return make(tmp_path_factory.mktemp("system"))
    except CannotBeMade as reason:
        pytest.skip(f"no private system: {reason}")


@pytest.fixture
def called_by(private_system: PrivateSystem, commands: Path) -> Callable[[str], None]:
    """`called_by(user)`: sudo, su and doas are called by that user from now on; contexts inherit this PATH."""

    def called_by(user: str) -> None:
        for program in OPEN:
            private_system.command(program, user, commands)

    return called_by


@pytest.fixture(scope="session", autouse=True)
def hub_of_this_thread() -> None:
    """It lives as long as the thread: no test shall seem to have left it behind."""
    reads, writes = os.pipe()
    io.wait_writable(writes)
    with pytest.raises(TimeoutError):
        io.wait_readable(reads, 0)
    for fd in (reads, writes):
        io.close(fd)
