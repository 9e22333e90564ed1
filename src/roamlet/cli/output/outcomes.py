"""The outcomes on many hosts: lines as results come, groups of equal ones, a table of failures, JSON, and the exit code.

Knows neither how a host is reached nor what is done there.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import IO, TYPE_CHECKING, Any

from roamlet._escapes import escaped_for, print_escaped
from roamlet.cli._errors import FAILED, UNREACHABLE
from roamlet.cli.output.hints import for_command_line
from roamlet.cli.output.needed import need_rich
from roamlet.cli.output.progress import Progress
from roamlet.cli.reaching.inventory import Host, folded

if TYPE_CHECKING:
    from roamlet.cli.output.fan_out import Outcome

# The last place of a traceback that is no library's, in the text that comes with an error of a target.
PLACE = re.compile(r'File "(?:roamlet:)?([^"]+)", line (\d+), in (\S+)')


class Lines:
    """Prints the output of targets, line by line with the host in front, and removes the line of progress meanwhile.

    `stdout` is where the standard output of targets goes; what they write to standard error goes to this process's. `lost` is set
    when the reader of one of the two has ended, `| head` for example: from then on lines are dropped. Called in any thread.
    """

    def __init__(self, progress: Progress, stdout: IO[str] | None = None) -> None:
        # Inside: as in carry_out.
        from roamlet.sync import Event

        self._progress = progress
        self._stdout = stdout or sys.stderr
        self.lost: Event = Event()

    def __call__(self, context: str, stream: str, line: str) -> None:
        if self.lost.is_set():
            return
        self._progress.wipe()
        try:
            print_escaped(f"{context}: {line}", sys.stderr if stream == "stderr" else self._stdout)
        except BrokenPipeError:  # no caller would get it
            self.lost.set()
            return
        self._progress.show()

    def raise_when_lost(self) -> None:
        """Block this tasklet until `lost` is set, then raise BrokenPipeError."""
        self.lost.wait()
        raise BrokenPipeError


@dataclass(frozen=True)
class Style:
    """How the outcomes of one command are written. `each`: a line for each host that succeeded, as soon as it has; without it, the
    output of the hosts is the output, and failures are printed on stderr.
    """

    shown: Callable[[Any], str]
    fields: Callable[[Any], dict[str, Any]]
    _: KW_ONLY
    as_json: bool
    group: bool = False
    each: bool = True
    failed: Callable[[Any], bool] = lambda value: False  # whether the value says that nothing was done there


def carry_out(
    targets: Sequence[Host],
    work: Callable[[Host], Any],
    out: IO[str],
    style: Style,
    at_once: int,
    progress: Progress,
    lines: Lines | None = None,
) -> int:
    """Do work(host) for every target, `at_once` at a time, print the outcomes, and return the exit code.

    Blocks until all are done, or raises BrokenPipeError as soon as the reader of what `lines` prints has ended. UsageError, before
    anything is done, where tables cannot be printed.
    """
    if not style.as_json:
        need_rich("add --json")
    # Inside: loading the core and the remote layer takes longer than all of `roamlet --help`.
    from roamlet import tasklet
    from roamlet.cli.output.fan_out import fan_out
    from roamlet.remote import ConnectError

    width = max(len(target.name) for target in targets)
    outcomes: list[Outcome[Host, Any]] = []
    failures = out if style.each else sys.stderr
    watcher = tasklet(lines.raise_when_lost)() if lines is not None else None  # what it raises, this tasklet gets
    try:
        for outcome in fan_out(targets, work, at_once=at_once):
            if outcome.error is not None or style.group:
                outcomes.append(outcome)
            if style.as_json or (not style.group and (style.each or outcome.error is not None)):
                progress.wipe()
                if style.as_json:
                    print(_json_line(outcome, style, out.isatty()), file=out, flush=True)
                else:
                    print_escaped(_line(outcome, width, style), out if outcome.error is None else failures)
                progress.show()
    finally:
        if watcher is not None and watcher.alive:
            watcher.kill()
        progress.wipe()
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if not style.as_json:
        if style.group:
            _print_groups(outcomes, out, style)
        if failed:
            _print_failures(failed, len(targets), failures)
    if not failed:
        return 0
    return UNREACHABLE if all(isinstance(outcome.error, ConnectError) for outcome in failed) else FAILED


def _print_groups(outcomes: "Sequence[Outcome[Host, Any]]", out: IO[str], style: Style) -> None:
    """Equal results together, the most frequent first; failures by the first line of their message, whatever host it names."""
    groups: dict[str, list[Outcome[Host, Any]]] = {}
    for outcome in outcomes:
        groups.setdefault(_what_anywhere(outcome, style), []).append(outcome)
    for what, same in sorted(groups.items(), key=lambda item: -len(item[1])):
        count = "1 host" if len(same) == 1 else f"{len(same)} hosts"
        head, *rest = (_what(same[0], style) if len(same) == 1 else what).split("\n")
        names = folded(sorted(outcome.target.name for outcome in same))
        print_escaped("\n".join([f"{count}: {head}", f"    {names}", *rest]), out)


def _what_anywhere(outcome: "Outcome[Host, Any]", style: Style) -> str:
    """`_what`, with HOST for the name of a host that failed: equal failures of 200 hosts are one group."""
    what = _what(outcome, style)
    return what if outcome.error is None else what.replace(repr(outcome.target.name), "HOST")


def _line(outcome: "Outcome[Host, Any]", width: int, style: Style) -> str:
    return f"{outcome.target.name:{width}}  {outcome.seconds:7.2f} s  {_what(outcome, style)}"


def _what(outcome: "Outcome[Host, Any]", style: Style) -> str:
    if outcome.error is not None:
        return "\n".join(
            [f"FAILED  {_headline(outcome.error)}", *(getattr(outcome.error, "printed", []) if style.group else [])]
        )
    said = style.shown(outcome.value)
    if style.failed(outcome.value):
        return f"FAILED  {said}"
    return f"ok{said}" if said.startswith("\n") else f"ok      {said}".rstrip()


def shown(value: Any, text: Callable[[Any], str] = repr) -> str:
    """`value` as text. A host may send an int that is too large for Python to print; that must not end the command for
    the others.
    """
    try:
        return text(value)
    except ValueError as error:
        return f"<{type(value).__name__} that cannot be shown: {error}>"


def _message(error: Exception) -> str:
    """The error's text, with roamlet's own hints in the words of the command line."""
    # Inside: as in carry_out.
    from roamlet.remote import RemoteError

    text = shown(error, str)
    return for_command_line(text) if isinstance(error, RemoteError) and type(error) is not RemoteError else text


def _reason(error: Exception) -> list[str]:
    """The lines of an error's message, with the type's name in front, unless the message has it or comes with the printed lines."""
    lines = _message(error).splitlines() or [""]
    name = type(error).__name__
    if lines[0].startswith(name) or hasattr(error, "printed"):
        return lines
    return [f"{name}: {lines[0]}".rstrip(": "), *lines[1:]]


def _headline(error: Exception) -> str:
    """One line: the message's first, without an announcement of lines that do not follow, and where it was raised."""
    first = re.sub(r"(,? and said|\. The last lines of its stderr):?$", "", _reason(error)[0])
    place = _place(error)
    return f"{first} ({place})" if place else first


