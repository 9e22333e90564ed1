"""What status, check and picture do at the command line: they connect, ask and print. They change and judge nothing."""

import argparse
import ipaddress
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import IO, Any

from rich.console import Console, RenderableType
from rich.live import Live

from roamlet.cli import UsageError
from roamlet_vpn.check import status as statuses
from roamlet_vpn.check.checked import BROKEN, OUT_OF_REACH, Checked
from roamlet_vpn.check.diagnose import diagnose
from roamlet_vpn.check.picture import picture
from roamlet_vpn.check.probes import measure
from roamlet_vpn.check.throughput import Throughput, throughput
from roamlet_vpn.commands.session import opened
from roamlet_vpn.commands.tables import check_report, status_table
from roamlet_vpn.errors import VpnError
from roamlet_vpn.host.check import counters
from roamlet_vpn.model.diagnosis import Diagnosis
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import Counters, Measurements
from roamlet_vpn.model.network import Address, Network
from roamlet_vpn.model.status import SiteStatus
from roamlet_vpn.model.untrusted import FactsError, Untrusted
from roamlet_vpn.servers import Servers

UNWRAPPED = 10_000  # columns


def status(options: argparse.Namespace) -> int:
    """`roamlet vpn status`: 0 every tunnel is well, 1 one is not, 3 a server could not be asked and the others are well."""
    with _opened(options) as (network, servers):
        watching = statuses.Watching(network, servers)
        if options.watch is None:
            found = watching.update()
            _print(statuses.plain(found) if options.json else status_table(network, found))
        else:
            found = ()
            with _screen(options.json) as show:
                for found in watching.updates(options.watch):
                    show(statuses.plain(found) if options.json else status_table(network, found))
        return status_code(found)


def status_code(found: tuple[SiteStatus, ...]) -> int:
    """The exit code of what was found."""
    reached = tuple(one for one in found if one.reached)
    if not statuses.is_well(reached):
        return BROKEN
    return 0 if len(reached) == len(found) else OUT_OF_REACH


def check(options: argparse.Namespace) -> int:
    """`roamlet vpn check`: see Checked.exit_code."""
    asked = clients(options.client)
    with _opened(options) as (network, servers):
        unknown = set(asked) - {site.name for site in network.sites}
        if unknown:
            raise VpnError(f"--client {min(unknown)}=...: there is no such site in {options.file}")
        if options.watch is not None:
            with _screen(options.json) as show:
                while True:
                    began = time.monotonic()
                    found = run_check(network, servers, asked)
                    show(found.plain() if options.json else check_report(network, found))
                    time.sleep(max(0.0, began + options.watch - time.monotonic()))
        found = run_check(network, servers, asked, options.seconds if options.throughput else None)
        _print(found.plain() if options.json else check_report(network, found))
        if options.svg is not None:
            _write(options.svg, picture(network, found.tunnels(), found.diagnoses))
        return found.exit_code


def run_check(
    network: Network, servers: Servers, asked: dict[str, tuple[Address, ...]], seconds: float | None = None
) -> Checked:
    """One check, with the throughput of each way for so many seconds if they are given. Blocks for a few seconds and for those."""
    watching = statuses.Watching(network, servers)
    watching.update()
    measurements = measure(network, dict(watching.facts), servers, asked)
    throughputs: tuple[Throughput, ...] = ()
    if seconds is not None:
        throughputs = tuple(throughput(network, servers, seconds, _say))
        measurements = _under_load(watching.facts, servers, measurements)
    # Asked again: what was sent has made handshakes, and shows keys, endpoints and rates as they are now.
    found = watching.update()
    failed = {one.site: one.error for one in found if one.error is not None and one.site not in watching.facts}
    measurements = replace(measurements, unreachable={**failed, **measurements.unreachable})
    return Checked(network, found, measurements, diagnose(network, watching.facts, measurements), throughputs)


def _under_load(facts: dict[str, Facts], servers: Servers, measurements: Measurements) -> Measurements:
    """The same with the counters as they are now: what was dropped meanwhile counts."""
    sites = dict(measurements.sites)
    ports = {name: one.interface.listen_port if one.interface is not None else None for name, one in facts.items()}
    arguments = {name: (ports.get(name),) for name in sites}
    for name, answer in servers.each(counters.counters, arguments).items():
        try:
            after = Untrusted(answer.value, f"the counters of {name}").read(Counters)
        except FactsError:
            continue  # what was measured before it stays
        sites[name] = replace(sites[name], after=after)
    return replace(measurements, sites=sites)


def _say(line: str) -> None:
    Console(stderr=True).print(line, style="dim", highlight=False)


def draw(options: argparse.Namespace) -> int:
    """`roamlet vpn picture`: writes the SVG, with what a check finds, or from the file alone. Exit code as check's."""
    with _opened(options) as (network, servers):
        if options.offline:
            _write(options.output, picture(network))
            sys.stdout.write(f"drawn to {options.output}\n")
            return 0
        found = run_check(network, servers, {})
        _write(options.output, picture(network, found.tunnels(), found.diagnoses))
        sys.stdout.write(f"drawn to {options.output}: {_summary(found.diagnoses)}\n")
        return found.exit_code


def _summary(diagnoses: tuple[Diagnosis, ...]) -> str:
    """What the exit code is about, in a line."""
    if not diagnoses:
        return "nothing is wrong"
    names = ", ".join(dict.fromkeys(f"{one.severity}: {one.name}" for one in diagnoses))
    return f"{names}; `roamlet vpn check` says what to do"


def clients(words: Iterable[str]) -> dict[str, tuple[Address, ...]]:
    """SITE=ADDRESS of the command line, by site. Raises VpnError."""
    found: dict[str, tuple[Address, ...]] = {}
    for word in words:
        site, _, text = word.partition("=")
        try:
            found[site] = (*found.get(site, ()), ipaddress.ip_address(text))
        except ValueError:
            raise UsageError(f"--client {word}: write SITE=ADDRESS, such as --client alpha=192.168.10.50") from None
    return found


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[tuple[Network, Servers]]:
    """As for every command, and each site has its address."""
    with opened(options) as (network, servers):
        yield network.with_addresses(), servers


@contextmanager
def _screen(as_json: bool) -> Iterator[Callable[[Any], None]]:
    """Shows one thing after the other: on a terminal in the same place, else, and as JSON, below each other."""
    if as_json or not sys.stdout.isatty():
        yield partial(_print, one_line=True)
        return
    with Live(auto_refresh=False, screen=False) as live:
        yield partial(live.update, refresh=True)


def _print(what: "RenderableType | dict[str, Any]", one_line: bool = False) -> None:
    if isinstance(what, dict):
        sys.stdout.write(json.dumps(what, indent=None if one_line else 2) + "\n")
        sys.stdout.flush()
    else:
        print_text(what, sys.stdout)


def print_text(what: RenderableType, out: IO[str]) -> None:
    """On a terminal as wide as that is; elsewhere no line is wrapped or padded, so that others can search it and cut it up."""
    if out.isatty():
        Console(file=out, highlight=False).print(what)
        return
    wide = StringIO()
    Console(file=wide, width=UNWRAPPED, highlight=False, color_system=None).print(what)
    out.writelines(f"{line.rstrip()}\n" for line in wide.getvalue().splitlines())


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise VpnError(f"the picture could not be written to {path}: {error.strerror}") from None
