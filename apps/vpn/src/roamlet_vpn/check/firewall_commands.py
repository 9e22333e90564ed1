"""Commands that mend a server's firewall, for the chains that it has: what each diagnosis of one proposes. Pure."""

from collections.abc import Iterable, Iterator

from roamlet_vpn.model.measured import Chain, Measurements

__all__ = ["accepting", "not_rewriting", "runs"]

KEPT = "the rules of a firewall are gone after a restart unless they are kept: in its own files, or as PostUp lines of the tunnel"


def accepting(measurements: Measurements, site: str, hook: str, matches: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Commands that put rules which accept at the start of each chain of the hook that drops. `matches`: by iptables, and by nft.

    Where it is not known which chains there are, those of iptables are meant, as most firewalls have them.
    """
    matches = tuple(matches)
    found = [chain for chain in _chains(measurements, site) if chain.hook == hook and chain.drops]
    found = [chain for chain in found if chain.family != "ip6" and chain.tool != "ip6tables"]
    meant = found or [Chain("iptables", "ip", "filter", hook.upper(), hook, True, False)]
    return tuple(
        _inserted(chain, iptables if chain.tool == "iptables" else nft)
        for chain in dict.fromkeys(meant)
        for iptables, nft in matches
    )


def not_rewriting(measurements: Measurements, site: str, source: str, to: str) -> tuple[str, ...]:
    """Commands that except what goes from one network to another from the rules that rewrite sources."""
    found = [chain for chain in _chains(measurements, site) if chain.hook == "postrouting" and chain.rewrites]
    found = [chain for chain in found if chain.family != "ip6"]
    meant = found or [Chain("iptables", "ip", "nat", "POSTROUTING", "postrouting", False, True)]
    return tuple(
        _inserted(
            chain,
            f"-s {source} -d {to}" if chain.tool == "iptables" else f"ip saddr {source} ip daddr {to}",
        )
        for chain in meant
    )


def runs(commands: Iterable[str], server: str, why: str) -> tuple[str, ...]:
    """Steps that say to run these commands on a server."""
    steps: Iterator[str] = (f"on {server}: `{command}`" for command in commands)
    first = next(steps)
    return (f"{why}: {first}", *steps, KEPT)


def _chains(measurements: Measurements, site: str) -> tuple[Chain, ...]:
    measured = measurements.sites.get(site)
    return () if measured is None or measured.firewall is None else measured.firewall


def _inserted(chain: Chain, match: str) -> str:
    if chain.tool == "nft":
        return f"nft insert rule {chain.family} {chain.table} {chain.name} {match} accept"
    table = "" if chain.table == "filter" else f"-t {chain.table} "
    return f"{chain.tool} {table}-I {chain.name} {match} -j ACCEPT"
