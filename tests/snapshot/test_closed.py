"""Closed files and sockets are values; open ones are refused, and the message says how to go on."""

import io
import socket

import pytest

import roamlet
from roamlet import snapshot


@pytest.mark.parametrize("mode", ["r", "w", "a", "x", "rb", "wb", "ab", "r+b", "w+"])
@pytest.mark.parametrize("buffering", [-1, 0])
def test_a_closed_file_is_saved_and_nothing_is_opened_in_its_name(tmp_path, mode, buffering):
    path = tmp_path / "data"
    if "x" not in mode:
        path.write_text("text")
    if buffering == 0 and "b" not in mode:
        buffering = 1
    file = open(path, mode, buffering, encoding=None if "b" in mode else "utf-8")  # noqa: SIM115 - it is what is tested
    file.close()
    saved = snapshot.dumps([file, file])
    path.unlink()
    copy, again = snapshot.loads(saved)
    assert copy is again
    assert type(copy) is type(file)
    assert (copy.closed, copy.name) == (True, str(path))
    assert not path.exists()
    with pytest.raises(ValueError, match="closed file"):
        copy.seek(0)


@pytest.mark.parametrize("kind", [io.StringIO, io.BytesIO])
def test_a_closed_file_in_memory_is_saved(kind):
    file = kind()
    file.close()
    assert snapshot.loads(snapshot.dumps([file]))[0].closed
    open_one = kind()
    open_one.seek(5)
    assert snapshot.loads(snapshot.dumps([open_one]))[0].tell() == 5


def test_a_closed_socket_is_saved_and_an_open_one_refused():
    with socket.socket() as one, pytest.raises(snapshot.CannotSave, match="'socket' object, which is open"):
        snapshot.dumps([one])
    assert snapshot.loads(snapshot.dumps([one]))[0].fileno() == -1


def writes(path, ch, out):
    f = open(path, "w")  # noqa: SIM115 - it is what is tested
    f.write("before")
    ch.receive()
    f.close()
    ch.receive()
    out.append(f.closed)


def test_the_message_says_what_to_do_and_that_works(tmp_path):
    ch, out = roamlet.channel(), []
    roamlet.tasklet(writes)(tmp_path / "file", ch, out)
    roamlet.run()
    said = (
        r"the variable 'f' of writes .* holds <_io.TextIOWrapper .*: cannot pickle '_io.TextIOWrapper' object, which is open, "
        r"and only a "
        r"closed one can be saved: close it before, and open it again after. Where it is not needed any more: del f$"
    )
    with pytest.raises(snapshot.CannotSave, match=said):
        snapshot.dumps(ch)
    ch.send(None)
    copy, its_out = snapshot.loads(snapshot.dumps((ch, out)))
    for channel in (ch, copy):
        channel.send(None)
    assert (out, its_out) == ([True], [True])
