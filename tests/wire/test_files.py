"""The parts of roamlet.wire.files.files and roamlet.wire.files.trees that decide: order of pieces, names, what a
half-written file leaves.
"""

import errno
import hashlib
import os
import threading
from types import SimpleNamespace

import pytest

from roamlet.wire.files import files, trees
from tests.remote.raising import raises

HOW = {"algorithm": "sha256", "overwrite": True, "resume": False, "key": "key", "sync": False}
FACTS = [0o100640, 10**18, 0, [0, 0, None, None]]


def digest(data):
    return hashlib.sha256(data).hexdigest()


def written(path, data, how=HOW, size=None):
    one = files.writer(os.fsencode(path), b"", len(data) if size is None else size, {**how, "parents": False})
    one.ordered.add(one.position, data[one.position :], len(data) - one.position)
    return one


def test_pieces_are_taken_in_order_whoever_brings_them():
    taken = []
    ordered = files.Ordered(0, taken.append)
    assert ordered.add(2, b"cd", 2) == 0
    assert ordered.add(4, b"e", 1) == 0
    assert ordered.add(0, b"ab", 2) == 5
    assert taken == [b"ab", b"cd", b"e"]


def test_whoever_waits_for_pieces_that_do_not_come_is_told():
    ordered = files.Ordered(0, lambda piece: None)
    heard = []
    waiting = threading.Thread(target=lambda: heard.append(ordered.wait_for(5)))
    waiting.start()
    ordered.give_up()
    waiting.join()
    assert heard == [False]
    with pytest.raises(OSError, match="the transfer has ended"):
        ordered.add(0, b"a", 1)


def test_a_piece_that_cannot_be_taken_ends_the_row():
    def refuse(piece):
        raise OSError(errno.ENOSPC, "full")

    ordered = files.Ordered(0, refuse)
    with pytest.raises(OSError, match="full"):
        ordered.add(0, b"a", 1)
    assert ordered.wait_for(1) is False


def test_the_name_stands_for_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "name"
    path.write_bytes(b"old")
    one = written(path, b"new content")
    beside = next(other for other in tmp_path.iterdir() if other != path)
    assert path.read_bytes() == b"old"
    assert (beside.name, beside.stat().st_mode & 0o777) == (".name.roamlet-key", 0o600)
    assert one.finish(11, digest(b"new content"), FACTS, ["time"])
    one.close()
    assert [other.name for other in tmp_path.iterdir()] == ["name"]
    assert path.read_bytes() == b"new content"
    assert (path.stat().st_mode & 0o7777, path.stat().st_mtime_ns) == (0o640, 10**18)


@pytest.mark.parametrize("end", ["finished", "removed"])
def test_what_another_transfer_ends_at_this_moment_is_not_gone_on_with(tmp_path, monkeypatch, end):
    how = {**HOW, "resume": True}
    other = written(tmp_path / "name", b"whole", how)
    lock = files.fcntl.flock
    late = [None]

    def flock(fd, operation):
        if late:  # the other one ends between our look at the name and our lock
            late.pop()
            if end == "finished":
                assert other.finish(5, digest(b"whole"), FACTS, [])
            other.close()
        lock(fd, operation)

    monkeypatch.setattr(files, "fcntl", SimpleNamespace(**{**vars(files.fcntl), "flock": flock}))
    one = files.writer(os.fsencode(tmp_path / "name"), b"", 3, {**how, "parents": False})
    assert not late
    assert one.position == 0
    one.ordered.add(0, b"new", 3)
    assert not (tmp_path / "name").exists() if end == "removed" else (tmp_path / "name").read_bytes() == b"whole"
    assert one.finish(3, digest(b"new"), FACTS, [])
    one.close()
    assert (tmp_path / "name").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["name"]


def test_what_is_removed_is_removed_while_it_is_locked(tmp_path):
    how = {**HOW, "resume": True}
    one = written(tmp_path / "name", b"half", how, 8)
    unlink = one._folder.unlink

    def look(name):
        with raises(OSError, match="is being written by another transfer at this moment"):
            files.writer(os.fsencode(tmp_path / "name"), b"", 8, {**how, "parents": False})
        unlink(name)

    one._folder.unlink = look
    one.close()
    del one._folder.unlink  # which refers to the folder
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("resume", [False, True])
def test_a_file_that_is_not_what_was_sent_is_not_put_in_place_and_not_kept(tmp_path, resume):
    one = written(tmp_path / "name", b"garbled", {**HOW, "resume": resume})
    assert one.finish(7, digest(b"correct"), FACTS, []) is False
    one.close(keep=True)
    assert list(tmp_path.iterdir()) == []


def test_what_is_unfinished_stays_only_when_it_is_to_be_gone_on_with(tmp_path):
    written(tmp_path / "name", b"half", size=8).close(keep=True)
    assert list(tmp_path.iterdir()) == []
    written(tmp_path / "name", b"half", {**HOW, "resume": True}, 8).close(keep=True)
    again = files.writer(os.fsencode(tmp_path / "name"), b"", 8, {**HOW, "resume": True, "parents": False})
    assert again.position == 4
    again.ordered.add(4, b"done", 4)
    assert again.finish(8, digest(b"halfdone"), FACTS, [])
    again.close()
    assert (tmp_path / "name").read_bytes() == b"halfdone"


