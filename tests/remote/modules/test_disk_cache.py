"""The cache folder of this account: what is read is what was written, private, bounded, and never in the way."""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from roamlet.remote.modules import disk_cache
from roamlet.remote.modules.disk_cache import DiskCache, digest_of

PIECES = (b"first" * 100, b"", b"last")
NAME = "ab12"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROAMLET_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def read(cache: DiskCache, name: str = NAME) -> "list[bytes | None] | None":
    with cache.opened(name) as stored:
        return None if stored is None else [stored.piece(index) for index in range(len(stored.entries))]


def test_pieces_come_back_with_their_digests_and_sizes_and_nobody_else_may_look(folder: Path) -> None:
    cache = DiskCache()
    assert read(cache) is None
    assert cache.write(NAME, PIECES)
    assert read(DiskCache()) == list(PIECES)
    with cache.opened(NAME) as stored:
        assert stored is not None
        assert [entry[:2] for entry in stored.entries] == [(digest_of(one), len(one)) for one in PIECES]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()] == [0o600]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def change_head(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[25] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def claim_many(path: Path) -> None:
    path.write_bytes(b"roamlet pieces 1\n\xff\xff\xff\xff")


def let_others_write(path: Path) -> None:
    path.chmod(0o622)


def replace_by_link(path: Path) -> None:
    path.rename(path.parent / "real")
    path.symlink_to(path.parent / "real")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "harm", [cut, lengthen, change_head, empty, claim_many, let_others_write, replace_by_link, replace_by_pipe]
)
def test_a_file_that_is_not_as_it_was_written_is_none(folder: Path, harm: Callable[[Path], None]) -> None:
    cache = DiskCache()
    cache.write(NAME, PIECES)
    harm(folder / NAME)
    assert read(cache) is None
    if harm is not replace_by_pipe:
        assert cache.write(NAME, PIECES)
        assert read(cache) == list(PIECES)


def test_of_a_file_with_a_changed_piece_the_others_are_good(folder: Path) -> None:
    cache = DiskCache()
    cache.write(NAME, PIECES)
    data = (folder / NAME).read_bytes()
    (folder / NAME).write_bytes(data.replace(b"firstfirst", b"firsTfirst", 1))
    assert read(cache) == [None, b"", b"last"]
    cache.remove(NAME)
    assert read(cache) is None


def test_a_folder_that_others_may_look_into_is_closed_to_them_before_anything_is_written(folder: Path) -> None:
    """Another program may have made it, with the permissions that folders usually have."""
    cache = DiskCache()
    assert cache.write(NAME, PIECES)
    folder.chmod(0o755)
    assert read(cache) is None
    assert cache.write("cd", PIECES)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert read(cache) == list(PIECES)


def test_a_folder_that_others_may_write_in_is_not_used(folder: Path) -> None:
    cache = DiskCache()
    assert cache.write(NAME, PIECES)
    folder.chmod(0o775)
    assert read(cache) is None
    assert not cache.write("cd", PIECES)
    assert [one.name for one in folder.iterdir()] == [NAME]


def test_where_the_folder_is_of_another_account_nothing_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setenv("ROAMLET_CACHE", str(folder / "below" / "kept"))
    folder.mkdir()
    assert not DiskCache().write(NAME, PIECES)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("place", ["", "relative/folder"])
def test_without_a_place_nothing_is_kept(place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROAMLET_CACHE", place)
    assert not DiskCache().write(NAME, PIECES)
    assert read(DiskCache()) is None
    assert list(tmp_path.iterdir()) == []


def test_the_place_is_that_of_the_desktop_standard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROAMLET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert disk_cache.place() == tmp_path / "xdg/roamlet"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk_cache.place() == tmp_path / ".cache/roamlet"
    assert DiskCache().write(NAME, PIECES)
    assert (tmp_path / ".cache/roamlet" / NAME).exists()


def test_what_was_used_longest_ago_goes_first_when_there_is_no_room(folder: Path) -> None:
    cache = DiskCache(most=10_000)
    long_ago = time.time() - 100_000
    for number in range(4):
        assert cache.write(f"{number}", [bytes(2_000)])
        os.utime(folder / f"{number}", (long_ago + number, long_ago + number))
    assert read(cache, "0") is not None  # used now
    unfinished = folder / ".9.1.1"
    unfinished.write_bytes(bytes(5_000))
    os.utime(unfinished, (long_ago, long_ago))
    assert cache.write("4", [bytes(3_000)])
    assert sorted(one.name for one in folder.iterdir()) == ["0", "2", "3", "4"]
    assert not cache.write("5", [bytes(5_001)])  # alone it takes more than half


def test_a_full_disk_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    cache = DiskCache()
    monkeypatch.setattr(Path, "replace", fail)
    assert not cache.write(NAME, PIECES)
    assert list(folder.iterdir()) == []
