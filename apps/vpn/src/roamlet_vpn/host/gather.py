"""The facts of a server: everything that a plan is made from, in one call. Changes nothing.

roamlet_vpn.model.facts describes the shape of the result, and checks it.
"""

import glob
import hashlib
import json
import os
import re
import socket
import stat
import sys
import threading
import time

from roamlet_vpn.host import live, names, rollback, system, tunnel_facts

VERSION = 1
RESOLVING = 2.0  # seconds for all names together: a resolver that does not answer must not hold up the facts
TOOLS = ("wg", "wg-quick", "ip", "sysctl", "systemctl", "wireguard-go", "ssh", "ssh-keygen", "useradd")
_ASKED = {"wg": ["--version"], "ip": ["-V"], "systemctl": ["--version"], "sysctl": ["--version"]}
# Where sysctl and systemd look; of files of the same name the first counts.
SYSCTL_FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
SYSCTL_CONF = "/etc/sysctl.conf"
FORWARDING = {"ipv4": "net/ipv4/ip_forward", "ipv6": "net/ipv6/conf/all/forwarding"}
# The kernel keeps these two as one.
_SAME = {"net/ipv4/conf/all/forwarding": "net/ipv4/ip_forward"}


def gather(interface):
    """The facts of this server as a dict of plain values. What cannot be found out is named in its `missing`, with the reason.

    Blocks while some ten short commands run. Needs root to see keys and peers. Raises ValueError for a bad name only.
    """
    system.checked_interface(interface)
    parts = _Parts()
    found = parts.ask("devices", devices, {})
    running = parts.ask("interface", _running, {})
    config = parts.ask("config", lambda: _config(interface), None)
    booted = os.path.isdir("/run/systemd/system")
    facts = {
        "version": VERSION,
        "hostname": system.shown(socket.gethostname()),
        "kernel": system.shown(os.uname().release),
        "os": parts.ask("os", _os, ""),
        "python": ".".join(str(number) for number in sys.version_info[:3]),
        "is_root": os.geteuid() == 0,
        "systemd": booted,
        "tools": {tool: parts.ask(tool, lambda tool=tool: _version(tool), None) for tool in TOOLS},
        "wireguard": parts.ask("wireguard", lambda: wireguard(found, running), None),
        "devices": found,
        "routes": parts.ask("routes", _routes, []),
        "forwarding": parts.ask("forwarding", _forwarding, None)
        or {family: {"live": None, "persistent": False} for family in FORWARDING},
        "interface": _with_device(running.get(interface), found.get(interface)),
        "config": config,
        "waiting_key": parts.ask("waiting_key", lambda: _waiting_key(interface), None),
        "other_interfaces": [_other(name, one) for name, one in sorted(running.items()) if name != interface],
        "unit": parts.ask("unit", lambda: _unit(interface), None) if booted else None,
        "follows_names": parts.ask("follows_names", lambda: names.follows(interface), None),
        "ssh": parts.ask("ssh", tunnel_facts.facts, None),
        "listeners": parts.ask("listeners", _listeners, []),
        "rollback": parts.ask("rollback", rollback.armed, None),
        "resolved": _resolved(config),
        "missing": parts.missing,
    }
    facts["time"] = time.time()
    return facts


class _Parts:
    """Asks for one thing after the other; what fails is noted, and the rest is found out all the same."""

    def __init__(self):
        self.missing = {}

    def ask(self, name, question, otherwise):
        try:
            return question()
        except (system.CannotDo, OSError, ValueError, KeyError, IndexError, TypeError) as error:
            # The latter four: a tool of another version, whose words are not those that we know.
            self.missing[name] = system.shown(str(error)) or type(error).__name__
            return otherwise


def _os():
    for line in (system.read("/etc/os-release") or b"").decode("utf-8", "replace").splitlines():
        if line.startswith("PRETTY_NAME="):
            return system.shown(line.partition("=")[2].strip().strip("\"'"))
    return ""


