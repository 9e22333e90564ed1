"""The area `pipes`: os.read and its kin wait for what a tasklet of the same thread does."""

import os

import pytest

import roamlet
from roamlet.patch.areas import pipes


@pytest.fixture(autouse=True)
def pipes_in_place(in_place):
    in_place(pipes)


@pytest.fixture
def pair():
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        os.close(fd)


def test_a_tasklet_writes_what_another_reads(pair):
    read_fd, write_fd = pair
    roamlet.tasklet(os.write)(write_fd, b"one")
    assert os.read(read_fd, 100) == b"one"
    roamlet.tasklet(os.writev)(write_fd, [b"two", memoryview(b"three")])
    first, second = bytearray(3), bytearray(5)
    assert os.readv(read_fd, [first, second]) == 8
    assert (first, second) == (b"two", b"three")


def test_more_than_the_pipe_holds_is_written_while_a_tasklet_reads(pair):
    read_fd, write_fd = pair
    heard = bytearray()

    def reads():
        while len(heard) < 1_000_000:
            heard.extend(os.read(read_fd, 65536))

    reading = roamlet.tasklet(reads)()
    assert os.write(write_fd, bytes(500_000)) == 500_000
    assert os.writev(write_fd, [bytes(250_000)] * 2) == 500_000
    while reading.alive:
        roamlet.schedule()


def test_what_does_not_block_and_files_are_as_ever(pair, tmp_path):
    read_fd, write_fd = pair
    os.set_blocking(read_fd, False)
    with pytest.raises(BlockingIOError):
        os.read(read_fd, 1)
    os.set_blocking(read_fd, True)
    assert (os.read(read_fd, 0), os.write(write_fd, b""), os.readv(read_fd, [])) == (b"", 0, 0)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert os.write(fd, b"content") == 7
    os.lseek(fd, 0, os.SEEK_SET)
    assert os.read(fd, 100) == b"content"
    assert os.read(fd, 100) == b""
    os.close(fd)


def test_wrong_calls_are_the_originals(pair):
    for wrong in (
        lambda: os.read("0", 1),
        lambda: os.read(pair[0]),
        lambda: os.write(pair[1], "text"),
        lambda: os.close("0"),
    ):
        with pytest.raises(TypeError):
            wrong()
    for bad in (
        lambda: os.read(-1, 1),
        lambda: os.write(1 << 20, b""),
        lambda: os.close(-1),
        lambda: os.read(pair[0], -1),
    ):
        with pytest.raises(OSError, match="Bad file|Invalid"):
            bad()


def test_closing_ends_the_wait(pair):
    spare, errors = os.dup(pair[0]), []

    def reads():
        try:
            os.read(spare, 1)
        except OSError as error:
            errors.append(error.args[0])

    reading = roamlet.tasklet(reads)()
    roamlet.schedule()
    os.close(spare)
    roamlet.schedule()
    assert (errors, reading.alive) == ([9], False)
