"""The file of a checkpoint that is damaged, cut short, or somebody else's: refused in a sentence, by resume() and by both commands,
and nothing of it is used.
"""

import itertools
import os
import re
import sys

import pytest

import roamlet
from roamlet import _checkpoint, snapshot
from roamlet.cli import main
from roamlet.snapshot import showing
from roamlet.snapshot.loading import load


def job(path, ch):
    table = {"number": 7, "text": "abc", "channel": ch}
    for number in range(3):
        roamlet.checkpoint(path)
        table[number] = number
    return table


def waits(ch):
    return ch.receive()


@pytest.fixture
def path(tmp_path):
    """A checkpoint of job(), with a tasklet that waits in its channel."""
    path, ch = str(tmp_path / "job.roamlet"), roamlet.channel()
    roamlet.tasklet(waits)(ch)
    roamlet.tasklet(job)(path, ch)
    roamlet.run()
    ch.send(None)
    return path


@pytest.fixture
def nothing_is_used(monkeypatch):
    """A loader that is made fails; afterwards all is as it was."""

    def made(*args):
        raise AssertionError("it was read")

    monkeypatch.setattr(load.Loader, "__init__", made)
    before = roamlet.getruncount(), set(sys.modules), dict(_checkpoint.known)
    yield
    assert (roamlet.getruncount(), set(sys.modules), dict(_checkpoint.known)) == before


OF_ANOTHER_PYTHON = "is of CPython", "bytecode"


def bad_ones(data):
    """(what it is, bytes, the message) of each way in which the file can be bad."""
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x40
        messages = [(8, "no snapshot of roamlet's"), (9, "has format"), (11, "is of CPython"), (15, "bytecode")]
        message = next((text for end, text in messages if position < end), "is damaged")
        yield f"changed at {position}", bytes(changed), message
    for length in range(len(data)):
        yield f"{length} bytes long", data[:length], r"no snapshot of roamlet's|is truncated|is damaged"
    yield "too long", data + bytes(100_000), "is damaged"
    for foreign in (b"PK\x03\x04", b"\x7fELF" + bytes(100), b"\x80\x05N.", b"\xff\xfet\0e\0x\0t\0", bytes(100_000)):
        yield f"foreign: {foreign[:4]!r}", foreign, "no snapshot of roamlet's"


def refusal_of(function, argument):
    """What it says, without the frames that its traceback would keep; None: it was taken."""
    try:
        function(argument)
    except snapshot.BadSnapshot as error:
        return str(error)
    return None


def test_each_is_refused_by_resume_and_nothing_of_it_is_used(path, nothing_is_used):
    with open(path, "rb") as stream:
        data = stream.read()
    count = 0
    for what, content, message in bad_ones(data):
        with open(path, "r+b") as stream:
            stream.write(content)
            stream.truncate()
        assert re.match(f"{re.escape(path)}: .*({message})", refusal_of(snapshot.resume, path)), what
        count += 1
    assert count > 1500


def test_each_is_refused_by_show_but_one_of_another_python(path):
    with open(path, "rb") as stream:
        data = stream.read()
    for what, content, message in bad_ones(data):
        problem = refusal_of(showing.described, content)
        if message in OF_ANOTHER_PYTHON:
            assert problem is None, what
        else:
            assert re.search(message, problem), what


@pytest.mark.parametrize("command", ["resume", "show"])
def test_the_commands_say_so_in_a_line(path, command, capsys):
    with open(path, "rb") as stream:
        data = stream.read()
    for what, content, message in itertools.islice(bad_ones(data), 0, None, 97):
        if command == "show" and message in OF_ANOTHER_PYTHON:
            continue
        with open(path, "wb") as stream:
            stream.write(content)
        assert main([command, path]) == 64, what
        out, problem = capsys.readouterr()
        assert out == "", what
        assert re.fullmatch(f"roamlet {command}: {re.escape(path)}: .*({message}).*\n", problem), what


@pytest.mark.parametrize("command", ["resume", "show"])
def test_a_file_without_end_is_not_read_to_its_end(command, capsys):
    assert main([command, "/dev/zero"]) == 64
    assert "/dev/zero: these bytes are no snapshot of roamlet's" in capsys.readouterr().err


def test_a_checkpoint_that_is_whole_is_resumed(path):
    os.rename(path, path + ".moved")
    copy = snapshot.resume(path + ".moved")
    channel = copy.frame.f_locals["ch"]
    roamlet.run()
    channel.send(None)
    assert not copy.alive
    assert channel.balance == 0
