"""Files and path operations on worker threads: the same as Python's own, and only the tasklet waits."""

import builtins
import io as standard_io
import os
import random
import threading
from functools import partial
from pathlib import Path

import pytest

import roamlet
from roamlet import core, io
from roamlet.io import files, workers
from roamlet.io._workers.pool import pool
from tests.io._workers import Gate, started, wait_until

pytestmark = pytest.mark.usefixtures("workers_at_first")


LINES = [f"line {number}: {'x' * (number % 70)}\n" for number in range(5000)]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file of more lines than are fetched in one go, the last without an end."""
    path = tmp_path / "lines"
    path.write_text("".join(LINES) + "the end", encoding="utf-8")
    return path


# ---- the same as Python's own ----


def test_what_is_written_is_read_back(tmp_path):
    with io.open(tmp_path / "new", "w+", encoding="utf-8") as file:
        assert file.write("zwölf\n") == 6
        file.writelines(["a\n", "b\n"])
        file.flush()
        file.sync()
        assert file.tell() == 11
        assert file.seek(0) == 0
        assert (file.readline(), file.readline(1), file.readlines()) == ("zwölf\n", "a", ["\n", "b\n"])
        assert file.truncate(7) == 7
    assert (tmp_path / "new").read_bytes() == "zwölf\n".encode()
    assert file.closed
    file.close()


def test_binary_files_read_into_buffers(tmp_path):
    (tmp_path / "data").write_bytes(b"0123456789")
    with io.open(tmp_path / "data", "rb") as file:
        buffer = bytearray(4)
        assert (file.readinto(buffer), buffer) == (4, b"0123")
        assert (file.read(2), file.read(None), file.read()) == (b"45", b"6789", b"")
        assert (file.name, file.mode, file.fileno() > 2) == (str(tmp_path / "data"), "rb", True)
        assert "roamlet.io.File of <_io.BufferedReader" in repr(file)


@pytest.mark.parametrize("hint", [-1, 0, None, 1, 9, 10, 11, 1000])
@pytest.mark.parametrize("mode", ["r", "rb"])
def test_lines_are_read_up_to_a_hint(lines, mode, hint):
    with io.open(lines, mode) as file, builtins.open(lines, mode) as standard:
        assert file.readlines(hint) == standard.readlines(hint)


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_iterating_gives_every_line(lines, mode):
    with io.open(lines, mode) as file, builtins.open(lines, mode) as standard:
        assert list(file) == list(standard)
        assert list(file) == []


@pytest.mark.parametrize(("mode", "newline"), [("r+", None), ("r+", ""), ("rb+", None)])
def test_fetching_ahead_is_seen_by_no_other_operation(tmp_path, mode, newline):
    """The same random operations on a file of ours and on one of Python's own, which iterates by readline()."""
    source = b"".join(os.urandom(random.Random(7).randrange(1, 9)).hex().encode() + b"\r\n" for _ in range(20_000))
    ours_path, theirs_path = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours_path, theirs_path):
        path.write_bytes(source)
    chance = random.Random(11)
    text = "b" not in mode
    with (
        io.open(ours_path, mode, newline=newline) as ours,
        builtins.open(theirs_path, mode, newline=newline) as theirs,
    ):
        for step in range(300):
            kind = chance.choice(["next", "next", "next", "read", "readline", "tell", "seek", "write", "readlines"])
            size = chance.randrange(1, 200)
            if kind == "next":
                for _ in range(size):
                    assert next(ours, None) == (theirs.readline() or None), step
            elif kind == "seek":
                offset = chance.randrange(len(source) // 4)
                assert ours.seek(offset) == theirs.seek(offset)
            elif kind == "write":
                data = "written\n" if text else b"written\n"
                if text:  # between reading and writing, as the C library wants it too
                    assert ours.seek(ours.tell()) == theirs.seek(theirs.tell())
                assert ours.write(data) == theirs.write(data)
                if text:
                    assert ours.seek(ours.tell()) == theirs.seek(theirs.tell())
            elif kind == "tell":
                assert ours.tell() == theirs.tell(), step
            elif kind == "readlines":
                found = ours.readlines(size)
                assert found == [theirs.readline() for _ in found], step  # theirs would refuse tell() from then on
            else:
                assert getattr(ours, kind)(size) == getattr(theirs, kind)(size), (step, kind)
    assert ours_path.read_bytes() == theirs_path.read_bytes()


def test_a_file_where_nobody_can_go_back_gives_each_line_as_it_comes():
    read_end, write_end = os.pipe()
    with io.open(read_end, "r", encoding="utf-8") as file:
        os.write(write_end, b"one\ntw")
        assert next(file) == "one\n"
        os.write(write_end, b"o\nthree")
        os.close(write_end)
        assert (next(file), file.read(), next(file, "end")) == ("two\n", "three", "end")


def test_what_is_known_of_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"zw\xf6lf\r\n")
    with io.open(tmp_path / "file", encoding="latin-1", errors="replace") as file:
        assert (file.encoding, file.errors, file.newlines) == ("latin-1", "replace", None)
        assert (file.read(), file.newlines) == ("zwölf\n", "\r\n")
        assert (file.readable(), file.writable(), file.seekable(), file.isatty()) == (True, False, True, False)
    with io.open(tmp_path / "file", "ab") as file:
        assert (file.readable(), file.writable()) == (False, True)
        for name in ("encoding", "errors", "newlines"):
            with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
                getattr(file, name)


