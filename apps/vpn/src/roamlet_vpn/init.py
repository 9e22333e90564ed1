"""`roamlet vpn init`: looks around on the servers, asks for what it cannot find, and writes network.toml. Changes no server."""

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from roamlet.cli import UsageError
from roamlet_vpn.discover import free_tunnel, host_of, networks_of, site_from, site_name
from roamlet_vpn.edit import Value, new_text, write
from roamlet_vpn.errors import VpnError
from roamlet_vpn.facts import Facts
from roamlet_vpn.file import NAME, NetworkFileError, parse
from roamlet_vpn.network import SERVER, Network, Site
from roamlet_vpn.servers import Servers

__all__ = ["init", "looked_around", "site_values"]


def init(options: argparse.Namespace) -> int:
    """Returns the exit code. Raises VpnError where a server is out of reach, or where nobody can be asked."""
    if options.file.exists():
        raise VpnError(
            f"there is a {options.file} already; `roamlet vpn add` takes a further site into it, -f names another file"
        )
    named = [_named(word) for word in options.servers]
    if options.adopt:
        # Inside: only this option needs it.
        from roamlet_vpn.adopt import adopted

        found = looked_around(options, named)
        text, remarks = adopted(found, options.interface, _ssh_config(options))
        print("\n".join(remarks), file=sys.stderr)
    else:
        text = _text(options, looked_around(options, named))
    parse(text, f"what would be in {options.file}")  # what does not fit together is better said now
    write(options.file, text)
    print(text)
    print(f"Written to {options.file}. Look through it; `roamlet vpn plan` shows what it would change where.")
    return 0


def site_values(options: argparse.Namespace, word: str, network: Network) -> tuple[str, dict[str, Value]]:
    """The name and the keys of one more site of the network, for `roamlet vpn add`."""
    options.interface = network.interface
    ((name, (site, facts)),) = looked_around(options, [_named(word)], network.ssh_config).items()
    return name, _asked(options, name, _values(site, facts, options.ssh_config or network.ssh_config))


def _named(word: str) -> tuple[str, str]:
    """SITE=SERVER, or a server alone, whose name is found later."""
    name, equals, server = word.partition("=")
    name, server = (name, server) if equals else ("", word)
    if (equals and not NAME.fullmatch(name)) or not SERVER.fullmatch(server):
        raise UsageError(f"{word!r} is no [SITE=]SERVER: write root@alpha.example.com, or alpha=root@alpha.example.com")
    return name, server


def looked_around(
    options: argparse.Namespace, named: Sequence[tuple[str, str]], ssh_config: str | None = None
) -> dict[str, tuple[Site, Facts]]:
    """The facts of these servers, by the names of their sites. Raises VpnError that names every server that cannot be reached."""
    sites = [
        Site(name or f"server-{number}", server, sudo=options.sudo, via=options.via)
        for number, (name, server) in enumerate(named, 1)
    ]
    network = Network(interface=options.interface, ssh_config=options.ssh_config or ssh_config, sites=tuple(sites))
    if len({site.name for site in sites}) < len(sites) or len({site.server for site in sites}) < len(sites):
        raise UsageError("each site and each server stands once: alpha=root@a.example.com beta=root@b.example.com")
    with Servers(network) as servers:
        servers.connect()
        answers = servers.facts()
    failed = [f"    {network.site(name).server}: {answer.error}" for name, answer in answers.items() if answer.error]
    if failed:
        raise VpnError("nothing was written, because not every server could be looked at:\n" + "\n".join(failed))
    found: dict[str, tuple[Site, Facts]] = {}
    for (given, _), site in zip(named, sites, strict=True):
        facts = answers[site.name].get()
        name = given or site_name(facts)
        if name in found:
            raise VpnError(
                f"two servers call themselves {name!r}; give the sites names: alpha={found[name][0].server} ..."
            )
        found[name] = (replace(site, name=name), facts)
    return found


def _text(options: argparse.Namespace, found: Mapping[str, tuple[Site, Facts]]) -> str:
    sites = {
        name: _asked(options, name, _values(site, facts, options.ssh_config)) for name, (site, facts) in found.items()
    }
    network: dict[str, Value] = {}
    taken = [lan for _, facts in found.values() for lan in networks_of(facts)]
    network["tunnel"] = options.tunnel or str(free_tunnel(taken))
    if options.interface != "wg0":
        network["interface"] = options.interface
    if options.hub:
        network |= {"topology": "hub", "hub": options.hub}
    network |= _ssh_config(options)
    return new_text(network, sites)


def _ssh_config(options: argparse.Namespace) -> dict[str, Value]:
    return {"ssh_config": str(Path(options.ssh_config).absolute())} if options.ssh_config else {}


def _values(site: Site, facts: Facts, ssh_config: str | None) -> dict[str, Value]:
    found = site_from(facts, site.server, host_of(_ssh_hostname(site.server, ssh_config)))
    way: dict[str, Value] = {"server": found.pop("server")}
    if site.sudo:
        way["sudo"] = True
    if site.via:
        way["via"] = site.via
    return way | found


def _ssh_hostname(server: str, ssh_config: str | None) -> str:
    """What ssh makes of a host that may be a name of its configuration; the host itself where it does not say."""
    match = SERVER.fullmatch(server)
    host = server if match is None else match["ip"] or match["host"]
    words = ["ssh", *(["-F", ssh_config] if ssh_config else []), "-G", "--", host]
    try:
        said = subprocess.run(
            words, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return host
    return next((line.partition(" ")[2] for line in said.splitlines() if line.startswith("hostname ")), host)


def _asked(options: argparse.Namespace, name: str, values: dict[str, Value]) -> dict[str, Value]:
    """With what somebody at the terminal says instead. Each answer is checked as a value of the file."""
    if options.yes:
        return values
    if not sys.stdin.isatty():
        raise VpnError("there is no terminal to ask on; take what is found with --yes, and correct the file afterwards")
    print(f"{name} ({values['server']})")
    for key, question in (("lans", "its LANs"), ("endpoint", "HOST:PORT by which the internet reaches it, - for none")):
        found = values.get(key, "-")
        shown = " ".join(found) if isinstance(found, list) else str(found)
        while True:
            try:
                answer = input(f"  {question} [{shown}]: ").strip() or shown
            except EOFError:
                raise VpnError("nothing was written, because there was no answer") from None
            words = answer.replace(",", " ").split()
            new = {**values, key: words if key == "lans" else answer}
            if answer == "-":
                del new[key]
            try:
                _check(name, new)
            except NetworkFileError as error:
                print("  " + "\n  ".join(problem.message for problem in error.problems))
                continue
            values = new
            break
    return values


def _check(name: str, values: Mapping[str, Value]) -> None:
    """Alone it is a network too. Where the LANs change, the address in them may have to: that is said for the whole file."""
    alone = {key: value for key, value in values.items() if key not in ("lan_address", "gateway")}
    parse(new_text({"tunnel": "100.64.0.0/24"}, {name: alone}))
