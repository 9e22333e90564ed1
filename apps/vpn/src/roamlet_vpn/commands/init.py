"""`roamlet vpn init`: looks around on the servers, asks for what it cannot find, and writes network.toml. Changes no server."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from roamlet.cli import UsageError
from roamlet_vpn.commands.session import sudo_password
from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.discover import free_tunnel, host_of, networks_of, site_from, site_name
from roamlet_vpn.model.edit import Value, new_text, with_marks, write
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.file import NAME, NetworkFileError, parse
from roamlet_vpn.model.network import SERVER, Network, Site
from roamlet_vpn.servers import Servers, ssh_hostname
from roamlet_vpn.wireguard.adopt import adopted


def init(options: argparse.Namespace) -> int:
    """Returns the exit code. Raises VpnError where a server is out of reach, or where there is no terminal to ask on."""
    if options.file.exists():
        raise VpnError(
            f"there is a {options.file} already; `roamlet vpn add` takes a further site into it, -f names another file"
        )
    named = [_named(word) for word in options.servers]
    options.password = sudo_password(options, [Site("", "", sudo=options.sudo)])
    found = gathered_facts(options, named)
    if options.adopt:
        text, remarks = adopted(found, options.interface, _ssh_config(options))
        print("\n".join(remarks), file=sys.stderr)
    else:
        text = _text(options, found)
        for line in _would_be_changed(options.interface, found):
            print(line, file=sys.stderr)
    problems = _problems(text)
    text = with_marks(text, problems)
    write(options.file, text)
    print(text)
    if problems:
        marked = "a line that has" if len(problems) == 1 else f"{len(problems)} lines that have"
        print(f"Written to {options.file}, with {marked} to be corrected first: see the comments CORRECT THIS.")
        return 1
    print(f"Written to {options.file}. Look through it; `roamlet vpn plan` shows what it would change where.")
    return 0


def _problems(text: str) -> list[tuple[int, str]]:
    """What does not fit together in what was found and answered, by line: it is written all the same, and marked."""
    try:
        parse(text)
    except NetworkFileError as error:
        return [(problem.line, problem.message) for problem in error.problems]
    return []


def _would_be_changed(interface: str, found: Mapping[str, tuple[Site, Facts]]) -> Iterator[str]:
    """Tunnels that run, or wait, and that a network made from nothing would take the place of."""
    path = f"/etc/wireguard/{interface}.conf"
    for name, (_, facts) in found.items():
        if facts.interface is None and facts.config is None:
            continue
        running = facts.interface
        has = "is configured" if running is None else "runs"
        addresses = () if running is None else [str(one) for one in running.addresses if not one.ip.is_link_local]
        peers = 0 if running is None else len(running.peers)
        yield (
            f"{name}: {interface} {has} there already"
            + (f" with {', '.join(addresses)}" if addresses else f" in {path}")
            + (f" and {peers} peer{'' if peers == 1 else 's'}" if running is not None else "")
            + ": `roamlet vpn apply` of this file would renumber it and take its peers away. `roamlet vpn init --adopt` makes a "
            "file of it as it is; --interface names another one beside it"
        )


def site_values(options: argparse.Namespace, word: str, network: Network) -> tuple[str, dict[str, Value]]:
    """The name and the keys of one more site of the network, for `roamlet vpn add`."""
    options.interface = network.interface
    ((name, (site, facts)),) = gathered_facts(options, [_named(word)], network.ssh_config).items()
    return name, _asked(options, name, _values(site, facts, options.ssh_config or network.ssh_config))


def _named(word: str) -> tuple[str, str]:
    """SITE=SERVER, or a server alone, whose name is found later."""
    name, equals, server = word.partition("=")
    name, server = (name, server) if equals else ("", word)
    if (equals and not NAME.fullmatch(name)) or not SERVER.fullmatch(server):
        raise UsageError(f"{word!r} is no [SITE=]SERVER: write root@alpha.example.com, or alpha=root@alpha.example.com")
    return name, server


def gathered_facts(
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
    with Servers(network, password=options.password) as servers:
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
    found = site_from(facts, site.server, host_of(ssh_hostname(site.server, ssh_config)))
    way: dict[str, Value] = {"server": found.pop("server")}
    if site.sudo:
        way["sudo"] = True
    if site.via:
        way["via"] = site.via
    return way | found


def _asked(options: argparse.Namespace, name: str, values: dict[str, Value]) -> dict[str, Value]:
    """With the answers from the terminal in their place. Each answer is checked as a value of the file."""
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
