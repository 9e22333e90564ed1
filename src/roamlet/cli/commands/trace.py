"""`roamlet trace SCRIPT`: runs a program and writes a timeline of its tasklets."""

import argparse
import sys
import traceback
from typing import TYPE_CHECKING

from roamlet.cli._errors import UsageError

if TYPE_CHECKING:
    from roamlet.diagnose.tracing import Trace

DESCRIPTION = """\
Run SCRIPT, or with -m a module, and write a timeline of its tasklets when it ends: when each ran and why it stopped, what it waited
for and where, the messages between them, remote calls, and what held a thread for long. What is printed at the end names the
longest waits.

The name of FILE says what is written: .json or .json.gz opens in Perfetto (ui.perfetto.dev), speedscope and chrome://tracing,
.speedscope.json in speedscope alone (where tasklets waited, as a flame graph), .html in any browser, without a network.

Exit code: that of the script; 1 if it fails or the trace cannot be written, 64 if nothing has run, 130 interrupted."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet trace`."""
    parser = commands.add_parser(
        "trace",
        help="run a program and write a timeline of its tasklets",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
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
    parser.add_argument("script", metavar="SCRIPT", help="a file, or a module with -m")
    parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER)
    parser.set_defaults(command=trace, ends_options=lambda before, word: True)


def trace(options: argparse.Namespace) -> int:
    """Carry the command out and return its exit code. Raises UsageError before anything has run."""
    # Inside: loading the core takes longer than all of `roamlet --help`.
    from roamlet.diagnose.tracing import Trace, script

    files = _files(options)
    try:
        taken = Trace(events=options.events, hold=options.hold / 1000)
    except ValueError as error:
        raise UsageError(str(error)) from error
    code = 130  # of an interrupt
    taken.start()
    try:
        code = _run(options)
    except script.NotRunnable as error:
        taken.stop()
        raise UsageError(str(error)) from error
    finally:
        taken.stop()
        if sys.exc_info()[0] in (None, KeyboardInterrupt):
            code = _written(taken, files, options.quiet) or code
    return code


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


def _written(taken: "Trace", files: list[str], quiet: bool) -> int:
    """Write the trace and say so. Returns the exit code."""
    code = 0
    if not quiet:
        taken.summary(sys.stderr)
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
