"""The tunnel interface as it runs: reads it, and changes it in small steps that can be done twice. Decides nothing."""

import json
import os
import socket
import time

from roamlet_vpn.host import system

# What ip prints of a route and does not take.
_STATES = ("linkdown", "dead", "offload", "trap")
HOLDING = "5182"  # the routing table of held routes, the preference of the rules that lead there, and their metric in table main
FIRST = {4: ("0",), 6: ("0", "1024")}  # metrics that wg-quick's own routes have
ENDING = 5.0  # seconds for the process that a WireGuard without the kernel is
SOCKETS = "/var/run/wireguard"
STARTING = 45.0  # seconds for what brings an interface up: hooks and names of endpoints may take their time


def exists(interface):
    try:
        socket.if_nametoindex(system.checked_interface(interface))  # /sys may be that of another namespace
    except OSError:
        return False
    return True


def has_systemd():
    return os.path.isdir("/run/systemd/system") and system.found("systemctl") is not None


def unit(interface):
    return "wg-quick@%s.service" % system.checked_interface(interface)


def enabled(interface):
    """Whether the unit starts with the server; None without systemd."""
    if not has_systemd():
        return None
    return system.run(["systemctl", "is-enabled", "--quiet", unit(interface)])[0] == 0


def set_enabled(interface, wanted):
    if wanted != enabled(interface):
        system.must(["systemctl", "--quiet", "enable" if wanted else "disable", unit(interface)], timeout=STARTING)


def addresses(interface):
    """Those that it was given, with the lengths of their networks."""
    output = system.must(["ip", "-j", "address", "show", "dev", interface])
    given = [one for device in json.loads(output or "[]") for one in device.get("addr_info", ()) if "local" in one]
    return ["%s/%d" % (one["local"], one["prefixlen"]) for one in given if not one["local"].startswith("fe80:")]


def set_addresses(interface, wanted):
    """Give it these addresses and no others. Its routes stay, although the kernel takes some along with an address."""
    before = routes(interface)
    for address in addresses(interface) + list(wanted):
        family = "-6" if ":" in address else "-4"
        if address in wanted and address not in addresses(interface):
            system.must(["ip", family, "address", "add", address, "dev", interface])
    for address in addresses(interface):
        if address not in wanted:
            system.must(["ip", "address", "del", address, "dev", interface])
    there = addresses(interface)
    for address in wanted:
        if address not in there:  # it was the second of its network, and went with the first
            system.must(["ip", "address", "add", address, "dev", interface])
    for family, words in before:
        if "kernel" not in words and (family, words) not in routes(interface):
            system.must(["ip", "-%d" % family, "route", "replace"] + words + ["dev", interface])


def routes(interface):
    """Its routes of table main: (4 or 6, words as ip takes them) each."""
    found = []
    for family in (4, 6):
        lines = system.must(["ip", "-%d" % family, "route", "show", "table", "main", "dev", interface])
        for line in lines.splitlines():
            words = [word for word in line.split() if word not in _STATES]
            if words and words[0] != "fe80::/64":
                found.append((family, words))
    return found


def set_routes(interface, wanted):
    """Give it these routes, as routes() tells them, and no others; those that come with an address are the kernel's."""
    there = routes(interface)
    for family, words in wanted:
        if (family, words) not in there and "kernel" not in words:
            system.must(["ip", "-%d" % family, "route", "replace"] + words + ["dev", interface])
    for family, words in there:
        if (family, words) not in wanted and "kernel" not in words:
            system.must(["ip", "-%d" % family, "route", "del", words[0], "dev", interface])


def hold_routes(interface, wanted):
    """Have what is sent to these networks go by these devices, whatever other routes there are: network, device, gateway each.

    Then their routes in table main give up the metric that wg-quick takes for its own: it cannot add a route where there is one
    of the same metric ("File exists"). They stay as a second way, which is used again when the interface is gone.
    """
    for to, device, via in wanted:
        family = "-6" if ":" in to else "-4"
        way = ["via", via] if via else []
        system.must(["ip", family, "route", "replace", to] + way + ["dev", device, "table", HOLDING])
        system.must(["ip", family, "rule", "add", "pref", HOLDING, "to", to, "lookup", HOLDING])
        for number, words in routes_elsewhere(interface, to):
            if "kernel" not in words and _metric(words) in FIRST[number]:
                _demote(number, words)


def _metric(words):
    return words[words.index("metric") + 1] if "metric" in words else "0"


def _demote(family, words):
    """The same route with the metric of held ones, in place of its own; the new one is there before the old one goes."""
    metric = _metric(words)
    place = words.index("metric") if "metric" in words else len(words)
    rest = words[:place] + words[place + 2 :]
    system.must(["ip", "-%d" % family, "route", "replace"] + rest + ["metric", HOLDING])
    system.must(["ip", "-%d" % family, "route", "del"] + rest + ["metric", metric])


