"""What `ps`, `pstree` and `stacks` do on other machines: the reader is sent there, and what it has found is written here."""

import argparse
import sys
from typing import Any

from roamlet.cli._errors import FAILED
from roamlet.cli.commands.seeing import Render, host_and_pid
from roamlet.cli.output.outcomes import Lines, Style, carry_out
from roamlet.cli.output.progress import Progress
from roamlet.cli.reaching.inventory import Host
from roamlet.cli.reaching.options import hops, inventory_of, targets_of
from roamlet.diagnose.model import Process
from roamlet.diagnose.outside import travelling


def see_on_hosts(options: argparse.Namespace, render: Render) -> int:
    """see() for checked options that name hosts. Raises UsageError."""
    out = sys.stdout
    host, pid = host_and_pid(options)
    request: dict[str, Any] = {"pid": pid, "name": options.name, "locals": options.locals}
    words = options.hosts if host is None else [host]
    inventory = inventory_of(options)
    targets = targets_of(words, options, inventory)
    look, sources = travelling.function(), travelling.sources()
    progress = Progress(len(targets), sys.stderr)
    lines = Lines(progress)
    failed = False

    def text(found: list[dict[str, Any]]) -> str:
        parts = []
        for each in found:
            try:
                shown = (
                    render(Process.from_json(each["tree"]), None) if "tree" in each else f"not read: {each['error']}"
                )
            except ValueError as error:
                shown = f"not read: {error}"
            parts.append(shown.rstrip("\n"))
        if refused(found):
            return "\n".join(str(each["error"]) for each in found)
        return "\n" + "\n\n".join(parts) if parts else "no such process that may be looked at uses roamlet"

    def refused(found: list[dict[str, Any]]) -> bool:
        return pid is not None and all("error" in each for each in found)

    style = Style(text, lambda found: {"processes": found}, as_json=options.json, failed=refused)
    with hops(options, inventory) as way:

        def work(target: Host) -> Any:
            nonlocal failed
            with progress.through(target.name, way.opened(target, lines)) as context:
                found = context.call(look, (sources, request), timeout=options.timeout)
            failed = failed or not found or any("error" in each for each in found)
            return found

        status = carry_out(targets, work, out, style, options.at_once, progress, lines)
    return status or (FAILED if failed else 0)
