"""strace for tests that ask what a process does to files: the installed one, or one unpacked into a private folder."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tools import unpack_debian

UNPACKED = Path(__file__).parents[1] / ".venv" / "strace"


@pytest.fixture(scope="session")
def strace() -> list[str]:
    """The command to trace with. Skips the test where strace can be had from nowhere, or may not trace."""
    installed = shutil.which("strace")
    command = [installed] if installed else []
    if not command:
        try:
            command = unpack_debian.command(unpack_debian.unpack(UNPACKED, ["strace"]), "strace")
        except unpack_debian.CannotUnpack as error:
            pytest.skip(f"strace is not installed: {error}")
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be traced on this machine")
    return command
