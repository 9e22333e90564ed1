"""`roamlet shell`: the prompt through a pseudo-terminal, as a person meets it, and through a pipe, in old and new Pythons."""

import io
import os
import signal
import subprocess
import sys
import threading

import pytest

from roamlet import remote
from roamlet.cli.commands.shell import Prompt
from roamlet.remote.shell import Shell
from roamlet.wire.calls import shell as wire
from tests.cli.terminal import Terminal
from tests.remote import interpreters

VERSIONS = interpreters.found()
LIMIT = 30


def words(version):
    return [sys.executable, "-W", "error", "-m", "roamlet", "shell", "local", "--python", VERSIONS[version]]


def environment(folder):
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TERM": "dumb"}


def piped(folder, version, text):
    return subprocess.run(
        words(version),
        cwd=folder,
        env=environment(folder),
        input=text,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.fixture
def at_terminal(tmp_path):
    opened = []

    def start(version):
        opened.append(Terminal(words(version), tmp_path, environment(tmp_path)))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


@pytest.mark.parametrize("version", list(VERSIONS)[:2])
def test_statements_run_over_there_one_after_the_other_in_one_namespace(tmp_path, version):
    (tmp_path / "mine_to_send.py").write_text("def twice(value):\n    return value * 2\n")
    done = piped(
        tmp_path,
        version,
        "import sys, mine_to_send\n"
        "def f(a):\n    return mine_to_send.twice(a)\n\n"
        "f(21)\n_ + 1\n"
        "mine_to_send.__file__\n"
        "for i in range(2):\n    i\n\n"
        "'%d.%d' % sys.version_info[:2]\n"
        "sys.exit(7)\n"
        "'never'\n",
    )
    number = version if version[0].isdigit() else done.stdout.splitlines()[-1].strip("'")
    assert done.stdout.splitlines()[-6:] == [
        "42",
        "43",
        "'roamlet:" + str(tmp_path / "mine_to_send.py") + "'",
        "0",
        "1",
        f"'{number}'",
    ]
    assert done.returncode == 7
    assert done.stderr == ""


@pytest.mark.parametrize("version", list(VERSIONS)[:2])
@pytest.mark.parametrize("wrong", ["1 / 0", "if 1", "if 1:\n    raise ZeroDivisionError\n", "raise KeyboardInterrupt"])
def test_a_statement_of_a_file_that_fails_is_the_last_one_and_the_exit_code_says_so(tmp_path, version, wrong):
    done = piped(tmp_path, version, f"print('before')\n{wrong}\nprint('behind')\n")
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert done.stderr.splitlines()[-1].split(":")[0] in ("ZeroDivisionError", "SyntaxError", "KeyboardInterrupt")
    assert "roamlet/" not in done.stderr


FILE = """\ufeff# a file as people write them

def f(a):
    # a comment

# another one
    b = [
a,

    ]

    return b
print(f(1))
if f:
    print("if")

else:
    print("else")
text = '''
# inside

else'''
print(repr(text))
total = 1 + \\
2
@staticmethod

def g(): pass
class A:
    x = 1
print(total, A.x)
for i in range(2):
    print(i)"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_is_read_by_the_rules_of_files(tmp_path, version):
    done = piped(tmp_path, version, FILE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "[1]",
        "if",
        repr("\n# inside\n\nelse"),
        *["(3, 1)" if version == "2.7" else "3 1"],
        "0",
        "1",
    ]


@pytest.mark.parametrize("version", [next(iter(VERSIONS)), list(VERSIONS)[-1]])
def test_a_file_that_ends_too_early_fails(tmp_path, version):
    done = piped(tmp_path, version, "print('before')\nx = (\n")
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert "SyntaxError" in done.stderr


def test_input_that_is_no_text_is_refused(tmp_path):
    done = subprocess.run(
        words(next(iter(VERSIONS))),
        cwd=tmp_path, env={**environment(tmp_path), "PYTHONUTF8": "1"}, input=b"print(1)\n'\xff'\n", capture_output=True,
        timeout=LIMIT, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (64, b"1\n")
    assert done.stderr == b"roamlet shell: line 2 of the input is no text in UTF-8\n"


def test_ctrl_c_ends_a_file_with_130(tmp_path):
    with subprocess.Popen(
        words(list(VERSIONS)[-1]), cwd=tmp_path, env=environment(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdin.write("import sys\nprint('begun')\nwhile 1: pass\nprint('never')\n")
        process.stdin.close()
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130
        assert process.stdout.read() == ""


@pytest.mark.parametrize("moment", ["before it has begun", "when it has just begun"])
def test_ctrl_c_that_comes_with_the_beginning_of_a_statement_is_not_lost(monkeypatch, capfd, moment):
    started = []

    def start(thread, original=threading.Thread.start):
        mine = thread.name == "roamlet-shell"
        if mine:
            started.append(thread)
        if mine and len(started) == 2 and moment == "before it has begun":
            signal.raise_signal(signal.SIGINT)
        original(thread)
        if mine and len(started) == 2 and moment == "when it has just begun":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(threading.Thread, "start", start)
    before = signal.getsignal(signal.SIGINT)
    with remote.local() as context:
        # The first time it is no whole statement, for more lines of it could come.
        assert Prompt(context, "local", io.StringIO("while 1: pass\nprint('never')\n")).run() == 130
    assert len(started) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.endswith("KeyboardInterrupt\n")  # below a traceback, if it had begun
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_that_comes_as_a_statement_ends_ends_the_file(monkeypatch, capfd):
    """It has its answer by then, and its thread is waited for."""

    def join(thread, timeout=None, original=threading.Thread.join):
        if thread.name == "roamlet-shell":
            signal.raise_signal(signal.SIGINT)
        original(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", join)
    before = signal.getsignal(signal.SIGINT)
    with remote.local() as context:
        assert Prompt(context, "local", io.StringIO("print('once')\nprint('never')\n")).run() == 130
    assert capfd.readouterr().out == "once\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_strikes_its_statement_alone_even_before_that_has_begun(capfd):
    with remote.local() as context:
        token = "a prompt"
        Shell(context)
        context.call(wire.start, (token,))
        assert context.call(wire.interrupt, (token, 1)) is True
        assert context.call(wire.enter, (token, "print('one')", False, 1)) == "failed"
        assert context.call(wire.interrupt, (token, 1)) is True
        assert context.call(wire.enter, (token, "print('two')", False, 2)) == "done"
        assert context.call(wire.interrupt, ("another", 2)) is False
    said = capfd.readouterr()
    assert (said.out, said.err) == ("two\n", "KeyboardInterrupt\n")


def test_a_person_goes_on_after_an_exception_and_a_terminal_is_not_handed_what_it_would_obey(at_terminal):
    terminal = at_terminal(list(VERSIONS)[-1])
    terminal.see(">>> ")
    terminal.type("raise ValueError(chr(27) + ']0;title' + chr(7))\n")
    terminal.see("ValueError: \\x1b]0;title\\x07")
    terminal.see(">>> ")
    terminal.type("print('a' + chr(155) + '31m' + chr(13) + 'b')\n")
    terminal.see("a\\x9b31m\\rb\n")
    terminal.see(">>> ")
    terminal.type("\x04")
    assert terminal.ended() == 0


def test_a_pipe_gets_what_is_printed_as_it_is(tmp_path):
    done = piped(tmp_path, next(iter(VERSIONS)), "print('a' + chr(27) + '[31m')\n")
    assert (done.returncode, done.stdout) == (0, "a\x1b[31m\n")


def test_sys_exit_with_a_text_says_it_and_fails(tmp_path):
    done = piped(tmp_path, next(iter(VERSIONS)), "raise SystemExit('enough')\n")
    assert (done.returncode, done.stderr) == (1, "enough\n")


def test_a_context_that_dies_is_said_and_fails(tmp_path):
    done = piped(tmp_path, next(iter(VERSIONS)), "import os\nos._exit(3)\n")
    assert done.returncode == 1
    assert "roamlet shell: 'local' died while it ran" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("version", [list(VERSIONS)[-1]])
def test_a_person_at_a_terminal(at_terminal, tmp_path, version):
    terminal = at_terminal(version)
    assert "Python " in terminal.see(">>> ")
    terminal.type("import sys; n = sys.stdout.write('no line break')\n")
    terminal.see("no line break")
    terminal.see(">>> ")
    terminal.type("a_long_name = 'found by Tab'\n")
    terminal.see(">>> ")
    terminal.type("a_lon\t\n")
    terminal.see("'found by Tab'")
    terminal.see(">>> ")
    terminal.type("while True:\n")
    terminal.see("... ")
    terminal.type("    if len('x'): print('it runs') or 1; break\n\n")
    terminal.see("\nit runs")
    terminal.see(">>> ")
    terminal.type("half a line")
    terminal.see("half a line")
    terminal.interrupt("KeyboardInterrupt")
    terminal.see(">>> ")
    terminal.type("\x04")
    assert terminal.ended() == 0
    history = tmp_path / "state/roamlet/shell_history"
    assert "a_long_name = 'found by Tab'" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("version", [next(iter(VERSIONS)), list(VERSIONS)[-1]])
def test_ctrl_c_interrupts_the_statement_and_the_prompt_goes_on(at_terminal, version):
    terminal = at_terminal(version)
    terminal.see(">>> ")
    terminal.type("print('be' + 'gun'); exec('while 1: pass')\n")
    terminal.see("begun")
    terminal.type("\x03")
    assert "Traceback" in terminal.see("KeyboardInterrupt\n")
    terminal.see(">>> ")
    terminal.type("6 * 7\n")
    terminal.see("\n42\n")
    terminal.see(">>> ")  # before that, the terminal and not the prompt would take the Ctrl-D
    terminal.type("\x04")
    assert terminal.ended() == 0


def test_a_statement_that_cannot_be_interrupted_is_told_and_left_alone(at_terminal):
    terminal = at_terminal(list(VERSIONS)[-1])
    terminal.see(">>> ")
    terminal.type("import time; print('be' + 'gun'); time.sleep(1000)\n")
    terminal.see("begun")
    terminal.type("\x03")
    terminal.see("is inside of a call that Python does not interrupt there")
    terminal.type("\x03")
    terminal.see("roamlet shell: interrupted")
    assert terminal.ended() == 130
