"""The plan of a network of ssh tunnels: from what it should be and what its servers say, to what must be done on each. Pure.

As for WireGuard (wireguard/plan.py), a plan that was carried out leaves nothing to do.
"""

from collections.abc import Iterator, Mapping

from roamlet_vpn.host.tunnel import FOLDER, USER
from roamlet_vpn.host.tunnel import KEY as KEY_FILE
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Lan, Network, Site
from roamlet_vpn.model.ssh_facts import KEY, SshDevice, SshEnd, SshFacts
from roamlet_vpn.model.untrusted import FactsError
from roamlet_vpn.planning.actions import Action
from roamlet_vpn.planning.plan import Note, Plan, Refusal, forwarding_actions, given_addresses
from roamlet_vpn.planning.refusals import missing_tools, no_root, ranges_in_the_way
from roamlet_vpn.ssh.actions import (
    MakeIdentity,
    RemoveDevice,
    RemoveTunnel,
    RunTunnel,
    TunnelDevice,
    TunnelFile,
    TunnelUser,
    UseIdentity,
)
from roamlet_vpn.ssh.files import METRIC, QUEUE, allowed_key
from roamlet_vpn.ssh.links import End
from roamlet_vpn.ssh.setup import Identity, Setup, setup

NEEDED = ("ssh", "devices", "routes")
TOOLS = {"ssh": "openssh-client", "ssh-keygen": "openssh-client", "ip": "iproute2", "useradd": "passwd"}
RUNNING = ("active", "activating", "reloading")  # a unit that waits for its next start is activating
KERNEL = ("kernel", "ra")  # the protocols of routes that were not configured


def make_ssh_plan(
    network: Network, facts: Mapping[str, Facts], keys: Mapping[str, str], unreachable: Mapping[str, str]
) -> Plan:
    """As plan.make_plan; `keys` are public keys of ssh. Raises SshBackendError for a network that tunnels cannot join."""
    for name, key in keys.items():
        if not KEY.fullmatch(key):
            raise FactsError(f"{name}: {key!r:.80} is no public key of ssh: what its server sent is not believed")
    file_changes = given_addresses(network)
    network = network.with_addresses()
    identities = ssh_identities(network, facts, keys)
    sites: dict[str, tuple[Action, ...]] = {}
    refused: list[Refusal] = []
    notes: list[Note] = []
    for site in network.sites:
        here = facts.get(site.name)
        if here is None:
            continue
        wanted = setup(network, site, identities, here.systemd)
        reasons = _refusals(network, site, here, wanted, identities)
        refused += [Refusal(site.name, message) for message in reasons]
        known = here.is_root and here.ssh is not None and not any(what in here.missing for what in NEEDED)
        sites[site.name] = ()
        if known and here.ssh is not None:
            sites[site.name] = tuple(_site_actions(network, here, here.ssh, wanted, keys.get(site.name)))
        notes += [Note(site.name, text) for text in _notes(network, here)]
    notes += [
        Note(name, "has never been reached, so its keys are not known: the others are planned without it")
        for name in unreachable
        if name not in identities
    ]
    return Plan(sites, file_changes, tuple(refused), tuple(notes), dict(unreachable))


def ssh_identities(network: Network, facts: Mapping[str, Facts], keys: Mapping[str, str]) -> dict[str, Identity]:
    """The keys of each site: as it says itself, with `keys` before that; else as the files of the others have them.

    A site that is out of reach and that no other knows is not among them.
    """
    found = {}
    for site in network.sites:
        here = facts[site.name].ssh if site.name in facts else None
        if here is not None:
            found[site.name] = Identity(keys.get(site.name) or here.key or here.waiting_key, here.host_keys)
    for site in network.sites:
        if site.name not in facts:
            key, host_keys = _told_of(network, site, facts)
            if key or host_keys:
                found[site.name] = Identity(key, host_keys)
    return found


def _told_of(network: Network, site: Site, facts: Mapping[str, Facts]) -> tuple[str | None, tuple[str, ...]]:
    """The key of a site and those of its sshd, as the others' files have them."""
    # Whoever lets it in does so by the device that is called after it.
    assert site.address is not None
    mark = allowed_key(f"tun{int(site.address) - int(network.tunnel.network_address)}", "").rstrip("\n")
    keys: list[str] = []
    host_keys: list[str] = []
    for other in facts.values():
        for name, start, found in (("authorized_keys", mark, keys), ("known_hosts", site.name + " ", host_keys)):
            file = other.ssh.files.get(name) if other.ssh is not None else None
            lines = file.text.splitlines() if file is not None else []
            said = [line[len(start) :] for line in lines if line.startswith(start)]
            found += [key for key in said if KEY.fullmatch(key) and key not in found]
    return keys[0] if len(keys) == 1 else None, tuple(host_keys)  # where they contradict each other, none is believed


