"""What targets send is shown on a terminal, not obeyed; a file or a pipe gets it as it is."""

import io
import os
import pty
import subprocess
import sys

import pytest

from roamlet import remote
from roamlet.cli import escaped, escaped_for, print_escaped
from roamlet.cli.targets import message_of
from tests.remote.raising import raises

EVIL = "a\x1b[2Jb\x07\x9b31m\rc\u202ed"
SHOWN = r"a\x1b[2Jb\x07\x9b31m\rc\u202ed"


class Tty(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (EVIL, SHOWN),
        ("two\r\nlines\tand a tab\n", "two\nlines\tand a tab\n"),
        ("Füße, \u05d0\u05d1, 日本, 👩\u200d👩, 5\xa0000", "Füße, \u05d0\u05d1, 日本, 👩\u200d👩, 5\xa0000"),
        ("\x7f\x00\u2028\udc80\U000e0041", r"\x7f\x00\u2028\udc80\U000e0041"),
    ],
    ids=range(4),
)
def test_what_a_terminal_would_obey_is_shown(text, shown):
    assert escaped(text) == escaped_for(text, Tty()) == shown
    assert escaped_for(text, io.StringIO()) == text


def test_what_an_encoding_lacks_ends_nothing():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "ascii")
    print_escaped("a\udc80ü", out)
    assert raw.getvalue() == b"a\\udc80\\xfc\n"


def at_terminal(words, folder):
    """(exit code, what came) of a command whose output is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "200"}
    ) as process:
        os.close(theirs)
        data = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the end of a terminal
                break
            data += more
        os.close(ours)
    return process.returncode, data.decode().replace("\r\n", "\n")


MODULE = f"""
import sys

def prints():
    print({EVIL!r})
    sys.stderr.write({EVIL!r} + "\\n")
    return {EVIL!r}

class Own(Exception):
    pass

def fails():
    raise Own({EVIL!r})

def fails_plainly():
    raise ValueError({EVIL!r})

if __name__ == "__main__":
    prints()
    sys.exit(len(sys.argv) - 1)
"""
OWN = ["\x1b[K", "\x1b[?25", "\x1b[0m", "\x1b[1m", "\x1b[3m", "\x1b[1;"]  # of the line of progress and of tables


@pytest.mark.parametrize(
    "words",
    [
        ["evil:prints"],
        ["--group", "evil:prints"],
        ["--json", "evil:prints"],
        ["evil:fails"],
        ["evil:fails_plainly"],
        ["--group", "evil:fails_plainly"],
        ["--json", "evil:fails_plainly"],
        ["evil.py"],
        ["--group", "evil.py"],
        ["--json", "evil.py", "and", "fail"],
        ["-c", "printf 'a\\033[2J\\a\\233\\n'; printf '\\033c\\n' >&2; exit 1"],
    ],
    ids=" ".join,
)
def test_a_terminal_of_roamlet_run_gets_nothing_that_it_would_obey(words, tmp_path):
    (tmp_path / "evil.py").write_text(MODULE)
    _, said = at_terminal([sys.executable, "-m", "roamlet", "run", "--local", "1", *words], tmp_path)
    assert "\\x1b" in said or "\\u001b" in said
    said = said.replace("\r\x1b[K", "")
    for own in OWN:
        said = said.replace(own, "")
    assert not set("\x1b\x07\x9b\r\u202e") & set(said)


def test_a_pipe_of_roamlet_run_gets_what_came(tmp_path):
    (tmp_path / "evil.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-m", "roamlet", "run", "--local", "1", "evil.py"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout == done.stderr == f"local-1: {EVIL}\n".encode()


def test_a_terminal_of_a_program_gets_nothing_that_it_would_obey(tmp_path):
    (tmp_path / "evil.py").write_text(MODULE)
    program = (
        "import evil\nfrom roamlet import remote\nwith remote.local() as context:\n    context.call(evil.prints)\n"
    )
    program += "    context.call(evil.fails)\n"
    code, said = at_terminal([sys.executable, "-c", program], tmp_path)
    assert code == 1 and said.count(SHOWN) >= 4  # stdout, stderr, the message and its traceback
    assert not set("\x1b\x07\x9b\r\u202e") & set(said)


def test_messages_and_notes_hold_nothing_that_a_terminal_would_obey_and_values_are_as_they_came(tmp_path, monkeypatch):
    (tmp_path / "evil_too.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import evil_too

    with remote.local(output=lambda *line: None) as context:
        assert context.call(evil_too.prints) == EVIL
        with raises(remote.RemoteError) as own:
            context.call(evil_too.fails)
        with raises(ValueError) as plain:
            context.call(evil_too.fails_plainly)
    sys.modules.pop("evil_too")
    assert own.value.args == (f"evil_too.Own: {SHOWN}",) and EVIL in own.value.traceback
    assert plain.value.args == (EVIL,)
    assert message_of(plain.value) == SHOWN
    assert all(SHOWN in error.value.__notes__[0] and "\x1b" not in error.value.__notes__[0] for error in (own, plain))
