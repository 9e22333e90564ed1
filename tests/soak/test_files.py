"""Large files, and many: memory stays bounded at both ends, whatever the size."""

import os
import re
from pathlib import Path

import pytest

from roamlet import remote

pytestmark = pytest.mark.soak

MOST = 64 << 20


def peak(pid="self"):
    """The most memory that the process has had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) << 10


def test_the_memory_of_both_ends_is_bounded(tmp_path):
    piece = os.urandom(1 << 20)
    with (tmp_path / "source").open("wb") as source:
        for _ in range(1024):
            source.write(piece)
    with remote.local() as context:
        pid = context.call(os.getpid)
        Path("/proc/self/clear_refs").write_text("5")  # begin to count anew
        before = peak()
        context.put(tmp_path / "source", str(tmp_path / "there"), sync=False)
        context.get(str(tmp_path / "there"), tmp_path / "back", sync=False)
        assert peak() - before < MOST
        assert peak(pid) < MOST + (16 << 20)  # with the interpreter itself
    assert (tmp_path / "back").stat().st_size == 1 << 30


def test_ten_thousand_small_files_arrive(tmp_path):
    for number in range(10_000):
        path = tmp_path / "source" / str(number % 100) / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    with remote.local() as context:
        assert context.put(tmp_path / "source", str(tmp_path / "there"), sync=False).files == 10_000
        assert context.get(str(tmp_path / "there"), tmp_path / "back", sync=False).files == 10_000
    for path in (tmp_path / "back").glob("*/*"):
        assert path.read_text() == path.name