# ---- one server


def _site_actions(network: Network, here: Facts, ssh: SshFacts, wanted: Setup, new_key: str | None) -> Iterator[Action]:
    """In the order in which they are done."""
    key = new_key or ssh.key or ssh.waiting_key
    if key is None:
        yield MakeIdentity("there is no key to call others with")
    yield from forwarding_actions(network, here)
    if wanted.ends and not ssh.user:
        yield TunnelUser(f"there is no user {USER}")
    other_key = key is not None and key != ssh.key
    if key is not None and other_key:
        yield UseIdentity(
            "the key that it calls with is not in place yet" if ssh.key is None else "it has a new key", key
        )
    elif key is not None and ssh.key_mode is not None and ssh.key_mode & 0o077:
        yield UseIdentity(f"the key that it calls with has mode {ssh.key_mode:04o}: others may read it", key)
    changed = set()
    # A key that may no longer be used must go, even where no site calls any more.
    gone: dict[str, str | None] = {
        name: None for name in ("authorized_keys", "known_hosts", "sshd") if name in ssh.files
    }
    for name, text in {**gone, **wanted.files}.items():
        now = ssh.files.get(name)
        if now is None or now.text != text:
            changed.add(name)
            why = f"there is no {_shown(name)}" if now is None else f"{_shown(name)} says something else"
            why = why if text is not None else f"{_shown(name)} is there, and no tunnel needs it any more"
            yield TunnelFile(why, name, text, None if now is None else now.text, None if now is None else now.sha256)
    yield from _leftovers(ssh, wanted)
    for end in wanted.ends:
        yield from _end(here, ssh, end, bool(changed & {end.name, f"{end.name}.service"}), other_key)


def _shown(name: str) -> str:
    return {"sshd": "configuration of sshd for tunnels"}.get(
        name, f"{FOLDER}/{name}" if "." not in name else f"unit {name}"
    )


def _leftovers(ssh: SshFacts, wanted: Setup) -> Iterator[Action]:
    names = {end.name for end in wanted.ends}
    for name in ssh.ends:
        if name not in names:
            yield RemoveTunnel(f"{name} is there, and no tunnel of this network", name)
    devices = {end.device for end in wanted.ends}
    for name, device in ssh.devices.items():
        if device.user == USER and name not in devices:
            yield RemoveDevice(f"{name} is there, and no tunnel of this network", name)


def _end(here: Facts, ssh: SshFacts, end: End, other_files: bool, other_key: bool) -> Iterator[Action]:
    """The device first, then what runs."""
    state, device = ssh.ends.get(end.name), ssh.devices.get(end.device)
    idle = _idle(state, here.systemd)
    anew = device is not None and device.user != USER
    begun_anew = idle or other_files or (other_key and end.calls)
    wrong = _wrong(here, end, device)
    routes, addresses = _too_many(here, end, device)
    if anew or routes or addresses or (wrong and not begun_anew):
        yield TunnelDevice(
            "; ".join(wrong) or f"{end.device} has too much", end.name, end.device, anew, routes, addresses
        )
    gone = state is not None and (anew or device is None)
    if idle:
        yield RunTunnel(idle, end.name, False if state is None or state.active not in RUNNING else other_files or gone)
    elif other_files or (other_key and end.calls):
        yield RunTunnel(f"{end.name} runs with what it had before", end.name, True)
    elif gone and end.calls:
        yield RunTunnel(f"{end.name} has lost its device", end.name, True)


def _idle(state: SshEnd | None, systemd: bool) -> str:
    """Why it does not run, or would not after a restart; else nothing."""
    if state is None:
        return "nothing keeps the tunnel"
    if state.active not in RUNNING:
        return "nothing keeps the tunnel: it is " + state.active
    if systemd and state.enabled != "enabled":
        return f"its unit is {state.enabled}: after a restart of the server there would be no tunnel"
    return ""


