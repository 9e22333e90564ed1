"""What plan, apply, add, remove, rotate, down and gateway do at the command line: they ask, call and print; no decision here."""

import argparse
import json
import sys
from dataclasses import replace
from typing import Any

from roamlet_vpn.backends import backend_of
from roamlet_vpn.commands import lifecycle
from roamlet_vpn.commands.apply import Survey, take_survey
from roamlet_vpn.commands.apply import apply as apply_plan
from roamlet_vpn.commands.gateways import FORMS
from roamlet_vpn.commands.init import site_values
from roamlet_vpn.commands.session import asked, network_of, opened, sudo_password
from roamlet_vpn.commands.transaction import ROLLBACK_AFTER, Report
from roamlet_vpn.errors import VpnError, shown
from roamlet_vpn.model.edit import changed_in_file, with_changes, with_site, without_site
from roamlet_vpn.model.file import parse
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.planning.plan import Plan
from roamlet_vpn.planning.show import plain_plan, print_plan
from roamlet_vpn.servers import Servers


def plan(options: argparse.Namespace) -> int:
    """`roamlet vpn plan`: 0 nothing to do, 1 refused or not all reached, 2 there is a difference."""
    with opened(options) as (network, servers):
        found = take_survey(network, servers).plan
    if options.json:
        print(json.dumps(plain_plan(found), indent=2))
    else:
        print_plan(found, network, sys.stdout, file=str(options.file))
    return found.exit_code


def apply(options: argparse.Namespace) -> int:
    """`roamlet vpn apply`: shows the plan, asks, does it. Exit code of Report."""
    with opened(options) as (network, servers):
        return _apply(options, network, servers, _file_writer(options))


def add(options: argparse.Namespace) -> int:
    """`roamlet vpn add`: looks around on the server, puts the site into the file, and applies."""
    before = network_of(options)  # so that what is wrong with it already is said first
    options.password = sudo_password(options, [*before.sites, Site("", "", sudo=options.sudo)])
    name, values = site_values(options, options.site, before)
    text = with_site(options.file.read_text("utf-8-sig"), name, values)
    network = replace(parse(text, str(options.file)), ssh_config=before.ssh_config)

    def write(found: Plan) -> None:
        changed_in_file(options.file, lambda old: with_changes(with_site(old, name, values), found.file_changes))

    with Servers(network, password=options.password) as servers:
        return _apply(options, network, servers, write)


def remove(options: argparse.Namespace) -> int:
    """`roamlet vpn remove`: the others forget the site, its own interface goes, and so does its table in the file."""
    with opened(options) as (network, servers):
        name = _known(network, options.site)
        asked(options, f"Take {name} out of the network, here and on every server?")
        report = lifecycle.remove(network, servers, name, partial=options.partial, **_more(options))
        if report.failure is None:  # else it was rolled back, and the file is right as it is
            changed_in_file(options.file, lambda old: without_site(old, name))
        return _reported(report)


def rotate(options: argparse.Namespace) -> int:
    """`roamlet vpn rotate`: new keys for these sites."""
    with opened(options) as (network, servers):
        names = [_known(network, name) for name in options.sites]
        asked(options, f"Give {', '.join(names)} a new key? Tunnels to it are silent for a moment.")
        return _reported(lifecycle.rotate(network, servers, names, **_more(options)))


def down(options: argparse.Namespace) -> int:
    """`roamlet vpn down`: the tunnels go; the file stays as it is."""
    with opened(options) as (network, servers):
        meant = replace(network, backend=options.backend or network.backend)
        what = backend_of(meant).tunnels(network)
        asked(options, f"Take {what} down on {', '.join(site.name for site in network.sites)}?")
        report = lifecycle.down(
            meant, servers, keep_config=options.keep_config, partial=options.partial, **_more(options)
        )
        return _reported(report)


def gateway(options: argparse.Namespace) -> int:
    """`roamlet vpn gateway`: prints, without touching anything."""
    network = network_of(options).with_addresses()
    names = [_known(network, name) for name in options.sites] or [site.name for site in network.sites]
    print("\n\n".join(FORMS[options.form](network, network.site(name)) for name in names))
    return 0


# ---- what they share


def _known(network: Network, name: str) -> str:
    names = [site.name for site in network.sites]
    if name not in names:
        raise VpnError(f"there is no site {name!r}; the file has {', '.join(names)}")
    return name


def _apply(options: argparse.Namespace, network: Network, servers: Servers, write: "Any") -> int:
    survey: Survey = take_survey(network, servers)
    print_plan(survey.plan, network, sys.stdout, file=str(options.file))
    stuck = survey.plan.refusals or (survey.plan.unreachable and not (options.partial and survey.facts))
    if stuck:
        return survey.plan.exit_code
    if survey.plan.empty:
        write(survey.plan)
        return 0 if not survey.plan.unreachable else 3
    asked(options, "Apply this?")
    report = apply_plan(network, servers, survey=survey, partial=options.partial, before=write, **_more(options))
    return _reported(report)


def _file_writer(options: argparse.Namespace) -> "Any":
    def write(found: Plan) -> None:
        if found.file_changes:
            changed_in_file(options.file, lambda old: with_changes(old, found.file_changes))

    return write


def _more(options: argparse.Namespace) -> dict[str, Any]:
    seconds = options.rollback_after
    return {"rollback_after": ROLLBACK_AFTER if seconds is None else seconds, "say": _say}


def _say(line: str) -> None:
    print(shown(line), file=sys.stderr, flush=True)


def _reported(report: Report) -> int:
    print(shown("\n".join(report.lines())))
    return report.exit_code
