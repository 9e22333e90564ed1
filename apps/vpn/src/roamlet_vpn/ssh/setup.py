"""The ssh backend: tunnels of OpenSSH (`ssh -w`) between servers that run it already, to begin with and to leave for WireGuard.

Which site calls which, by which tun devices, and what each server has for that; pure. ssh/files.py has the texts, ssh/plan.py
compares them with what is there. Slower than WireGuard by far, and slow on a line that loses packets: TCP runs inside of TCP.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.planning.actions import MADE_BY_APPLY
from roamlet_vpn.ssh.files import SSHD, accept_script, allowed_key, call_script, unit
from roamlet_vpn.ssh.links import End, end_of, links


@dataclass(frozen=True)
class Identity:
    """How a server is known to others: the key that it calls with, None when apply makes it, and those that its sshd shows."""

    key: str | None
    host_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setup:
    """All that one server should have: its ends of tunnels, and the texts of files by the names that host/tunnel.py knows."""

    ends: tuple[End, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def setup(network: Network, site: Site, identities: Mapping[str, Identity], systemd: bool) -> Setup:
    """What the site's server should have. A tunnel to a peer that is not among `identities` is left out: its keys are not known.

    The network's sites must have addresses. Raises SshBackendError as links() does.
    """
    own = [link for link in links(network) if site in (link.caller, link.callee)]
    own = [link for link in own if {link.caller.name, link.callee.name} <= {*identities, site.name}]
    calls = [link for link in own if link.caller == site]
    accepts = [link for link in own if link.callee == site]
    ends = [end_of(network, site, link) for link in own]
    files = {}
    for link, end in zip(own, ends, strict=True):
        files[end.name] = accept_script(end)
        if end.calls:
            assert link.callee.endpoint is not None
            files[end.name] = call_script(end, link.callee_device, link.callee.endpoint.host)
        if systemd:
            files[f"{end.name}.service"] = unit(end)
    if calls:
        files["known_hosts"] = "".join(
            f"{link.callee.name} {key}\n" for link in calls for key in identities[link.callee.name].host_keys
        )
    if accepts:
        files["authorized_keys"] = "".join(
            allowed_key(link.callee_device, identities[link.caller.name].key or MADE_BY_APPLY) for link in accepts
        )
        files["sshd"] = SSHD
    return Setup(tuple(ends), files)