def test_text_of_the_standard_library_over_a_binary_file(tmp_path):
    with standard_io.TextIOWrapper(io.open(tmp_path / "new", "wb"), encoding="utf-8") as text:
        text.write("zwölf\nelf\n")
    with io.open(tmp_path / "new", "rb") as file, standard_io.TextIOWrapper(file, encoding="utf-8") as text:
        assert (text.readline(), text.tell(), list(text)) == ("zwölf\n", 7, ["elf\n"])
    assert file.closed


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda folder: io.open(folder / "absent"), FileNotFoundError),
        (lambda folder: io.open(folder), IsADirectoryError),
        (lambda folder: io.open(folder / "file", "q"), ValueError),
        (lambda folder: io.open(folder / "file", "rb", encoding="utf-8"), ValueError),
        (lambda folder: files.stat(folder / "absent"), FileNotFoundError),
    ],
)
def test_errors_are_those_of_python(tmp_path, call, error):
    (tmp_path / "file").touch()
    with pytest.raises(error):
        call(tmp_path)


def test_a_closed_file_and_the_wrong_kind_of_data_are_refused(tmp_path):
    with io.open(tmp_path / "file", "w", encoding="utf-8") as file:
        with pytest.raises(standard_io.UnsupportedOperation, match="not readable"):
            file.read()
        with pytest.raises(TypeError):
            file.write(b"bytes")
    for operation in (file.read, file.flush, partial(file.write, "x"), partial(next, file), file.tell):
        with pytest.raises(ValueError, match="closed file"):
            operation()


def test_a_full_disk_is_an_error_of_the_write_that_finds_it():
    file = io.open("/dev/full", "w", encoding="utf-8")
    file.write("x")
    with pytest.raises(OSError, match="No space left"):
        file.flush()
    with pytest.raises(OSError, match="No space left"):
        file.close()
    assert file.closed


# ---- only the tasklet waits, one call after the other ----


class Slow(standard_io.RawIOBase):
    """A file whose reads block until a gate opens, and that notices when two threads use it at once."""

    def __init__(self, gate: Gate) -> None:
        self.gate, self.inside, self.log = gate, threading.Lock(), []

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        assert self.inside.acquire(blocking=False)
        self.log.append(size)
        if size == 1:
            self.gate()
        self.inside.release()
        return b"x" * size

    def close(self) -> None:
        if not self.closed:
            assert self.inside.acquire(blocking=False)
            self.log.append("closed")
        super().close()


def test_calls_of_several_tasklets_are_made_in_their_order_by_one_worker():
    gate = Gate()
    slow = Slow(gate)
    file: io.File[bytes] = io.File(slow)
    waiting = [started(partial(file.read, size)) for size in (1, 2, 3)]
    gate.wait_for()
    assert workers.status().threads - workers.status().idle == 1
    assert slow.log == [1]
    gate.open()
    roamlet.run()
    assert (slow.log, [tasklet.alive for tasklet in waiting]) == ([1, 2, 3], [False] * 3)
    file.close()


def test_an_abandoned_call_is_finished_before_the_next_begins_and_one_that_has_not_begun_is_not_made():
    gate = Gate()
    slow = Slow(gate)
    file: io.File[bytes] = io.File(slow)
    waiting = [started(partial(file.read, size)) for size in (1, 2, 3)]
    gate.wait_for()
    waiting[0].kill()
    waiting[1].kill()
    gate.open()
    roamlet.run()
    file.close()
    assert slow.log == [1, 3, "closed"]


