"""Passing packets on between networks: turned on now and after a restart, and put back to what it was.

What a setting was before stands as a comment in the file that sets it.
"""

import glob
import os
import re

from roamlet_vpn.host import gather, live, system

SYSCTL_FILE = "/etc/sysctl.d/99-roamlet-vpn.conf"  # late in the order, so that it wins over what a distribution sets
SYSCTL_HEAD = "# Made by roamlet vpn: the LANs of this network reach each other through this server.\n"
FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}
BEFORE = re.compile(r"^# before: (\S+) = (\S+)$")
# Kinds of devices between which packets are passed on: containers, virtual machines, other VPNs.
_PASSED_ON = ("bridge", "tun", "wireguard", "ppp")


def turn_on(family, devices, now, for_good):
    """Forward packets of this family. `devices` go on taking router advertisements: a router would lose its own default route."""
    settings = [("net/ipv6/conf/%s/accept_ra" % checked_device(device), "2") for device in devices]
    settings.append((FORWARDING[family], "1"))
    if for_good:
        _set_for_good(settings)
    if now:
        for name, value in settings:
            live.set_sysctl(name, value)


def checked_device(name):
    """The name, if it is one that a device can have. Raises ValueError."""
    if not re.match(r"^(?!\.\.?$)[^\s/]{1,15}$", name):
        raise ValueError("%r is no name of a device" % name)
    return name


def settings(devices=()):
    """Every setting that turn_on() with these devices, or put_back(), may change."""
    names = ["net/ipv6/conf/%s/accept_ra" % checked_device(device) for device in devices]
    return sorted(set(names) | set(_before()) | set(FORWARDING.values()))


def put_back(interface):
    """What was turned on because of this interface, which is gone, is as it was before: after a restart, and now.

    Nothing changes while there is another configuration of WireGuard. What packets may still be passed on for, stays on until the
    next restart: another file that sets it, or a device of a kind that exists for that.
    """
    others = glob.glob(os.path.join(system.FOLDER, "*.conf"))
    if any(path != system.config_path(interface) for path in others) or system.read(SYSCTL_FILE) is None:
        return
    before = _before()
    system.remove(SYSCTL_FILE)
    elsewhere = gather.after_a_restart()
    in_use = any(device["up"] and device["kind"] in _PASSED_ON for device in gather.devices().values())
    for name in sorted(before, key=lambda name: name.endswith("accept_ra")):
        if name.endswith("accept_ra"):
            needed = live.sysctl(FORWARDING[6]) != "0"
        else:
            needed = in_use or elsewhere.get(name, "0") not in ("0", "")
        if not needed:
            live.set_sysctl(name, before[name])


def _before():
    """What the settings were, by name."""
    lines = (system.read(SYSCTL_FILE) or b"").decode("utf-8", "replace").splitlines()
    found = [BEFORE.match(line) for line in lines]
    return {match.group(1): match.group(2) for match in found if match}


def _set_for_good(wanted):
    """Add the settings to our file, whose other lines stay, each with what it is now unless that is known already."""
    text = (system.read(SYSCTL_FILE) or SYSCTL_HEAD.encode("ascii")).decode("utf-8", "replace")
    lines = text.splitlines()
    ours = [line.partition("=")[0].strip() for line in lines]
    known = _before()
    for name, value in wanted:
        now = live.sysctl(name)
        if name not in known and name not in ours and now is not None:
            lines.append("# before: {} = {}".format(name, now))
        if "{} = {}".format(name, value) not in lines:
            lines = [line for line in lines if line.partition("=")[0].strip() != name] + ["{} = {}".format(name, value)]
    data = ("\n".join(lines) + "\n").encode("utf-8")
    if data != system.read(SYSCTL_FILE):
        system.with_folder(os.path.dirname(SYSCTL_FILE), 0o755)
        system.write(SYSCTL_FILE, data, 0o644)
