"""The facts of a server's ssh tunnels; host/gather.py asks for them. model/ssh_facts.py describes the shape. Changes nothing."""

import glob
import hashlib
import json
import os
import stat
import time

from roamlet_vpn.host import live, system, tunnel


def facts():
    """All of them. Raises CannotDo where something that must be known cannot be found out."""
    files = {name: _file(name) for name in tunnel.files()}
    found = json.loads(system.must(["ip", "-j", "-s", "-d", "address", "show"]) or "[]")
    devices = {one["ifname"]: _device(one) for one in found if one.get("linkinfo", {}).get("info_kind") == "tun"}
    ends = tunnel.ends()
    return {
        "user": tunnel.has_user(),
        "key": _public(tunnel.KEY),
        "key_mode": stat.S_IMODE(os.stat(tunnel.KEY).st_mode) if os.path.exists(tunnel.KEY) else None,
        "waiting_key": _public(tunnel.KEY + tunnel.NEW),
        "host_keys": _host_keys(),
        "files": files,
        "ends": _units(ends, devices, files) if live.has_systemd() else {name: _loop(name) for name in ends},
        "devices": devices,
    }


def _public(path):
    return tunnel.public_half(path) if os.path.exists(path) else None


def _host_keys():
    found = []
    for path in sorted(glob.glob("/etc/ssh/ssh_host_*_key")):
        words = (system.read(path + ".pub") or b"").decode("utf-8", "replace").split()
        key = " ".join(words[:2]) if len(words) > 1 else tunnel.public_half(path)
        if key and not key.startswith("ssh-dss"):
            found.append(key)
    return found


def _file(name):
    data = system.read(tunnel.path(name)) or b""
    text = data.decode("utf-8", "replace")
    return {
        "text": "".join(char if char.isprintable() or char in "\n\t\r" else "?" for char in text),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _device(one):
    counts = one.get("stats64", {})
    flags = one.get("flags", ())
    return {
        "user": tunnel.owner(one),
        "queue": one.get("txqlen", 0),
        "carrier": "LOWER_UP" in flags,
        "rx": counts.get("rx", {}).get("bytes", 0),
        "tx": counts.get("tx", {}).get("bytes", 0),
        "addresses": [
            {"local": address["local"], "peer": address.get("address")}
            for address in one.get("addr_info", ())
            if "local" in address and not address["local"].startswith("fe80:")
        ],
    }


def _units(names, devices, files):
    """Of all units by one question."""
    if not names:
        return {}
    asked = ["Id", "ActiveState", "UnitFileState", "ActiveEnterTimestampMonotonic", "InactiveEnterTimestampMonotonic"]
    output = system.must(["systemctl", "show", "--property=" + ",".join(asked)] + [tunnel.unit(name) for name in names])
    known = [dict(line.partition("=")[::2] for line in part.splitlines()) for part in output.split("\n\n")]
    states = {state.get("Id"): state for state in known}
    found = {}
    for name in names:
        state = states.get(tunnel.unit(name), {})
        since = int(state.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
        working = state.get("ActiveState") == "active"
        found[name] = {
            "enabled": state.get("UnitFileState") or "not-found",
            "active": state.get("ActiveState") or "unknown",
            "age": max(0.0, time.monotonic() - since) if since and working else None,
            "said": None if _has_tunnel(name, devices, files) else _journal(name),
        }
    return found


def _has_tunnel(name, devices, files):
    """Whether a process holds the device that its script names; for an end that waits to be called."""
    text = files.get(name, {}).get("text", "")
    return name.startswith("accept-") or any(
        device["carrier"] and "dev %s " % called in text for called, device in devices.items()
    )


def _journal(name):
    """The last words of ssh itself, whose lines bear the name of what the unit starts."""
    words = ["journalctl", "-q", "-n", "1", "-o", "cat", "--no-pager", "-u", tunnel.unit(name), "-t", "sh"]
    return system.shown(system.run(words)[1]) or None


def _loop(name):
    path = os.path.join(tunnel.RUN, "roamlet-vpn-ssh-" + name)
    said = (system.read(path + ".said") or b"").decode("utf-8", "replace").strip().splitlines()
    begun = os.stat(path + ".pid").st_mtime if os.path.exists(path + ".pid") else None
    return {
        "enabled": None,
        "active": "active" if tunnel.active(name) else "inactive",
        "age": None if begun is None else max(0.0, time.time() - begun),
        "said": system.shown(said[-1]) if said else None,
    }