def test_two_transfers_that_would_go_on_with_the_same_are_not_both_let_in(tmp_path):
    how = {**HOW, "resume": True}
    first = written(tmp_path / "name", b"half", how, 8)
    with pytest.raises(OSError, match="is being written by another transfer"):
        written(tmp_path / "name", b"half", how, 8)
    first.close()
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_file_that_somebody_else_could_write_is_not_gone_on_with(tmp_path):
    (tmp_path / ".name.roamlet-key").write_bytes(b"half")
    os.link(tmp_path / ".name.roamlet-key", tmp_path / "theirs")
    with pytest.raises(PermissionError, match="somebody else made it"):
        written(tmp_path / "name", b"half", {**HOW, "resume": True}, 8)
    assert (tmp_path / "theirs").read_bytes() == b"half"


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fstatvfs", lambda fd: SimpleNamespace(f_bavail=1, f_frsize=4096, f_blocks=100))
    with raises(OSError, match=r"\[Errno 28\] 5000 bytes are needed, and its disk has 4096 left"):
        files.writer(os.fsencode(tmp_path / "name"), b"", 5000, {**HOW, "parents": False})
    assert list(tmp_path.iterdir()) == []


def test_zeros_take_no_room_where_nothing_was_and_are_written_where_something_was(tmp_path):
    how = {**HOW, "resume": True}
    (tmp_path / ".name.roamlet-key").write_bytes(b"")
    one = written(tmp_path / "name", b"ab", how, 1 << 20)
    one.ordered.add(2, (1 << 20) - 2, (1 << 20) - 2)
    assert one.finish(1 << 20, digest(b"ab" + bytes((1 << 20) - 2)), FACTS, [])
    one.close()
    status = (tmp_path / "name").stat()
    assert status.st_size == 1 << 20
    assert status.st_blocks * 512 < 1 << 17


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path):
    path = tmp_path / "name"
    path.write_bytes(b"abcdef")
    reader = files.Reader(files.open_to_read(os.fsencode(path)), "sha256")
    reader.read(0, 6)
    with path.open("ab") as file:
        file.write(b"g")
    assert reader.finish(6) == (digest(b"abcdef"), False)
    reader.close()
    assert reader.read(0, 6) == b""


def test_what_is_no_file_is_refused_and_a_pipe_blocks_nobody(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is no regular file but a device, a pipe or a socket"):
        files.open_to_read(os.fsencode(tmp_path / "pipe"))
    with pytest.raises(IsADirectoryError, match="is a folder, where a file was meant"):
        files.open_to_read(os.fsencode(tmp_path))


@pytest.mark.parametrize("name", [b"../x", b"/etc/x", b"a/../../x", b"a//b", b".", b"", b"a\0b", b"a/."])
def test_names_that_could_lead_out_are_none(name):
    with pytest.raises(ValueError, match="is no name of something inside of the folder"):
        trees.parts_of(name)


@pytest.mark.parametrize(
    ("name", "target", "inside"),
    [
        (b"link", b"file", True),
        (b"a/b/link", b"../../file", True),
        (b"a/link", b"./../b/c", True),
        (b"link", b"../file", False),
        (b"a/link", b"../../file", False),
        (b"link", b"/etc/passwd", False),
        (b"link", b"other/../../file", False),
        (b"a/link", b"up/..", False),  # where a/up may point to the top itself
        (b"link", b"", False),
    ],
)
def test_links_are_judged_by_where_they_can_lead(name, target, inside):
    assert trees.stays_inside(name, target) is inside


def test_nothing_is_written_through_a_symbolic_link(tmp_path):
    outside, top = tmp_path / "outside", tmp_path / "top"
    outside.mkdir()
    top.mkdir()
    (top / "sub").symlink_to(outside)
    entry = [b"sub/file", "f", FACTS, b"x", digest(b"x")]
    with pytest.raises(NotADirectoryError, match="is no folder, but a file or a symbolic link"):
        trees.store(os.fsencode(top), [entry], HOW, [])
    with pytest.raises(NotADirectoryError, match="is no folder, but a file or a symbolic link"):
        trees.seal(os.fsencode(top), [[b"sub", FACTS]], [])
    assert list(outside.iterdir()) == []


def test_a_folder_that_leads_back_into_itself_is_not_followed_for_ever(tmp_path):
    (tmp_path / "again").symlink_to(tmp_path)
    with pytest.raises(OSError, match="leads back into itself"):
        list(trees.walk(os.fsencode(tmp_path), follow=True))


def test_long_names_have_a_name_beside_them(tmp_path):
    names = ["n" * 255, "n" * 254 + "m"]
    for name in names:
        one = written(tmp_path / name, b"x")
        assert one.finish(1, digest(b"x"), FACTS, [])
        one.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
