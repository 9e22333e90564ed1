"""What the commands of `roamlet clock` do: they open hosts, ask, call and print. What is to be done on a host, plan.py decides."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping

from roamlet.cli.targets import Reached, hosts_of, message_of, reached
from roamlet.remote import ConnectError, Context, Result
from roamlet_clock import units
from roamlet_clock.apply import Done, carry_out, each, look
from roamlet_clock.errors import ClockError
from roamlet_clock.facts import Facts
from roamlet_clock.plan import Plan, plan_install, plan_remove, plan_tick
from roamlet_clock.show import print_failed, print_plans, print_status
from roamlet_clock.status import Status, plain
from roamlet_clock.status import status as status_of

FAILED, DIFFERENT, UNREACHABLE = 1, 2, 3  # exit codes


def install(options: argparse.Namespace) -> int:
    """`roamlet clock install`: shows what is to be done, asks, and does it."""
    return _change(options, plan_install, "Install this?", "as it should be")


def remove(options: argparse.Namespace) -> int:
    """`roamlet clock remove`: the same, backwards."""
    return _change(options, plan_remove, "Remove this? The stamps go, too.", "nothing of it is there")


def status(options: argparse.Namespace) -> int:
    """`roamlet clock status`: a table, or one JSON object; 0 when all hosts are well."""
    hosts = hosts_of(options)
    with reached(hosts, options) as open_hosts:
        facts = each(open_hosts.contexts, look)
    states = []
    for host in hosts:
        answer: Result[Facts] = facts.get(host.name) or Result(host.name, error=open_hosts.failed[host.name])
        why = None if answer.error is None else message_of(answer.error)
        was_reached = host.name in open_hosts.contexts
        states.append(status_of(host.name, answer.get()) if why is None else Status(host.name, why, was_reached))
    if options.json:
        print(json.dumps({"hosts": [plain(one) for one in states]}, ensure_ascii=False))
    else:
        print_status(states, sys.stdout)
    if all(one.well for one in states):
        return 0
    wrong = any(one.reached and not one.well for one in states)
    return FAILED if wrong else _of_unreachable(open_hosts)


def tick(options: argparse.Namespace) -> int:
    """`roamlet clock tick`: has each host write its stamp now."""
    with reached(hosts_of(options), options) as open_hosts:
        ticks = each(open_hosts.contexts, _ticked)
    code = _told(open_hosts, ticks, "ticked")
    _print_unreachable(open_hosts)
    return code


def script(options: argparse.Namespace) -> int:
    """`roamlet clock script`: prints what install puts on a host."""
    sys.stdout.write(next(file.text for file in units.installed_files(True) if file.path == units.PROGRAM))
    return 0


# ---- what they share


def _ticked(name: str, context: Context) -> Done:
    plan = plan_tick(look(name, context))
    if plan.refusal is not None:
        raise ClockError(plan.refusal)
    return carry_out(context, plan.actions)


def _change(options: argparse.Namespace, planned: Callable[[Facts], Plan], question: str, empty: str) -> int:
    with reached(hosts_of(options), options) as open_hosts:
        facts = each(open_hosts.contexts, look)
        plans = {name: planned(answer.get()) for name, answer in facts.items() if answer.error is None}
        failed = {name: message_of(answer.error) for name, answer in facts.items() if answer.error is not None}
        print_plans(plans, sys.stdout, empty=empty)
        print_failed(failed, "FAILED", sys.stdout)
        _print_unreachable(open_hosts)
        todo = {name: plan.actions for name, plan in plans.items() if plan.actions}
        refused = any(plan.refusal is not None for plan in plans.values())
        wrong = refused or bool(failed)
        if options.dry_run or not todo:
            return FAILED if wrong else DIFFERENT if todo else _of_unreachable(open_hosts)
        _ask(options, question)
        contexts = {name: open_hosts.contexts[name] for name in todo}
        done = each(contexts, lambda name, context: carry_out(context, todo[name]))
        print()
        code = _told(open_hosts, done, "done")
        return FAILED if wrong else code


def _told(open_hosts: Reached, answers: Mapping[str, Result[Done]], word: str) -> int:
    """Print how it went on each host, and return the exit code."""
    for name, answer in answers.items():
        if answer.error is not None:
            said = f"FAILED: {message_of(answer.error)}"
        else:
            said = "\n".join([word, *answer.get().said])
        # Every line after the first is indented, so that a host's text cannot look like the report of another host.
        print("\n    ".join(f"{name}: {said}".splitlines()))
    if any(answer.error is not None for answer in answers.values()):
        return FAILED
    return _of_unreachable(open_hosts)


def _print_unreachable(open_hosts: Reached) -> None:
    print_failed({name: message_of(error) for name, error in open_hosts.failed.items()}, "out of reach", sys.stdout)


def _of_unreachable(open_hosts: Reached) -> int:
    if not open_hosts.failed:
        return 0
    return UNREACHABLE if all(isinstance(error, ConnectError) for error in open_hosts.failed.values()) else FAILED


def _ask(options: argparse.Namespace, question: str) -> None:
    """Return after a yes, on the terminal or by --yes. Raises ClockError after anything else."""
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise ClockError("there is no terminal to ask on, and nothing was changed; say yes beforehand with --yes")
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        print()  # what comes next begins on a new line
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise ClockError("nothing was changed")
