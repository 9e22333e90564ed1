"""Where a server counts packets that it lost: devices, queues, UDP buffers, connection tracking, and TCP of ssh.

Reads; a counter that is not there is left out.
"""

import glob
import os
import re

from roamlet_vpn.host import system

_DEVICE = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors")
_UDP = ("InDatagrams", "OutDatagrams", "InErrors", "RcvbufErrors", "SndbufErrors")


def counters(port):
    """All of them now, as a dict of plain numbers; `port` is the UDP port of the tunnel, or None."""
    return {
        "devices": _devices(),
        "queues": queues(_said(["tc", "-s", "qdisc", "show"])),
        "udp": _udp(),
        "socket_drops": None if port is None else _socket_drops(port),
        "tracked": _tracked(),
        "ssh": retransmissions(_said(["ss", "-tinH"])),
    }


def _devices():
    found = {}
    for folder in glob.glob("/sys/class/net/*/statistics"):
        name = folder.split("/")[-2]
        values = {counter: _number(os.path.join(folder, counter)) for counter in _DEVICE}
        found[name] = {counter: value for counter, value in values.items() if value is not None}
    return found


def queues(text):
    """{device: packets dropped by its queue} from what `tc -s qdisc show` prints. Classes count in their root."""
    found = {}
    device = None
    for line in text.splitlines():
        match = re.match(r"qdisc \S+ \S+ dev (\S+) (root|parent)?", line)
        if match:
            device = match.group(1) if match.group(2) != "parent" else None
            continue
        match = re.search(r"\(dropped (\d+),", line)
        if match and device is not None:
            found[device] = found.get(device, 0) + int(match.group(1))
            device = None
    return found


def _udp():
    text = _text("/proc/net/snmp")
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("Udp:")]
    if len(lines) != 2:
        return {}
    values = dict(zip(lines[0], lines[1]))  # noqa: B905, its `strict` is newer than 3.6
    return {name: int(values[name]) for name in _UDP if name in values}


def _socket_drops(port):
    """Packets that the sockets of this port had no room for; WireGuard's in the kernel has no entry there."""
    dropped = None
    for path in ("/proc/net/udp", "/proc/net/udp6"):
        for line in _text(path).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 12 and int(fields[1].rsplit(":", 1)[1], 16) == port:
                dropped = (dropped or 0) + int(fields[-1])
    return dropped


def _tracked():
    """[connections tracked, most that can be], or None."""
    values = [_number("/proc/sys/net/netfilter/nf_conntrack_" + name) for name in ("count", "max")]
    return None if None in values else values


def retransmissions(text):
    """[bytes sent, bytes sent again] of the ssh connections in what `ss -tinH` prints; None without such connections."""
    sent = again = 0
    found = False
    ours = False
    for line in text.splitlines():
        if line[:1] not in (" ", "\t"):
            ours = any(word.endswith(":22") for word in line.split()[2:])
            continue
        if ours:
            numbers = dict(re.findall(r"\b(bytes_sent|bytes_retrans):(\d+)", line))
            found = found or bool(numbers)
            sent += int(numbers.get("bytes_sent", 0))
            again += int(numbers.get("bytes_retrans", 0))
    return [sent, again] if found else None


def _said(words):
    try:
        return system.run(words)[1]
    except system.CannotDo:  # no such tool: the counter is left out
        return ""


def _text(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _number(path):
    text = _text(path).strip()
    return int(text) if text.isdigit() else None
