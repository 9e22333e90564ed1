"""The compressed form of shared objects: made once, kept for other contexts and later runs, and made again where that fails."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from roamlet.remote.modules import bounded
from roamlet.remote.modules.native import shared
from roamlet.remote.modules.native.shared import LARGEST, PIECE, SharedFile, form_for, shared_file
from roamlet.wire.modules import bundle as wire_bundle

CONTENTS = os.urandom(PIECE) + bytes(PIECE) + b"the rest"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROAMLET_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    bounded.trim()


@pytest.fixture
def file(tmp_path: Path) -> SharedFile:
    (tmp_path / "lib.so").write_bytes(CONTENTS)
    return shared_file(str(tmp_path / "lib.so"))


@pytest.fixture
def compressed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The forms that were made, one for each time."""
    made: list[str] = []
    original = SharedFile._compress

    def compress(self: SharedFile, form: str) -> Iterator[bytes]:
        made.append(form)
        return original(self, form)

    monkeypatch.setattr(SharedFile, "_compress", compress)
    return made


def bytes_of(file: SharedFile, form: str = "zlib") -> bytes:
    whole = []
    for piece in file.pieces(form):
        data = piece.data()
        assert len(data) == piece.size <= LARGEST
        assert shared.digest_of(data) == piece.digest
        whole.append(data)
    return zlib.decompress(b"".join(whole))


def test_it_is_compressed_once_for_all_contexts_and_runs(file: SharedFile, folder: Path, compressed: list[str]) -> None:
    assert bytes_of(file) == CONTENTS
    assert bytes_of(file) == CONTENTS
    bounded.trim()
    assert bytes_of(file) == CONTENTS
    assert compressed == ["zlib"]
    assert len(list(folder.iterdir())) == 1


@pytest.mark.pythons((3, 14), (3, 99), reason="zstd came with 3.14")
def test_where_both_sides_have_zstd_it_takes_less(file: SharedFile, folder: Path) -> None:
    pieces = [piece.data() for piece in file.pieces("zstd")]
    taken_apart = wire_bundle.decompressor(pieces[0])
    assert b"".join(taken_apart.decompress(piece) for piece in pieces) == CONTENTS
    assert taken_apart.eof
    assert sum(map(len, pieces)) < sum(piece.size for piece in file.pieces())
    assert len(list(folder.iterdir())) == 2


def test_where_nothing_can_be_written_it_is_kept_in_memory(
    file: SharedFile, compressed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROAMLET_CACHE", "")
    assert bytes_of(file) == bytes_of(file) == CONTENTS
    assert compressed == ["zlib"]
    bounded.trim()
    assert bytes_of(file) == CONTENTS
    assert compressed == ["zlib"] * 2


def test_what_stays_on_this_machine_is_neither_compressed_nor_kept(file: SharedFile, folder: Path) -> None:
    assert bytes_of(file, "stored") == CONTENTS
    assert sum(piece.size for piece in file.pieces("stored")) > len(CONTENTS)
    assert not folder.exists()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_damaged_piece_is_made_again(file: SharedFile, folder: Path, compressed: list[str], when: str) -> None:
    bytes_of(file)
    (path,) = folder.iterdir()

    def damage() -> None:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    if when == "before":
        damage()
    whole = []
    for piece in file.pieces():
        if when == "meanwhile" and not whole:
            damage()
        whole.append(piece.data())
    assert zlib.decompress(b"".join(whole)) == CONTENTS
    assert compressed == ["zlib"] * 2
    assert not path.exists()


def test_a_file_that_was_changed_is_another_one(file: SharedFile, folder: Path) -> None:
    bytes_of(file)
    Path(file.path).write_bytes(CONTENTS[::-1])
    again = shared_file(file.path)
    assert again.number != file.number
    assert bytes_of(again) == CONTENTS[::-1]
    assert bytes_of(file) == CONTENTS  # as it was when it was announced
    folder.joinpath(file._name("zlib")).unlink()
    with pytest.raises(OSError, match=r"lib\.so was changed while it was sent"):
        bytes_of(file)


def test_the_form_follows_what_the_target_can_unpack_and_where_it_is() -> None:
    assert form_for("zstd", is_near=False) == "zstd"
    assert form_for("xz", is_near=False) == form_for("zlib", is_near=False) == "zlib"
    assert form_for("zstd", is_near=True) == "stored"