def _version(tool):
    if system.found(tool) is None:
        return None
    if tool not in _ASKED:
        return ""
    _, output, said = system.run([tool] + _ASKED[tool])
    match = re.search(r"\bv?\d[\w.+~-]*", (output or said).replace("iproute2-", " "))
    return match.group() if match else ""


def wireguard(devices, running):
    """What makes an interface: the kernel, if it has WireGuard or can load it, else wireguard-go."""
    kinds = [device["kind"] for name, device in devices.items() if name in running]
    if "wireguard" in kinds or os.path.isdir("/sys/module/wireguard"):
        return "kernel"
    for name in ("modules.dep", "modules.builtin"):
        if b"/wireguard.ko" in (system.read("/lib/modules/%s/%s" % (os.uname().release, name)) or b""):
            return "kernel"
    return "wireguard-go" if system.found("wireguard-go") else None


def _json(words):
    output = system.must(words)
    return json.loads(output) if output.strip() else []


def devices():
    """Every network device, by name."""
    made = {}
    for device in _json(["ip", "-j", "-d", "address", "show"]):
        name = device.get("ifname")
        if not name:
            continue  # ip writes empty ones for what it was told to leave out
        accepts = system.read("/proc/sys/net/ipv6/conf/%s/accept_ra" % name)
        made[name] = {
            "mtu": device.get("mtu", 0),
            "up": "UP" in device.get("flags", ()),
            "kind": device.get("linkinfo", {}).get("info_kind", ""),
            "addresses": [
                "%s/%d" % (one["local"], one["prefixlen"]) for one in device.get("addr_info", ()) if "local" in one
            ],
            "accept_ra": int(accepts) if accepts else None,
        }
    return made


def _routes():
    return [
        _route(route, family)
        for family in (4, 6)
        for route in _json(["ip", "-j", "-d", "-%d" % family, "route", "show", "table", "main"])
    ]


def _route(route, family):
    to = route["dst"]
    if to != "default" and "/" not in to:
        to += "/32" if family == 4 else "/128"
    hops = route.get("nexthops") or [route]  # of several ways the first stands for all
    mtu = [one["mtu"] for one in route.get("metrics", ()) if isinstance(one.get("mtu"), int)]
    return {
        "to": to,
        "family": family,
        "via": hops[0].get("gateway") or (route.get("via") or {}).get("host"),
        "dev": hops[0].get("dev"),
        "metric": route.get("metric"),
        "mtu": mtu[0] if mtu else None,
        "source": route.get("prefsrc"),
        "protocol": str(route.get("protocol", "")),
        "scope": str(route.get("scope", "")),
        "type": route.get("type", "unicast"),
    }


def _forwarding():
    after = after_a_restart()
    families = {}
    for family, name in FORWARDING.items():
        now = live.sysctl(name)
        families[family] = {
            "live": None if now is None else now != "0",
            "persistent": after.get(name, "0") not in ("0", ""),
        }
    return families


def after_a_restart():
    """The settings that the files of sysctl make when the server starts; the last one counts."""
    files = {}
    for folder in reversed(SYSCTL_FOLDERS):
        for path in glob.glob(folder + "/*.conf"):
            files[os.path.basename(path)] = path
    order = [files[name] for name in sorted(files)]
    # systemd reads sysctl.conf only where a link in sysctl.d leads to it; sysctl --system does by itself, and last.
    if not os.path.isdir("/run/systemd/system"):
        order.append(SYSCTL_CONF)
    settings = {}
    for path in order:
        for line in (system.read(path) or b"").decode("utf-8", "replace").splitlines():
            name, equals, value = line.strip().lstrip("-").partition("=")
            if equals and name[:1] not in ("#", ";"):
                name = name.strip()
                name = name if "/" in name.split(".")[0] else name.replace(".", "/")
                settings[_SAME.get(name, name)] = value.strip()
    return settings


