"""`roamlet trace SCRIPT` and `roamlet trace PID`: a timeline of the tasklets of a program that is run, or of one that runs."""

import argparse
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from roamlet.cli._errors import UsageError
from roamlet.cli._options import refuse_left, refuse_unknown
from roamlet.cli.commands.seeing import ON_A_HOST
from roamlet.cli.reaching.declaring import add_way

if TYPE_CHECKING:
    from roamlet.diagnose.tracing import Trace

TERMINATED = 128 + signal.SIGTERM  # exit code, as a shell's

DESCRIPTION = """\
Run SCRIPT, or with -m a module, and write a timeline of its tasklets when it ends: when each ran and why it stopped, what it
waited for and where, the messages between them, remote calls, and what held a thread for long. What is printed at the end names the
longest waits.

With a PID, or HOST:PID, trace that process for some seconds; Ctrl-C ends it early. It has to be prepared: ROAMLET_DUMP=1 in its
environment, or a call of roamlet.diagnose.enable(). From CPython 3.14 on it need not be, where this command runs on the same
version.

The name of FILE says what is written: .json or .json.gz opens in Perfetto (ui.perfetto.dev), speedscope and chrome://tracing,
.speedscope.json in speedscope alone (where tasklets waited, as a flame graph), .html in any browser, without a network.

  roamlet trace --html crawl.py
  roamlet trace 4711 --seconds 5 -o slow.html
  roamlet trace web01:4711

Exit code: that of the script, 143 where SIGTERM ended it; 1 if it fails or the trace cannot be written; 3 the host is out of reach;
64 if nothing has run; 130 interrupted."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet trace`."""
    parser = commands.add_parser(
        "trace",
        help="a timeline of the tasklets of a program, or of a process that runs",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_options(parser)
    parser.add_argument(
        "script", metavar="SCRIPT | PID | HOST:PID", help="a file, or a module with -m; a process that runs"
    )
    further = parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER)
    further.required = False  # argparse counts it among those that are missing, although it may be empty
    parser.set_defaults(command=trace, ends_options=lambda before, word: True)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        action="append",
        help="where to (default: trace.json, or trace.html with --html); several times for several forms",
    )
    parser.add_argument("--html", action="store_true", help="write a page for browsers: FILE ends in .html")
    parser.add_argument(
        "--events", type=int, default=1 << 18, help="room for each thread (default: 262144); older ones are dropped"
    )
    parser.add_argument(
        "--hold", type=float, default=10.0, metavar="MS", help="show what keeps a thread for longer (default: 10)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print no summary")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    process = parser.add_argument_group("of a process that runs")
    process.add_argument("--seconds", type=float, metavar="S", help="for how long (default: 5)")
    add_way(parser, ssh_options=False)


class _Further(argparse.ArgumentParser):
    """The options after a PID."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def trace(options: argparse.Namespace) -> int:
    """Carry the command out and return its exit code. Raises UsageError before anything has run."""
    # Inside: loading the core takes longer than all of `roamlet --help`.
    from roamlet.diagnose.tracing import Trace

    # What follows a script is the script's; what follows a process can only be meant for this command.
    on_host = ON_A_HOST.fullmatch(options.script) if not options.module else None
    of_process = on_host is not None or (options.script.isdigit() and not options.module)
    if of_process:
        further = _Further(prog="roamlet trace", add_help=False, allow_abbrev=False)
        _add_options(further)
        refuse_unknown(further, options.arguments)
        _, left = further.parse_known_args(options.arguments, options)
        if left:
            refuse_left(further, None, left)
    elif options.seconds is not None:
        raise UsageError("--seconds is for a process that runs: roamlet trace PID --seconds 5")
    files = _files(options)
    try:
        taken = Trace(events=options.events, hold=options.hold / 1000)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if of_process:
        # Inside: as above.
        from roamlet.cli.programs.traced import trace_process

        host, pid = (on_host["host"], on_host["pid"]) if on_host else (None, options.script)
        code = trace_process(host, pid, options, taken)
        return code or _written(taken, files, options.quiet, of=options.script)
    return _trace_script(options, taken, files)


def _trace_script(options: argparse.Namespace, taken: "Trace", files: list[str]) -> int:
    # Inside: as in trace().
    from roamlet.diagnose.tracing import script

    code = 130  # of an interrupt
    taken.start()
    try:
        with _orderly_end():
            code = _run(options)
    except script.NotRunnable as error:
        taken.stop()
        raise UsageError(str(error)) from error
    finally:
        taken.stop()
        if sys.exc_info()[0] in (None, KeyboardInterrupt):
            code = _written(taken, files, options.quiet) or code
    return code


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Have SIGTERM end the program as sys.exit() does, so that there is a trace of it: the first time, if it was to end it before.

    A handler that the program installs takes its place, as it would take the default's. Forked children end as they would.
    """
    process = os.getpid()

    def ends(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != process:
            os.kill(os.getpid(), number)
        raise SystemExit(TERMINATED)

    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, ends)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is ends:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _files(options: argparse.Namespace) -> list[str]:
    """Where the trace goes. Raises UsageError for a name that says no form, and for what cannot be written."""
    from roamlet.diagnose.tracing import writing

    files: list[str] = list(options.output or ())
    if options.html and not any(name.endswith(".html") for name in files):
        files.append(_html_beside(files[0]) if files else "trace.html")
    files = files or ["trace.json"]
    for name in files:
        try:
            writing.form_of(name)
            writing.try_to_write(name)
        except ValueError as error:
            raise UsageError(str(error)) from error
        except OSError as error:
            raise UsageError(f"{name} cannot be written: {error.strerror or error}") from error
    return files


def _html_beside(name: str) -> str:
    for ending in (".speedscope.json", ".json.gz", ".json"):
        name = name.removesuffix(ending)
    return name + ".html"


def _run(options: argparse.Namespace) -> int:
    """Run the program; return its exit code. Raises what it raises when nothing of it has run, and KeyboardInterrupt."""
    from roamlet.diagnose.tracing import script

    run = script.run_module if options.module else script.run_script
    try:
        run(options.script, options.arguments)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except script.NotRunnable:
        raise
    except Exception as error:
        trace = error.__traceback__  # without the frames of this command
        try:
            while trace is not None and trace.tb_frame.f_globals.get("__name__") != "__main__":
                trace = trace.tb_next
            traceback.print_exception(type(error), error, trace)
        finally:
            del trace
        return 1
    return 0


def _written(taken: "Trace", files: list[str], quiet: bool, of: str | None = None) -> int:
    """Write the trace and say so. `of`: the process that it is of, if that ran already. Returns the exit code."""
    code = 0
    if not quiet:
        taken.summary(sys.stderr)
        if of is not None:
            print(f"  what did nothing but wait meanwhile is not in it: see `roamlet ps {of}`", file=sys.stderr)
    for name in files:
        try:
            taken.save(name)
        except OSError as error:
            print(f"roamlet trace: {name} cannot be written: {error.strerror or error}", file=sys.stderr)
            code = 1
        else:
            if not quiet:
                print(f"written: {name}", file=sys.stderr)
    return code
