"""`roamlet shell HOST`: a Python prompt on the target. Lines are edited and remembered locally; statements run remotely."""

import argparse
import contextlib
import functools
import os
import queue
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from roamlet._escapes import escaped, print_escaped
from roamlet.cli._errors import UsageError
from roamlet.cli.output.hints import for_one_host
from roamlet.cli.reaching.declaring import add_way
from roamlet.cli.reaching.inventory import Host
from roamlet.cli.reaching.options import check_python, hops, inventory_of, targets_of

if TYPE_CHECKING:
    from roamlet.remote import Context
    from roamlet.remote.shell import Statement

LOCAL = "local"
HISTORY = 5000  # lines
INTERRUPTED = 130  # exit code
# Of a file: lines that are no part of a statement, and those that are but do not begin one.
NOTHING = re.compile(r"\s*(#|$)")
CONTINUES = re.compile(r"\s|[)\]}#]|$|(else|elif|except|finally)\b")
PATIENCE = 2.0  # seconds that an interrupted statement has before we say that it cannot be interrupted

DESCRIPTION = """\
A Python prompt in the interpreter of HOST (or of this machine: local). Modules that are here and not there can be imported.

Ctrl-C interrupts the statement that runs; Ctrl-D at an empty prompt leaves. Of a file or pipe (< FILE),
statements run up to the first one that fails."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet shell`."""
    parser = commands.add_parser(
        "shell",
        help="a Python prompt on a host",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_way(parser)
    parser.add_argument("host", metavar="HOST", help=f"[USER@]HOST[:PORT], a host of -i, or {LOCAL}")
    parser.set_defaults(command=shell)


def shell(options: argparse.Namespace) -> int:
    """Carry the command out and return its exit code: that of sys.exit() on the target, 1 when a statement that no person has typed
    has failed, or the host is or was lost.
    """
    # Inside: loading the core and the remote layer takes longer than all of `roamlet --help`.
    from roamlet.remote import RemoteError

    check_python(options.python)
    inventory = inventory_of(options)
    if options.host == LOCAL and LOCAL not in inventory.settings:
        host = Host(LOCAL, None, python=options.python)
    else:
        found = targets_of([options.host], options, inventory)
        if len(found) != 1:
            raise UsageError(f"{options.host!r} names {len(found)} hosts; a prompt is on one")
        host = found[0]
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # modules in the current folder can be imported on the target
    try:
        with hops(options, inventory) as way, way.opened(host, Pieces()) as context:
            return Prompt(context, host.name).run()
    except RemoteError as error:
        print_escaped(f"roamlet shell: {for_one_host(str(error))}", sys.stderr)
        return 1


class Pieces:
    """Prints the target's output as it comes, without waiting for the end of a line."""

    pieces = True

    def __call__(self, context: str, stream: str, text: str) -> None:
        print_escaped(text, sys.stderr if stream == "stderr" else sys.stdout, end="")


class Prompt:
    """Reads statements, has them run, and turns Ctrl-C into an interrupt on the target."""

    def __init__(self, context: "Context", name: str, inp: IO[str] | None = None) -> None:
        # Inside: see shell().
        from roamlet.remote.shell import Shell

        self._name = name
        self._shell = Shell(context)
        self._in = inp or sys.stdin
        self._typed = self._in.isatty()
        self._interrupted = False  # the last statement, by Ctrl-C

    def run(self) -> int:
        """Until the input ends or the statement exits; returns the exit code."""
        if self._typed:
            print_escaped(f"{self._shell.version}, in {self._name}. Ctrl-D leaves.", sys.stdout)
            with line_editing(self._complete):
                return self._run_typed()
        return self._run_file()

    def _run_typed(self) -> int:
        lines: list[str] = []
        while True:
            try:
                lines.append(input(escaped(self._shell.prompts[bool(lines)])))
            except EOFError:
                if not lines:
                    print()
                    return 0
                lines.append("")
            except KeyboardInterrupt:
                print("\nKeyboardInterrupt", file=sys.stderr)
                lines = []
                continue
            answer = self._enter("\n".join(lines))
            if answer == "more" and lines[-2:] != ["", ""]:
                continue
            lines = []
            if not isinstance(answer, str):
                return self._exit_code(answer.status)

    def _run_file(self) -> int:
        """Each statement once it is whole, by the rules of a file: an empty line ends none, the beginning of the next one does."""
        lines: list[str] = []
        for line in self._lines():
            if lines and not CONTINUES.match(line) and not lines[-1].endswith("\\"):
                answer = self._enter("\n".join([*lines, ""]))  # which ends it, unless it is in brackets
                if answer not in ("done", "more") or self._interrupted:
                    return self._ended(answer)
                if answer == "done":
                    lines = []
            if lines or not NOTHING.match(line):
                lines.append(line)
            if not NOTHING.match(line):
                answer = self._enter("\n".join(lines))
                if answer not in ("done", "more") or self._interrupted:
                    return self._ended(answer)
                if answer == "done":
                    lines = []
        return self._ended(self._enter("\n".join([*lines, ""]), last=True)) if lines else 0

    def _lines(self) -> Iterator[str]:
        for number, line in enumerate(iter(self._in.readline, ""), 1):
            try:
                line.encode("utf-8")
            except UnicodeEncodeError:
                raise UsageError(f"line {number} of the input is no text in UTF-8") from None
            yield line.rstrip("\n").removeprefix("\ufeff")

    def _ended(self, answer: Any) -> int:
        """The exit code after the last statement of a file: as that of python, which reads one from there."""
        if not isinstance(answer, str):
            return self._exit_code(answer.status)
        if self._interrupted:
            return INTERRUPTED
        return 1 if answer == "failed" else 0

    def _exit_code(self, status: Any) -> int:
        if isinstance(status, str):
            print_escaped(status, sys.stderr)
            return 1
        return int(status or 0) & 0xFF

    def _enter(self, source: str, *, last: bool = False) -> Any:
        """Run it in a thread. Meanwhile Ctrl-C raises nothing here, wherever it strikes: it is one more event to wait for."""
        # A SimpleQueue, for a handler of signals may put into it whatever it has interrupted.
        events: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        statement = self._shell.statement(source, last=last)

        def work() -> None:
            try:
                value = statement.run()
                events.put(lambda: value)
            except BaseException as error:
                events.put(functools.partial(_raised, error.with_traceback(None)))

        thread = threading.Thread(target=work, name="roamlet-shell")
        with on_interrupt(lambda: events.put(None)):
            thread.start()
            try:
                answer = self._answer(statement, events)
            finally:
                thread.join(PATIENCE)
        self._interrupted = self._interrupted or not events.empty()  # it came when the answer was there already
        try:
            return answer()
        finally:
            del answer  # an error's traceback holds this frame

    def _answer(
        self, statement: "Statement", events: "queue.SimpleQueue[Callable[[], Any] | None]"
    ) -> Callable[[], Any]:
        """What the statement's thread says in the end. The first interrupt goes to the target, the second one leaves it alone."""
        answer = events.get()
        if answer is not None:
            return answer
        self._interrupted = True
        if not statement.interrupt():
            print(f"Nothing in {self._name} can be interrupted: its Python has no ctypes.", file=sys.stderr)
        try:
            answer = events.get(timeout=PATIENCE)
        except queue.Empty:
            print(
                f"The statement in {self._name} goes on: it is inside of a call that Python does not interrupt there, or it "
                "catches KeyboardInterrupt. Ctrl-C again leaves it alone and ends this prompt.",
                file=sys.stderr,
            )
            answer = events.get()
        if answer is None:
            raise KeyboardInterrupt
        return answer

    def _complete(self, text: str) -> list[str]:
        try:
            return [word for word in self._shell.complete(text) if word.isprintable()]
        except Exception:  # readline would print the traceback into the line
            return []


def _raised(error: BaseException) -> None:
    try:
        raise error
    finally:
        del error  # its traceback holds this frame


@contextlib.contextmanager
def on_interrupt(act: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C calls `act` in place of raising KeyboardInterrupt, unless this process ignores it, as in the background of a shell."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: act())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def line_editing(complete: Callable[[str], list[str]]) -> Iterator[None]:
    """Editing, history in a private file, and completion by Tab, where Python has readline."""
    try:
        # Inside: it takes hold of the terminal, and not every Python has it.
        import readline
    except ImportError:
        yield
        return
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state", "roamlet", "shell_history")
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    found: list[str] = []

    def completer(text: str, number: int) -> str | None:
        if number == 0:
            found[:] = complete(text) if text else ["\t"]
        return found[number] if number < len(found) else None

    before = readline.get_completer(), readline.get_completer_delims()
    readline.set_history_length(HISTORY)
    readline.set_completer(completer)
    readline.set_completer_delims(" \t\n`~!@#$%^&*()-=+[{]}\\|;:'\",<>/?")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before[0])
        readline.set_completer_delims(before[1])
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.write_history_file(path)