def test_a_file_is_closed_when_its_scope_is_cancelled(tmp_path):
    with core.CancelScope() as scope, io.open(tmp_path / "file", "w", encoding="utf-8") as file:
        file.write("written")
        scope.cancel()
        with pytest.raises(core.Cancelled):
            file.flush()
    assert file.closed
    assert (tmp_path / "file").read_text() == "written"


def test_a_file_is_closed_when_its_tasklet_is_killed_while_it_closes():
    gate = Gate()
    slow = Slow(gate)
    file: io.File[bytes] = io.File(slow)
    reading, closing = started(partial(file.read, 1)), started(file.close)
    gate.wait_for()
    closing.kill()
    assert not closing.alive
    gate.open()
    roamlet.run()
    wait_until(lambda: file.closed)
    assert (slow.log, reading.alive) == ([1, "closed"], False)


def test_a_fork_fails_who_waits_for_a_file_in_the_child():
    from tests.core._scripts import output_of

    printed = output_of("""
        import os, warnings, roamlet, roamlet.io as io
        warnings.simplefilter("ignore")
        read_end, write_end = os.pipe()
        file = io.open(read_end, "rb", buffering=0)
        def reads(size):
            try:
                print(file.read(size), flush=True)
            except RuntimeError as error:
                print(str(error)[:44], flush=True)
        for size in (1, 2):
            roamlet.tasklet(reads)(size)
        roamlet.schedule()
        pid = os.fork()
        if pid == 0:
            roamlet.run()
            os.write(write_end, b"c")
            os._exit(0)
        io.wait_process(pid)
        os.write(write_end, b"pq")
        roamlet.run()
    """)
    lost = "the job of a worker thread was lost in a for"
    assert printed.splitlines() == [lost, lost, "b'c'", "b'pq'"]


def test_when_no_thread_can_be_started_every_caller_is_told_and_the_file_can_be_used_later(tmp_path, monkeypatch):
    file = io.open(tmp_path / "file", "w+", encoding="utf-8")
    wait_until(lambda: workers.status().idle == 1)
    pool.dismiss_idle()

    def no_thread(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no worker thread can be started"):
                file.write("lost")
    file.write("kept")
    file.close()
    assert (tmp_path / "file").read_text() == "kept"


# ---- paths ----


def test_paths_are_worked_on_as_by_os(tmp_path):
    folder, path = tmp_path / "folder", tmp_path / "folder" / "file"
    files.makedirs(folder / "inner")
    assert (files.write_text(path, "text", encoding="utf-8"), files.read_text(path)) == (4, "text")
    assert (files.write_bytes(path, b"bytes"), files.read_bytes(path)) == (5, b"bytes")
    assert (files.exists(path), files.isfile(path), files.isdir(folder), files.islink(path)) == (
        True,
        True,
        True,
        False,
    )
    assert files.getsize(path) == files.stat(path).st_size == os.stat(path).st_size == 5
    files.symlink("file", folder / "link")
    assert (files.readlink(folder / "link"), files.realpath(folder / "link")) == ("file", str(path))
    files.replace(path, folder / "renamed")
    assert sorted(files.listdir(folder)) == sorted(entry.name for entry in files.scandir(folder))
    assert sorted(files.glob(str(folder / "*"))) == sorted(map(str, folder.iterdir()))
    assert files.walk(folder) == list(os.walk(folder))
    files.rmtree(folder)
    assert not files.exists(folder)


def test_every_name_of_files_says_what_it_is_like():
    for name in files.__all__:
        assert getattr(files, name).__doc__, name
    assert files.stat.__doc__ == "Like posix.stat, on a worker thread: blocks this tasklet only."


def test_only_the_tasklet_waits_for_a_path_operation(tmp_path):
    gate, order = Gate(), []
    os.mkfifo(tmp_path / "fifo")  # opening one waits for the other side

    def reads() -> None:
        order.append(files.read_bytes(tmp_path / "fifo"))

    reading = started(reads)
    order.append("another tasklet")
    with io.open(tmp_path / "fifo", "wb") as fifo:
        fifo.write(b"through")
    roamlet.run()
    assert (order, reading.alive) == (["another tasklet", b"through"], False)
    gate.open()
