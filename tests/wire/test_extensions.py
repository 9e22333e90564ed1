"""Extension modules on a target: loaded from pieces in every version, and each way in which they can fail to come."""

import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roamlet.wire import codec, protocol
from roamlet.wire.modules import bundle
from tests.remote.native_modules import compile_shared, multi
from tests.wire import interpreters
from tests.wire.target import ErrorAnswer, Target, send_part

FACTS = "import sys, sysconfig; print(sysconfig.get_path('include')); print(sys.implementation.name)"
WORK = """
import os

def answer():
    import native
    return native.answer(), native.phase, native.__file__, native.__spec__.origin

def held():
    return sorted(int(one) for one in os.listdir("/proc/self/fd") if "memfd" in link(one))

def link(one):
    try:
        return os.readlink("/proc/self/fd/" + one)
    except OSError:
        return ""
"""


def shared_object(python: str, folder: Path) -> bytes:
    """An extension module for this interpreter, or a visible skip where it has no headers."""
    include = subprocess.check_output([python, "-c", FACTS], text=True).split("\n")[0]
    if not (Path(include) / "Python.h").exists():
        pytest.skip(f"{python} has no Python.h in {include}")
    return compile_shared(multi("native"), folder / "native.so", include=include).read_bytes()


def announce(target: Target, *files: tuple[int, str, int]) -> None:
    send_part(target, "modules.extensions")
    native = (
        "native",
        bundle.EXTENSION,
        codec.dumps((False, [(*one, one[1]) for one in files], False)),
        "/parent/native.so",
    )
    target.send(protocol.MODULES, 0, bundle.pack([native, ("work", bundle.MODULE, WORK.encode(), "/parent/work.py")]))


def pieces(data: bytes, size: int = 4096) -> Iterator[bytes]:
    packed = zlib.compress(data)
    for at in range(0, len(packed), size):
        yield b"+" + packed[at : at + size]


@pytest.mark.parametrize("version", interpreters.since(3, 6))
def test_a_module_is_loaded_from_pieces_when_an_import_has_asked_for_it(
    version: str, start: Callable[..., Target], tmp_path: Path
) -> None:
    python = interpreters.found()[version]
    data = shared_object(python, tmp_path)
    target = start(python)
    assert target.hello["libc"].startswith("glibc ") or target.hello["libc"] == ""
    assert ".so" in target.hello["suffixes"].split()
    announce(target, (5, "native.so", len(data)))
    call = target.begin("work:answer")
    assert target.wait_for(protocol.PIECE)[2:5] == (5, protocol.PIECE, b"")
    for piece in pieces(data):
        target.send(protocol.PIECE, 5, piece)
    path = "roamlet:/parent/native.so"
    assert target.answer(call) == (42, "multi", path, path)
    assert [number >= 100 for number in target.call("work:held")] == [True]  # for processes that are started there


@pytest.fixture
def own(start: Callable[..., Target]) -> Target:
    return start(sys.executable, import_timeout=0.2)


def failure(target: Target) -> str:
    error = target.call("work:answer")
    assert isinstance(error, ErrorAnswer)
    assert error["type"] == "ImportError"
    return str(error["text"])


def test_what_is_on_its_way_is_not_asked_for(own: Target, tmp_path: Path) -> None:
    data = shared_object(sys.executable, tmp_path)
    announce(own, (5, "native.so", len(data)))
    own.send(protocol.PIECE, 5, b"+")
    call = own.begin("work:answer")
    for piece in pieces(data):
        own.send(protocol.PIECE, 5, piece)
    assert own.answer(call)[0] == 42
    assert not [frame for frame in own.frames if frame[3] == protocol.PIECE]


@pytest.mark.parametrize(
    ("sent", "size", "problem"),
    [
        ([b"!it was changed"], 5, "native.so of native cannot be used here: it was changed"),
        ([b"+no stream"], 5, "native.so of native cannot be used here: error: Error -3 while decompressing data"),
        ([b"+" + zlib.compress(b"12345")], 6, "native.so of native cannot be used here: it has 5 bytes instead of 6"),
        (
            [b"+" + zlib.compress(b"12345")],
            5,
            "native came from the parent, but cannot be loaded here: .*Install native over",
        ),
        ([b"+"], 5, r"native.so of native did not come: the parent sent nothing for 0.2 seconds"),
        ([], 5, r"native.so of native did not come: the parent sent nothing for 0.2 seconds"),
    ],
)
def test_an_import_of_what_does_not_come_or_cannot_be_loaded_fails_and_the_target_lives_on(
    own: Target, sent: list[bytes], size: int, problem: str
) -> None:
    announce(own, (5, "native.so", size))
    for body in sent:
        own.send(protocol.PIECE, 5, body)
    text = failure(own)
    assert re.search(problem, text), text
    assert len(own.call("work:held")) == ("cannot be loaded" in problem)  # once more may go well, so it is kept


def test_what_comes_behind_the_end_of_a_file_is_dropped(own: Target, tmp_path: Path) -> None:
    data = shared_object(sys.executable, tmp_path)
    announce(own, (5, "native.so", len(data)))
    for piece in [*pieces(data), *pieces(data), b"!too late"]:
        own.send(protocol.PIECE, 5, piece)
    assert own.call("work:answer")[0] == 42


def test_a_library_that_is_none_is_named(own: Target, tmp_path: Path) -> None:
    data = shared_object(sys.executable, tmp_path)
    announce(own, (4, "libnone.so", 5), (5, "native.so", len(data)))
    for piece in pieces(data):
        own.send(protocol.PIECE, 5, piece)
    own.send(protocol.PIECE, 4, b"+" + zlib.compress(b"12345"))
    assert "native came from the parent, but cannot be loaded here: " in failure(own)