def _wrong(here: Facts, end: End, device: SshDevice | None) -> list[str]:
    """What its script would mend, or what needs a new device."""
    if device is None:
        return [f"there is no {end.device}"]
    found = []
    about = here.devices.get(end.device)
    if device.user != USER:
        found.append(f"{end.device} belongs to {device.user or 'no user'}, so that {end.peer} may not use it")
    if about is not None and not about.up:
        found.append(f"{end.device} is down")
    if about is not None and about.mtu != end.mtu:
        found.append(f"{end.device} has the MTU {about.mtu}")
    if device.queue != QUEUE:
        found.append(f"{end.device} has a queue of {device.queue} packets")
    if (end.address, end.peer_address) not in device.addresses:
        found.append(f"{end.device} has not the address {end.address} with {end.peer_address} at the other end")
    there = {route.to for route in here.routes if route.dev == end.device and route.metric == METRIC}
    missing = [str(lan) for lan in end.routes if lan not in there]
    if missing:
        found.append(f"there is no route through {end.device} to {', '.join(missing)}")
    routes, addresses = _too_many(here, end, device)
    if routes:
        found.append(f"{end.device} has a route to {', '.join(map(str, routes))}, which is not of this network")
    if addresses:
        found.append(f"{end.device} has the address {', '.join(addresses)}")
    return found


def _too_many(here: Facts, end: End, device: SshDevice | None) -> tuple[tuple[Lan, ...], tuple[str, ...]]:
    """Routes and addresses that the device has, and should not."""
    if device is None:
        return (), ()
    addresses = tuple(
        str(local) for local, peer in device.addresses if (local, peer) != (end.address, end.peer_address)
    )
    own = [route for route in here.routes if route.dev == end.device and route.protocol not in KERNEL]
    extra = [one.to for one in own if one.to not in end.routes or one.metric != METRIC]
    return tuple(dict.fromkeys(lan for lan in extra if not (lan.is_link_local or lan.is_multicast))), addresses


# ---- refusals and notes


def _refusals(
    network: Network, site: Site, here: Facts, wanted: Setup, identities: Mapping[str, Identity]
) -> list[str]:
    if not here.is_root:
        return [no_root(site)]
    if here.ssh is None or any(what in here.missing for what in NEEDED):
        missing = {what: here.missing[what] for what in NEEDED if what in here.missing} or {"ssh": "it does not say"}
        return [
            f"could not find out {what}: {why}. Nothing is decided without it; mend that on the server first"
            for what, why in missing.items()
        ]
    found = missing_tools(here, TOOLS)
    if not here.ssh.host_keys and any(not end.calls for end in wanted.ends):
        found.append(
            "there is no host key in /etc/ssh, and the others are to call it: is there an sshd? Install openssh-server"
        )
    for end in wanted.ends:
        device = here.devices.get(end.device)
        ours = device is not None and (
            end.device in here.ssh.devices
            and (
                here.ssh.devices[end.device].user == USER
                or any(local == end.address for local, _ in here.ssh.devices[end.device].addresses)
            )
        )
        if device is not None and not ours:
            found.append(
                f"there is a {end.device} that is not of this network ({device.kind or 'hardware'}), and the tunnel to "
                f"{end.peer} is to be called so. Give {end.peer} another address in the tunnel: its last number is the device's"
            )
    same = [
        name
        for name, one in identities.items()
        if name != site.name and one.key and one.key == identities[site.name].key
    ]
    if same:
        found.append(
            f"the key that it calls with is also that of {', '.join(same)}: one of them is a copy of the other's disk, or both "
            f"names lead to one server. On the copy: rm {KEY_FILE}; the next apply makes a key of its own"
        )
    found += ranges_in_the_way(network, site, here)
    return found


def _notes(network: Network, here: Facts) -> Iterator[str]:
    if here.rollback is not None:
        left = here.rollback.seconds_left
        yield f"a rollback is armed there and comes in {left:.0f} s: another apply is running, or was cut off"
    if not here.systemd:
        yield "there is no systemd: nothing makes the tunnels after a restart of the server"
    if here.interface is not None:
        yield (
            f"{network.interface} of WireGuard is there too, and its routes come before those of ssh: "
            "`roamlet vpn down --backend wireguard` takes it away"
        )
    for what, why in here.missing.items():
        if what in NEEDED:
            yield f"could not find out {what}: {why}"
