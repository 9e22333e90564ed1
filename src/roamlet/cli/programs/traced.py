"""`roamlet trace PID`: the trace of a process that runs, which that process takes itself when it is asked."""

import argparse
import os
import sys
from typing import Any

from roamlet._escapes import print_escaped
from roamlet.cli._errors import FAILED, UNREACHABLE, UsageError
from roamlet.cli.output.hints import for_one_host
from roamlet.cli.reaching.options import hops, inventory_of, targets_of
from roamlet.diagnose.attaching import asking, encoding, newest
from roamlet.diagnose.attaching.session import LONGEST
from roamlet.diagnose.outside import travelling
from roamlet.diagnose.tracing import Trace
from roamlet.remote import ConnectError, RemoteError

SECONDS = 5.0
BEYOND = (
    asking.ANSWERS + asking.BEGINS + asking.ENDS
)  # seconds that a call on a host may take besides those of the trace


def trace_process(host: str | None, pid: str, options: argparse.Namespace, taken: Trace) -> int:
    """Have process `pid`, of another machine where `host` names one, take a trace; put what it has recorded into `taken`.

    Returns the exit code; blocks for the time that `options` say. Raises UsageError; KeyboardInterrupt where there is no trace yet.
    """
    seconds = SECONDS if options.seconds is None else options.seconds
    if not 0 < seconds <= LONGEST:
        raise UsageError(f"--seconds {seconds:g}: a trace takes above 0 and at most {LONGEST:g} seconds")
    if len(pid) > 10:
        raise UsageError(f"{pid!r} is no PID: the number is too large")
    request = (int(pid), seconds, options.events, options.hold / 1000)
    if host is None and not sys.platform.startswith("linux"):
        raise UsageError("a process is asked by way of /proc, so on Linux alone; HOST:PID asks on a host that has it")
    if host is None and int(pid) == os.getpid():
        raise UsageError(f"{pid} is this command itself")
    try:
        parts, forks = _asked(request, options) if host is None else _asked_on_host(host, request, options)
        taken.recordings = encoding.decoded(parts)
    except ConnectError as error:
        print_escaped(f"roamlet trace: {for_one_host(str(error))}", sys.stderr)
        return UNREACHABLE
    except RemoteError as error:
        print_escaped(f"roamlet trace: {for_one_host(str(error))}", sys.stderr)
        return FAILED
    except (RuntimeError, ValueError) as error:
        print_escaped(f"roamlet trace: {error}", sys.stderr)
        return FAILED
    taken.recordings[0].process = f"process {options.script}"
    if forks:
        times = {1: "once", 2: "twice"}.get(forks, f"{forks} times")
        print(f"it has forked {times} meanwhile: its children are not in the trace", file=sys.stderr)
    return 0


def _asked(request: tuple[int, float, int, float], options: argparse.Namespace) -> tuple[list[bytearray], int]:
    pid, seconds, _, _ = request
    if not asking.is_prepared(pid):
        newest.prepare(pid)

    def began() -> None:
        if not options.quiet:
            print(f"tracing process {pid} for {seconds:g} s; Ctrl-C ends it early", file=sys.stderr, flush=True)

    parts, forks = asking.ask(*request, began)
    return parts, forks


def _asked_on_host(host: str, request: tuple[Any, ...], options: argparse.Namespace) -> tuple[list[bytearray], int]:
    inventory = inventory_of(options)
    (target,) = targets_of([host], options, inventory)
    ask = travelling.alone(asking.__name__, asking.__file__).ask
    with hops(options, inventory) as way, way.opened(target, _print_line) as context:
        context.largest_result = asking.MOST
        parts, forks = context.call(ask, request, timeout=request[1] + BEYOND)
    return parts, forks


def _print_line(context: str, stream: str, line: str) -> None:
    print_escaped(f"{context}: {line}", sys.stderr)