def release_routes():
    """The end of all that hold_routes() has done."""
    for family in ("-4", "-6"):
        status, rules, _ = system.run(["ip", family, "rule", "show"])  # fails where the kernel has no such family
        ours = [rule for rule in rules.splitlines() if status == 0 and rule.startswith(HOLDING + ":")]
        for _ in ours:
            system.must(["ip", family, "rule", "del", "pref", HOLDING])
        if ours:
            system.must(["ip", family, "route", "flush", "table", HOLDING])


def routes_elsewhere(interface, network):
    """The routes to exactly this network by other devices, as routes() tells them: one like them would take their place."""
    family = 6 if ":" in network else 4
    lines = system.must(["ip", "-o", "-%d" % family, "route", "show", "table", "main", "exact", network]).splitlines()
    found = [[word for word in line.replace("\\", " ").split() if word not in _STATES] for line in lines]
    return [(family, words) for words in found if words and not _by(words, interface)]


def _by(words, interface):
    return any(pair == ("dev", interface) for pair in zip(words, words[1:]))  # noqa: B905, its `strict` is newer than 3.6


def set_routes_elsewhere(interface, networks, wanted):
    """Have these routes to these networks by other devices, as routes_elsewhere() told them, and none of those of _demote()."""
    wanted = [(family, list(words)) for family, words in wanted]
    there = [found for network in networks for found in routes_elsewhere(interface, network)]
    for family, words in wanted:
        if (family, words) not in there:
            system.must(["ip", "-%d" % family, "route", "replace"] + words)
    for family, words in there:
        if (family, words) not in wanted and _metric(words) == HOLDING:
            system.must(["ip", "-%d" % family, "route", "del"] + words)


def mtu(interface):
    return int(json.loads(system.must(["ip", "-j", "link", "show", "dev", interface]))[0]["mtu"])


def set_mtu(interface, wanted):
    if mtu(interface) != wanted:
        system.must(["ip", "link", "set", "dev", interface, "mtu", str(wanted)])


def configuration(interface):
    """What runs, as `wg setconf` would take it. It holds the private key."""
    return system.must(["wg", "showconf", interface])


def sync(interface, text):
    """Let the interface have this configuration, peers that stay keeping their sessions.

    It goes to wg whole, as one text that was looked at, and never as the output of a command that may have failed: wg takes an
    empty text for the wish to have no key, no peers and no port. Raises CannotDo for one without a key; nothing has changed then.
    """
    if not text.strip():
        raise system.CannotDo(
            "refused: the configuration for %s is empty, and wg would wipe the key and every peer" % interface
        )
    if not system.is_key(system.private_key_in(text)):
        raise system.CannotDo(
            "refused: the configuration for %s has no valid PrivateKey, and wg would leave the tunnel without one"
            % interface
        )
    system.must(["wg", "syncconf", interface, "/dev/stdin"], text)


def start(interface):
    """Bring the interface up from its configuration file, by the unit where there is systemd. There must be none yet."""
    if has_systemd():
        # restart: a unit whose interface was taken away by hand is still active, and start would do nothing.
        status, output, said = system.run(["systemctl", "restart", unit(interface)], timeout=STARTING)
        if status == 0 and exists(interface):
            return
        said = system.run(["journalctl", "-n", "8", "-o", "cat", "--no-pager", "-u", unit(interface)])[1] or said
        raise system.CannotDo("%s did not start: %s" % (unit(interface), system.shown(said)))
    system.must(["wg-quick", "up", interface], timeout=STARTING)


def stop(interface):
    """Take the interface away, however it was brought up."""
    if has_systemd():
        system.run(["systemctl", "stop", unit(interface)], timeout=STARTING)
    if exists(interface) and system.read(system.config_path(interface)) is not None:
        system.run(["wg-quick", "down", interface], timeout=STARTING)
    if exists(interface):
        system.must(["ip", "link", "del", "dev", interface])
    # A WireGuard that is a process ends a little later than its interface; the next one would find its socket in use.
    deadline = time.monotonic() + ENDING
    while os.path.exists("%s/%s.sock" % (SOCKETS, interface)) and time.monotonic() < deadline:
        time.sleep(0.02)


def sysctl(name):
    """The value of a setting, such as net/ipv4/ip_forward; None where there is no such setting."""
    value = system.read("/proc/sys/" + name)
    return None if value is None else value.decode("ascii", "replace").strip()


def set_sysctl(name, value):
    if sysctl(name) != value:
        with open("/proc/sys/" + name, "w") as file:
            file.write(value + "\n")
