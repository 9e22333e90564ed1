"""Commands that mend a server's firewall, for the chains that it has: what each diagnosis of one proposes. Pure."""

from collections.abc import Iterable, Sequence

from roamlet_vpn.model.measured import Chain, Measurements
from roamlet_vpn.model.network import Lan, Site

KEPT = "the rules of a firewall are gone after a restart unless they are kept: in its own files, or as PostUp lines of the tunnel"
WAYS = {"input": "i", "output": "o", "forward": "io"}  # in, out: how packets at a hook go by a device


def accepting(measurements: Measurements, site: Site, hook: str, devices: Iterable[str], why: str) -> tuple[str, ...]:
    """Steps that put rules at the start of each chain of the hook that drops: what goes by these devices is accepted.

    Where it is not known which chains there are, those of iptables are meant, as most firewalls have them.
    """
    devices = tuple(dict.fromkeys(devices))
    commands = [
        _inserted(chain, f"-{way} {device}" if chain.tool == "iptables" else f"{way}ifname {device}")
        for chain in _chains(measurements, site, Chain("iptables", "ip", "filter", hook.upper(), hook, True, False))
        for device in devices
        for way in WAYS[hook]
    ]
    return _steps(commands, site, why)


def forwarding(measurements: Measurements, site: Site, tunnels: Iterable[str]) -> tuple[str, ...]:
    """Steps that have a server's firewall pass packets on between the tunnel and its LAN, in both directions."""
    why = (
        "let its firewall forward them, ahead of what drops them (Docker, for one, sets the policy of FORWARD to DROP)"
    )
    return accepting(measurements, site, "forward", tunnels, why)


def not_rewriting(
    measurements: Measurements, site: Site, pairs: Iterable[tuple[Lan, Lan]], why: str
) -> tuple[str, ...]:
    """Steps that except what goes from one network of a pair to the other from the rules that rewrite sources."""
    chains = _chains(measurements, site, Chain("iptables", "ip", "nat", "POSTROUTING", "postrouting", False, True))
    commands = [
        _inserted(chain, f"-s {source} -d {to}" if chain.tool == "iptables" else f"ip saddr {source} ip daddr {to}")
        for source, to in pairs
        for chain in chains
    ]
    return _steps(commands, site, why)


def _chains(measurements: Measurements, site: Site, usual: Chain) -> Sequence[Chain]:
    """The chains of IPv4 that do at its hook what `usual` does; that one where no other is known."""
    measured = measurements.sites.get(site.name)
    found = [
        chain
        for chain in (measured.firewall or () if measured is not None else ())
        if chain.hook == usual.hook and (chain.drops if usual.drops else chain.rewrites)
        if chain.family != "ip6" and chain.tool != "ip6tables"
    ]
    return tuple(dict.fromkeys(found)) or (usual,)


def _steps(commands: Sequence[str], site: Site, why: str) -> tuple[str, ...]:
    runs = [f"on {site.server}: `{command}`" for command in commands]
    return (f"{why}: {runs[0]}", *runs[1:], KEPT) if runs else ()


def _inserted(chain: Chain, match: str) -> str:
    if chain.tool == "nft":
        return f"nft insert rule {chain.family} {chain.table} {chain.name} {match} accept"
    table = "" if chain.table == "filter" else f"-t {chain.table} "
    return f"{chain.tool} {table}-I {chain.name} {match} -j ACCEPT"
