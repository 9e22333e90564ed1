"""The codec between every two interpreters of this machine, in both directions."""

import subprocess
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from roamlet.wire import codec
from tests.wire import interpreters

PROGRAM = Path(__file__).with_name("codec_peer.py")
SOURCES = Path(codec.__file__).parents[2]
NAMES = list(interpreters.found())

Ask = Callable[[str, str, bytes], bytes]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Put a question to the copy of the codec in one interpreter; all of them run as long as the module's tests."""
    peers = {}
    for name, path in interpreters.found().items():
        command_line = [path, "-BEs", str(PROGRAM), str(SOURCES)]
        peers[name] = subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask_peer(name: str, command: str, data: bytes = b"") -> bytes:
        peer = peers[name]
        assert peer.stdin is not None
        assert peer.stdout is not None
        peer.stdin.write(b"%s %d\n%s" % (command.encode(), len(data), data))
        peer.stdin.flush()
        return peer.stdout.read(int(peer.stdout.readline()))

    yield ask_peer
    for peer in peers.values():
        peer.communicate(timeout=10)


@pytest.mark.parametrize(("one", "other"), list(product(NAMES, NAMES)))
def test_values_go_to_another_version_and_come_back_exactly(ask: Ask, one: str, other: str) -> None:
    sent = ask(one, "samples", b"")
    back = ask(other, "again", sent)
    assert codec.loads(ask(one, "compare", back)) == ""


@pytest.mark.parametrize("name", NAMES)
def test_every_version_reads_what_another_wrote(ask: Ask, name: str) -> None:
    for other in NAMES:
        assert codec.loads(ask(name, "compare", ask(other, "samples", b""))) == ""


@pytest.mark.skipif("2.7" not in NAMES, reason="there is no Python 2.7 on this machine")
@pytest.mark.parametrize(
    ("expression", "arrives"),
    [
        ("'plain'", "plain"),
        ("'h\\xc3\\xa9'", "h\xe9"),
        ("'\\xff\\xfe'", b"\xff\xfe"),
        ("'\\xed\\xb2\\x80'", b"\xed\xb2\x80"),
        ("u'h\\xe9'", "h\xe9"),
        ("[2L, 2**70, True]", [2, 2**70, True]),
        ("{'a': 'b'}", {"a": "b"}),
        ("['a'] * 9", ["a"] * 9),
        ("['a', u'a'] * 9", ["a"] * 18),
    ],
)
def test_strings_of_2_7_arrive_as_text_when_they_are_utf_8(expression: str, arrives: object) -> None:
    program = (
        "import sys, types\n"
        "for name in ('roamlet', 'roamlet.wire'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "    sys.modules[name].__path__ = [sys.argv[1] + '/' + name.replace('.', '/')]\n"
        "from roamlet.wire import codec\n"
        f"sys.stdout.write(codec.dumps({expression}))\n"
    )
    command = [interpreters.found()["2.7"], "-BEs", "-c", program, str(SOURCES)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=20)
    value = codec.loads(done.stdout)
    assert value == arrives
    assert type(value) is type(arrives)
