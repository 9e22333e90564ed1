"""Before anything else: neither a test nor a program that one starts can set the clock of this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.clock.tests.harmless import give_up_the_clock
from apps.clock.tests.machine import SHELLS, Machine, busybox
from tests.tracing import strace  # noqa: F401 - a fixture
from tools import unpack_debian

# When this module is imported, which is before the first test and before there is a second thread.
give_up_the_clock()


@pytest.fixture(scope="session")
def busybox_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Skips where busybox is neither installed nor to be had."""
    try:
        return busybox(tmp_path_factory.mktemp("busybox"))
    except unpack_debian.CannotUnpack as reason:
        pytest.skip(f"there is no busybox: {reason}")


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """A machine with dash and coreutils, then one with busybox and what busybox has."""
    made = make_machine(request, tmp_path, request.param)
    yield made
    made.end()


@pytest.fixture
def one_machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """A machine for what does not depend on its shell."""
    made = make_machine(request, tmp_path, "dash")
    yield made
    made.end()


def make_machine(request: pytest.FixtureRequest, folder: Path, shell: str) -> Machine:
    path = [Path("/usr/bin"), Path("/bin"), Path("/usr/sbin")]
    words = [shell]
    if shell == "busybox":
        programs = request.getfixturevalue("busybox_programs")
        path, words = [programs, *path], [str(programs / "sh")]
    return Machine(folder, words, list(map(str, path)))
