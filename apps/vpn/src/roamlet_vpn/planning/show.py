"""A plan for people to read, and as plain values for programs. Decides nothing."""

import json
from typing import IO, Any

from rich.console import Console
from rich.text import Text

from roamlet_vpn.errors import shown
from roamlet_vpn.model.network import Network
from roamlet_vpn.planning.actions import Action, MakeKey
from roamlet_vpn.planning.plan import Plan

STYLES = {"+": "green", "-": "red", "~": "yellow", "@": "dim"}
WIDTH = 120  # where the output is no terminal


def print_plan(plan: Plan, network: Network, out: IO[str], *, file: str = "network.toml") -> None:
    """The plan site by site, as a diff of what would change where, and in one line at the end what to do next."""
    console = Console(file=out, highlight=False, soft_wrap=True, width=None if out.isatty() else WIDTH)
    unreachable = plan.unreachable or {}
    for site in network.sites:
        line = Text(site.name, style="bold")
        line.append(f"  {site.server}", style="dim")
        if site.name in unreachable:
            line.append("  out of reach", style="red")
        elif not plan.sites.get(site.name) and not any(refusal.site == site.name for refusal in plan.refusals):
            if any(note.wrong for note in plan.notes if note.site == site.name):
                line.append("  nothing to change, and not well", style="yellow")
            else:
                line.append("  as it should be", style="green")
        console.print(line)
        if site.name in unreachable:
            console.print(Text(shown("\n".join(f"    {said}" for said in unreachable[site.name].splitlines()))))
        for refusal in (one for one in plan.refusals if one.site == site.name):
            console.print(Text(shown(f"  ! {refusal.message}"), style="red"))
        for action in plan.sites.get(site.name, ()):
            _print_action(console, action)
        for note in (one for one in plan.notes if one.site == site.name):
            console.print(
                Text(shown(f"  {'!' if note.wrong else 'i'} {note.message}"), style="yellow" if note.wrong else "cyan")
            )
    if plan.file_changes:
        console.print(Text(file, style="bold"))
        for change in plan.file_changes:
            console.print(Text(f"  + [sites.{change.site}] {change.key} = {json.dumps(change.value)}", style="green"))
    console.print()
    console.print(_verdict(plan))


def _print_action(console: Console, action: Action) -> None:
    console.print(Text(shown(f"  * {action.repairs}: ")).append(action.describe(), style="bold"))
    for line in action.details():
        console.print(Text(shown(f"      {line}".rstrip()), style=STYLES.get(line[:1], "")))


def _verdict(plan: Plan) -> str:
    count = sum(len(actions) for actions in plan.sites.values())
    servers = sum(1 for actions in plan.sites.values() if actions)
    changes = f"{_counted(count, 'change')} on {servers} of {_counted(len(plan.sites), 'server')}"
    if plan.refusals:
        return (
            f"{_counted(len(plan.refusals), 'reason')} to change nothing: see the lines with !. Planned were {changes}."
        )
    if plan.unreachable:
        away = ", ".join(plan.unreachable)
        return f"{changes}; {away} could not be reached. `roamlet vpn apply --partial` leaves {away} as it is."
    wrong = [note for note in plan.notes if note.wrong]
    if plan.empty and wrong:
        verb = "is" if len(wrong) == 1 else "are"
        return (
            f"Nothing that apply would change; but {_counted(len(wrong), 'line')} with ! {verb} to be mended by hand."
        )
    if plan.empty:
        return "Nothing to do: every server is as the file says."
    if not count:
        return "The servers are as they should be; `roamlet vpn apply` writes the addresses into the file."
    keys = any(isinstance(action, MakeKey) for actions in plan.sites.values() for action in actions)
    return f"{changes}. `roamlet vpn apply` makes them" + (", the keys first." if keys else ".")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def plain_plan(plan: Plan) -> dict[str, Any]:
    """The plan as what JSON can say. Keys that are private are in no plan."""
    return {
        "exit_code": plan.exit_code,
        "empty": plan.empty,
        "sites": {name: [_plain_action(action) for action in actions] for name, actions in plan.sites.items()},
        "refusals": [{"site": one.site, "message": one.message} for one in plan.refusals],
        "notes": [{"site": one.site, "message": one.message, "wrong": one.wrong} for one in plan.notes],
        "unreachable": dict(plan.unreachable or {}),
        "file_changes": [{"site": one.site, "key": one.key, "value": one.value} for one in plan.file_changes],
    }


def _plain_action(action: Action) -> dict[str, Any]:
    found: dict[str, Any] = {"repairs": action.repairs, "action": action.describe()}
    details = list(action.details())
    if details:
        found["details"] = details
    return found
