"""Plans and states for people to read. Decides nothing."""

from collections.abc import Mapping, Sequence
from typing import IO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from roamlet_clock.actions import Put, diff
from roamlet_clock.plan import Plan
from roamlet_clock.status import Status
from roamlet_clock.times import ago, when

STYLES = {"+": "green", "-": "red", "@": "dim"}
WIDTH = 120  # where the output is no terminal


def print_plans(plans: Mapping[str, Plan], out: IO[str], *, empty: str) -> None:
    """What would be done on each host, and why nothing on some; `empty` is what is said of a host with nothing to do."""
    console = Console(file=out, highlight=False, soft_wrap=True, width=None if out.isatty() else WIDTH)
    for host, plan in plans.items():
        line = Text(host, style="bold")
        if plan.refusal is None and not plan.actions:
            line.append(f"  {empty}", style="green")
        console.print(line)
        if plan.refusal is not None:
            console.print(Text(f"  ! {plan.refusal}", style="red"))
        for action in plan.actions:
            console.print(Text(f"  * {action.describe()}"))
            for changed in diff(action) if isinstance(action, Put) else ():
                console.print(Text(f"      {changed}".rstrip(), style=STYLES.get(changed[:1], "")))
        for note in plan.notes:
            console.print(Text(f"  i {note}", style="cyan"))


def print_failed(failed: Mapping[str, str], what: str, out: IO[str]) -> None:
    """The hosts of which nothing is known, and why; `what` is the short word for it."""
    console = Console(file=out, highlight=False, soft_wrap=True, width=None if out.isatty() else WIDTH)
    for host, why in failed.items():
        console.print(Text(host, style="bold").append(f"  {what}", style="red"))
        console.print(Text("\n".join(f"    {line}" for line in why.splitlines())))


def print_status(states: Sequence[Status], out: IO[str]) -> None:
    """A table of all hosts, and below it what is wrong with some."""
    console = Console(file=out, highlight=False, soft_wrap=False, width=None if out.isatty() else WIDTH)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("host", "hardware clock", "synchronised", "last stamp", "units", "a boot now would set"):
        table.add_column(name, overflow="fold")
    for one in states:
        if one.error is not None:
            table.add_row(Text(one.host), Text("not known" if one.reached else "out of reach", style="red"))
            continue
        table.add_row(
            Text(one.host),
            Text(_rtc(one)),
            Text({True: "yes", False: "no", None: "unknown"}[one.synchronised]),
            Text(_stamp(one)),
            Text(_units(one)),
            Text("nothing" if one.next_boot is None else f"{when(one.next_boot)}\nby {one.next_boot_by}"),
        )
    with console.capture() as drawn:
        console.print(table)
    out.writelines(f"{line.rstrip()}\n" for line in drawn.get().splitlines())
    for one in states:
        lines = one.error.splitlines() if one.error is not None else [f"! {said}" for said in one.wrong]
        lines += [f"i {said}" for said in one.aside]
        if lines:
            console.print()
            console.print(Text(one.host, style="bold"))
            for line in lines:
                console.print(Text(f"  {line}", style="" if line.startswith("i ") else "red"), soft_wrap=True)


def _rtc(one: Status) -> str:
    if one.rtc is None:
        return "none"
    return one.rtc if one.rtc_time is None else f"{one.rtc}\n{when(one.rtc_time)}"


def _stamp(one: Status) -> str:
    if one.stamp is None:
        return one.stamp_why or "none"
    return f"{when(one.stamp)}\n{ago(one.age or 0.0)}"


def _units(one: Status) -> str:
    return "\n".join(f"{name}: {said}" for name, said in (one.units or {}).items()) or "none"
