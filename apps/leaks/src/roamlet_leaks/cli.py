"""`roamlet leaks`, and `roamlet-leaks` where roamlet is not installed: parses and prints.

Runs a program and reports which lines keep exceptions, and memory with them; with --check, finds such lines in sources.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any

from roamlet_leaks.errors import UsageError
from roamlet_leaks.script import INTERRUPTED, code_of_module, code_of_script, run_as_main

if TYPE_CHECKING:
    from roamlet_leaks.finding import Finding

# Exit codes.
FOUND = 1
UNREADABLE = 2
USAGE = 64  # EX_USAGE of sysexits.h, as in roamlet's other commands

DESCRIPTION = """\
Run SCRIPT, or MODULE with -m, as python does, and report at its end which lines kept exceptions alive: in cycles through their
tracebacks, which only the cyclic collector frees, and in objects that live on; what each keeps, and how it is mended. The collector
is off meanwhile, so that it frees no cycle unseen, unless --collector is given.

With --check, run nothing and read the sources in files and folders. A comment `# roamlet: keep` accepts a finding, on its line
or on that of its function.

Exit code: 1 something was found; else that of the program, or 0. 2 a source cannot be read or parsed. 64 the command line is wrong
and nothing has run."""


TEXTS: dict[str, Any] = {
    "usage": "%(prog)s [--json] [-o FILE] [--collector] [--only PATH] [-m] SCRIPT|MODULE [ARG ...]\n"
    "       %(prog)s [--json] [-o FILE] --check PATH [PATH ...]",
    "description": DESCRIPTION,
    "formatter_class": argparse.RawDescriptionHelpFormatter,
    "allow_abbrev": False,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: sys.argv) of `roamlet-leaks` and return the exit code."""
    parser = argparse.ArgumentParser(prog="roamlet-leaks", **TEXTS)
    _declare(parser)
    try:
        options = parser.parse_args(argv)
    except SystemExit as exit_of_argparse:  # after --help without a code or with 0, after a wrong word with its own
        return USAGE if exit_of_argparse.code else 0
    try:
        return leaks(options)
    except KeyboardInterrupt:
        print("roamlet-leaks: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output has ended, `| head` for example
        sys.stderr.close()
        return FOUND


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet leaks`."""
    _declare(commands.add_parser("leaks", help="find the exceptions that keep memory alive", **TEXTS))


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="one JSON object per line and finding, on stdout, for other programs"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the findings to FILE, apart from the output of the program"
    )
    parser.add_argument(
        "--collector", action="store_true", help="leave the cyclic collector on: for programs that run long"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATH", help="report only what lines of files in PATH keep"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="what follows is the name of a module")
    parser.add_argument("--check", action="store_true", help="read the sources in PATHs, run nothing")
    parser.add_argument("words", metavar="SCRIPT [ARG ...]", nargs=argparse.REMAINDER)
    parser.set_defaults(command=leaks, prog=parser.prog)


def leaks(options: argparse.Namespace) -> int:
    """Carry the command out and return the exit code."""
    try:
        return _checked(options) if options.check else _watched(options)
    except UsageError as error:
        print(f"{options.prog}: {error}", file=sys.stderr)
        return USAGE


def _words(options: argparse.Namespace) -> list[str]:
    """The words after the options. Raises UsageError when there is no word."""
    words: list[str] = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        name = options.prog
        raise UsageError(f"name what to look at: `{name} SCRIPT`, `{name} -m MODULE` or `{name} --check PATH`")
    return words


def _watched(options: argparse.Namespace) -> int:
    """Run the program and report what it keeps. Raises UsageError before anything of the program has run."""
    words = _words(options)
    only = [_existing(path) for path in options.only]
    program = code_of_module(words[0]) if options.module else code_of_script(words[0])
    # Inside: `roamlet --help` and --check start faster without.
    from roamlet_leaks.running.watch import watch

    out = _opened(options) or (sys.stdout if options.json else sys.stderr)  # taken now: the program may replace them
    with watch(collector=options.collector) as seen:
        status = run_as_main(program, words[1:])
    with contextlib.suppress(AttributeError, ValueError):  # the program may have removed or closed it
        sys.stdout.flush()
    findings = [one for one in seen.findings if not only or any(_lies_in(one.path, path) for path in only)]
    _print(findings, options, out)
    return FOUND if findings else status


def _existing(path: str) -> str:
    if not os.path.exists(path):
        raise UsageError(f"--only {path}: there is no such file or folder")
    return os.path.realpath(path)


def _lies_in(path: str, place: str) -> bool:
    return os.path.realpath(path) == place or os.path.realpath(path).startswith(place.rstrip(os.sep) + os.sep)


def _checked(options: argparse.Namespace) -> int:
    """Print what the static check finds in the sources, file by file."""
    paths = _words(options)
    # Inside: `roamlet --help` starts faster without.
    from roamlet_leaks.check import check_paths
    from roamlet_leaks.finding import Finding

    out = _opened(options) or contextlib.nullcontext(sys.stdout)
    status = 0
    processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    progress = _Progress()
    with out as stream, contextlib.closing(progress):
        for each in check_paths(paths, processes=processes, progress=progress.show if sys.stderr.isatty() else None):
            progress.close()
            if not isinstance(each, Finding):
                status = UNREADABLE
                _say(str(each), sys.stderr)
                continue
            status = status or FOUND
            mend = f"{each}\n    in {each.function}\n    mend: {each.mend}"
            _say(json.dumps(each.plain()) if options.json else mend, stream)
    return status


class _Progress:
    """One line on the terminal with the number of files that have been read; it is cleared before anything else is written."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, files: int) -> None:
        print(f"\r{files} files", end="", file=sys.stderr, flush=True)
        self._shown = True

    def close(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def _opened(options: argparse.Namespace) -> IO[str] | None:
    try:
        return open(options.output, "w", encoding="utf-8") if options.output else None
    except OSError as error:
        raise UsageError(f"-o {options.output}: {error.strerror}") from error


def _print(findings: "Iterable[Finding]", options: argparse.Namespace, out: IO[str]) -> None:
    # Inside: as above.
    from roamlet_leaks.running.watch import report

    if options.json:
        text = "\n".join(json.dumps(finding.plain()) for finding in findings)
    else:
        text = report(findings)
    if not _open(out) and sys.__stderr__ is not None:  # the program has closed it
        out = sys.__stderr__
    if text:
        _say(text, out)
    if options.output:
        out.close()


def _open(stream: IO[str]) -> bool:
    try:
        return not stream.closed
    except (AttributeError, ValueError):  # there was none, or its descriptor was taken away
        return False


def _say(text: str, stream: IO[str]) -> None:
    """Print it; characters that the stream cannot encode are escaped."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