def _running():
    """All WireGuard interfaces by name, without the keys that must stay here."""
    interfaces = {}
    now = time.time()
    for line in system.must(["wg", "show", "all", "dump"]).splitlines():
        words = line.split("\t")
        if len(words) == 5:
            name, _, public, port, mark = words
            interfaces[name] = {
                "public_key": None if public == "(none)" else public,
                "listen_port": int(port),
                "fwmark": None if mark == "off" else int(mark, 0),
                "peers": [],
            }
        elif len(words) == 9:
            interfaces[words[0]]["peers"].append(_peer(words[1:], now))
    return interfaces


def _peer(words, now):
    public, preshared, endpoint, allowed, handshake, received, sent, keepalive = words
    return {
        "public_key": public,
        "preshared": preshared != "(none)",
        "endpoint": None if endpoint == "(none)" else re.sub(r"%[^\]]*", "", endpoint),
        "allowed_ips": [] if allowed == "(none)" else allowed.split(","),
        "handshake_age": max(0.0, now - int(handshake)) if int(handshake) else None,
        "rx": int(received),
        "tx": int(sent),
        "keepalive": None if keepalive == "off" else int(keepalive),
    }


def _with_device(running, device):
    if running is None:
        return None
    device = device or {"mtu": 0, "up": False, "addresses": []}
    return dict(running, mtu=device["mtu"], up=device["up"], addresses=device["addresses"])


def _other(name, running):
    allowed = [network for peer in running["peers"] for network in peer["allowed_ips"]]
    return {
        "name": name,
        "public_key": running["public_key"],
        "listen_port": running["listen_port"],
        "allowed_ips": allowed,
    }


def _config(interface):
    path = system.config_path(interface)
    data = system.read(path)
    if data is None:
        return None
    about = os.stat(path)
    text = data.decode("utf-8", "replace")
    private = system.private_key_in(text)
    public = system.public_key(private) if system.found("wg") else None
    return {
        "text": system.as_shown(text, public),
        "public_key": public,
        "mode": stat.S_IMODE(about.st_mode),
        "uid": about.st_uid,
        "mtime": about.st_mtime,
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _waiting_key(interface):
    path = system.key_path(interface)
    data = system.read(path)
    if data is None:
        return None
    mode = stat.S_IMODE(os.stat(path).st_mode)
    return {"public_key": system.public_key(data.decode("ascii", "replace").strip()), "mode": mode}


def _unit(interface):
    name = live.unit(interface)
    # Their words are the answer; the status says the same once more.
    enabled = system.run(["systemctl", "is-enabled", name])
    active = system.run(["systemctl", "is-active", name])
    return {
        "name": name,
        "enabled": system.shown(enabled[1]) or "not-found",
        "active": system.shown(active[1]) or "unknown",
    }


def _listeners():
    listeners = []
    for line in system.must(["ss", "-H", "-u", "-l", "-n", "-p"]).splitlines():
        words = line.split()
        address, _, port = words[3].rpartition(":")
        address = re.sub(r"%[^\]]*", "", address).strip("[]")
        process = re.search(r'\(\("([^"]*)"', line)
        listeners.append(
            {
                "protocol": "udp",
                "address": "::" if address == "*" else address,
                "port": int(port),
                "process": system.shown(process.group(1)) if process else None,
            }
        )
    return listeners


def _resolved(config):
    """The names among the endpoints of the configuration, as this server resolves them; those that take long are left out."""
    host = r"(?im)^\s*Endpoint\s*=\s*(?![0-9.]+:)([A-Za-z0-9][A-Za-z0-9._-]*):\d+\s*(?:#.*)?$"
    names = sorted(set(re.findall(host, (config or {}).get("text", ""))))
    answers = {}

    def resolve(name):
        try:
            found = socket.getaddrinfo(name, None, 0, socket.SOCK_DGRAM)
        except (OSError, UnicodeError):
            return
        answers[name] = sorted(set(one[4][0].partition("%")[0] for one in found))

    # A thread each, because nothing can end a look-up: those that take long end by themselves, later.
    threads = [threading.Thread(target=resolve, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + RESOLVING
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(answers)