def _traceback(error: Exception) -> str:
    """The traceback of the target, which roamlet.remote attaches as a note; empty without."""
    return "\n".join(getattr(error, "__notes__", ()))


def _place(error: Exception) -> str:
    """Where on the target the error was raised: FILE:LINE in FUNCTION; empty when that is not known."""
    places = PLACE.findall(_traceback(error))
    return "{}:{} in {}".format(*places[-1]) if places else ""


def _json_line(outcome: "Outcome[Host, Any]", style: Style, for_terminal: bool) -> str:
    fields: dict[str, Any] = {
        "host": outcome.target.name,
        "ok": outcome.error is None,
        "seconds": round(outcome.seconds, 3),
    }
    if outcome.error is None:
        fields |= style.fields(outcome.value)
    else:
        fields["error"] = type(outcome.error).__name__
        fields["message"] = _message(outcome.error)
        fields["traceback"] = _traceback(outcome.error) or None
        fields |= getattr(outcome.error, "fields", {})
    try:
        # On a terminal JSON's own escapes, for all that is not ASCII: among it are characters that a terminal obeys.
        return json.dumps(fields, ensure_ascii=for_terminal, allow_nan=False)
    except (TypeError, ValueError):
        # Plain values that JSON cannot express (bytes, sets, NaN): as Python writes them, marked by "repr".
        return json.dumps({**fields, "value": shown(outcome.value), "repr": True}, ensure_ascii=for_terminal)


def _print_failures(failed: "Sequence[Outcome[Host, Any]]", total: int, out: IO[str]) -> None:
    # Inside: the table is needed only when something failed.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out, soft_wrap=False, width=None if out.isatty() else 132)
    table = Table(show_lines=len(failed) > 1)
    table.add_column("host", no_wrap=True)
    table.add_column("why", overflow="fold")
    for outcome in failed:
        assert outcome.error is not None
        why = [*_reason(outcome.error), *_traceback(outcome.error).splitlines()]
        table.add_row(Text(outcome.target.name), Text(escaped_for("\n".join(why), out)))
    console.print(f"{len(failed)} of {total} failed:", highlight=False)
    console.print(table)
