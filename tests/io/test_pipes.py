"""Pipes as files: reading, writing, buffers, closing, and what may go wrong."""

import contextlib
import io as standard_io
import os
import resource
import signal
import threading

import pytest

import roamlet
from roamlet import core, io
from tests.io._workers import started


@pytest.fixture
def ends():
    reader, writer = io.pipe()
    with reader, writer:
        yield reader, writer


def test_what_is_written_is_read_as_it_comes_and_the_end_is_seen(ends):
    reader, writer = ends
    got = roamlet.channel()

    def reads() -> None:
        while data := reader.read(100):
            got.send(data)
        got.close()

    tasklet = started(reads)
    assert writer.write(b"one") == 3
    assert got.receive() == b"one"
    assert writer.write(bytearray(b"two")) == 3
    assert got.receive() == b"two"
    writer.close()
    roamlet.run()
    assert (list(got), tasklet.alive) == ([], False)


def test_a_full_pipe_blocks_the_tasklet_that_writes_until_somebody_reads(ends):
    reader, writer = ends
    data = os.urandom(1_000_000)
    writing = started(lambda: (writer.write(data), writer.close()))
    assert writing.alive
    assert reader.readall() == data
    assert not writing.alive


def test_its_ends_serve_buffers_and_text():
    reader, writer = io.pipe()
    with (
        standard_io.TextIOWrapper(standard_io.BufferedReader(reader), encoding="utf-8") as lines,
        standard_io.TextIOWrapper(standard_io.BufferedWriter(writer), encoding="utf-8") as text,
    ):
        got = roamlet.channel()
        tasklet = started(lambda: [got.send(line) for line in lines])
        text.write("zwölf\nelf\nze")
        text.flush()
        assert [got.receive() for _ in range(2)] == ["zwölf\n", "elf\n"]
        text.write("hn")
        text.close()
        assert got.receive() == "zehn"
        roamlet.run()
        assert not tasklet.alive


def test_each_end_does_its_half_only(ends):
    reader, writer = ends
    assert (reader.readable(), reader.writable(), writer.readable(), writer.writable()) == (True, False, False, True)
    with pytest.raises(standard_io.UnsupportedOperation, match="this is the read end of a pipe"):
        reader.write(b"x")
    with pytest.raises(standard_io.UnsupportedOperation, match="this is the write end of a pipe"):
        writer.read(1)
    with pytest.raises(TypeError):
        writer.write("text")
    assert reader.readinto(bytearray()) == 0
    assert (reader.name, reader.mode, writer.mode) == (reader.fileno(), "rb", "wb")
    assert not os.get_inheritable(reader.fileno())


def test_a_closed_end_is_refused_and_closing_twice_is_nothing(ends):
    reader, writer = ends
    reader.close()
    reader.close()
    assert repr(reader).endswith(" mode='rb' closed>")
    for operation in (lambda: reader.read(1), reader.fileno):
        with pytest.raises(ValueError, match="closed file"):
            operation()
    with pytest.raises(BrokenPipeError):
        writer.write(b"nobody reads")


def test_closing_an_end_is_an_error_for_who_waits_there(ends):
    reader, _ = ends
    errors = []

    def reads() -> None:
        try:
            reader.read(1)
        except OSError as error:
            errors.append(str(error))

    tasklet = started(reads)
    fd = reader.fileno()
    reader.close()
    roamlet.run()
    assert not tasklet.alive
    assert errors == [f"[Errno 9] descriptor {fd} was closed while a tasklet waited for it"]


def test_two_tasklets_in_one_buffer_are_told_apart(ends):
    reader, writer = ends
    buffered = standard_io.BufferedReader(reader)
    got = []
    tasklet = started(lambda: got.append(buffered.read(3)))
    with pytest.raises(RuntimeError, match="reentrant call"):
        buffered.read(1)
    writer.write(b"abc")
    roamlet.run()
    assert (got, tasklet.alive) == ([b"abc"], False)
    buffered.detach()


def test_a_tasklet_that_is_killed_while_it_reads_takes_nothing_with_it(ends):
    reader, writer = ends
    tasklet = started(lambda: reader.read(10))
    tasklet.kill()
    writer.write(b"still there")
    assert reader.read(100) == b"still there"


def test_time_is_limited_by_the_scope(ends):
    reader, _ = ends
    with core.CancelScope(timeout=0.001) as scope:
        reader.read(1)
    assert scope.expired


def test_a_signal_interrupts_neither_reading_nor_writing(ends):
    """EINTR: the handler runs, and the call goes on."""
    reader, writer = ends
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append("signal"))
    try:
        main = threading.main_thread().ident
        other = threading.Thread(
            target=lambda: (signal.pthread_kill(main, signal.SIGUSR1), wait_for(heard), os.write(writer.fileno(), b"x"))
        )
        other.start()
        assert reader.read(1) == b"x"
        other.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == ["signal"]


def wait_for(heard: list[str]) -> None:
    while not heard:
        os.sched_yield()


def test_one_that_is_forgotten_is_closed_with_a_warning():
    reader, writer = io.pipe()
    writer.close()
    fd = reader.fileno()
    with pytest.warns(ResourceWarning, match="unclosed <roamlet.io.PipeEnd"):
        del reader
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_without_descriptors_there_is_no_pipe():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, hard))

        def open_all() -> None:
            while True:
                for end in io.pipe():
                    stack.enter_context(end)

        with pytest.raises(OSError, match="Too many open files"):
            open_all()
