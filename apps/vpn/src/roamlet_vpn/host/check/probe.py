"""What `roamlet vpn check` measures on a server: echoes, datagrams, connections, packets by way of the gateway, counters.

Three calls a check, so that all servers watch before any sends: `begin`, `measure`, `finish`. Changes nothing, and leaves nothing
behind if the last call never comes.
"""

import errno
import ipaddress
import os
import re
import socket
import struct
import time

from roamlet_vpn.host import system
from roamlet_vpn.host.check import counters, echo, firewall, watch

BOUNCE_HOPS = 2  # a gateway takes one: what it sends back ends here, what it sends elsewhere ends at the next router
PASSAGE_HOPS = 4  # the gateway, this server, perhaps a hub: enough to arrive at the far server
SSH = 22  # the port that a passage asks for: any answer will do
DISCARD = 9
_watches = {}


def begin(mark, lans):
    """Watch for packets with this mark; `lans` are the networks whose neighbours are asked for.

    {"neighbours": {LAN: addresses}, "missing": {what: why}}. Blocks for about a second where no neighbour is known yet.
    """
    missing = {}
    try:
        _watches[mark] = watch.Watch(mark)
    except OSError as error:
        missing["watch"] = "packets cannot be watched here: %s" % (error.strerror or error)
    neighbours = {lan: _neighbours(lan) for lan in lans}
    empty = [lan for lan, found in neighbours.items() if not found]
    if empty:
        for lan in empty:
            _ask_for_neighbours(lan)
        time.sleep(1.0)
        neighbours.update({lan: _neighbours(lan) for lan in empty})
    return {"neighbours": neighbours, "missing": missing}


def finish(mark):
    """What has been seen since `begin`; see watch.Watch.stop()."""
    watching = _watches.pop(mark, None)
    return [] if watching is None else watching.stop()


def measure(plan):
    """Carry out `plan`, a dict of plain values, and return the results:

    {"mark", "interval", "wait", "patience", "port", "echoes": [see echo.Echoes], "datagrams": [{"number", "to", "port", "sizes"}],
     "segments": [{"number", "source", "to", "ports"}], "bounces": [{"number", "source", "to", "via", "device"}],
     "passages": [the same, and "tcp": whether by TCP], "routes": [address], "settings": [path under /proc/sys]}
    """
    mark = plan["mark"]

    def marked(probe, packet):
        return watch.MARK.pack(mark, probe, packet)

    before = counters.counters(plan["port"])
    datagrams = {one["number"]: _datagrams(one, marked) for one in plan["datagrams"]}
    echoes = echo.Echoes(marked).run(plan["echoes"], plan["interval"], plan["wait"], plan["patience"])
    segments = {one["number"]: _segments(one, mark) for one in plan["segments"]}
    bounces = {one["number"]: _bounce(one, _bounced(one, marked)) for one in plan["bounces"]}
    passages = {one["number"]: _bounce(one, _passing(one, mark, marked)) for one in plan["passages"]}
    time.sleep(plan["wait"] if segments or passages else 0.1 if bounces else 0)
    return {
        "echoes": [[number, answer] for number, answer in sorted(echoes.items())],
        "datagrams": [[number, answer] for number, answer in sorted(datagrams.items())],
        "segments": [[number, answer] for number, answer in sorted(segments.items())],
        "bounces": [[number, answer] for number, answer in sorted(bounces.items())],
        "passages": [[number, answer] for number, answer in sorted(passages.items())],
        "firewall": _firewall(),
        "routes": {address: _route(address) for address in plan["routes"]},
        "settings": {name: _setting(name) for name in plan["settings"]},
        "before": before,
        "after": counters.counters(plan["port"]),
    }


def now():
    """The clock of this server, in seconds since 1970."""
    return time.time()


def _datagrams(one, marked):
    """Send marked datagrams with DF to an endpoint, from a port that no gateway knows: {"sent": sizes, "error"}.

    WireGuard takes no notice of them. The sizes are those of whole IP packets.
    """
    sent = []
    error = None
    try:
        family, _, _, _, address = socket.getaddrinfo(one["to"], one["port"], 0, socket.SOCK_DGRAM)[0]
    except OSError as failure:
        return {"sent": [], "error": "name: %s" % failure, "address": None}
    head = 48 if family == socket.AF_INET6 else 28
    sending = socket.socket(family, socket.SOCK_DGRAM)
    try:
        level, option = (41, echo.IPV6_MTU_DISCOVER) if family == socket.AF_INET6 else (0, echo.IP_MTU_DISCOVER)
        sending.setsockopt(level, option, echo.PROBE)
        sending.connect(address)
        for number, size in enumerate(one["sizes"]):
            payload = marked(one["number"], number)
            try:
                sending.send(payload + b"\0" * (size - head - len(payload)))
                sent.append(size)
            except OSError as failure:
                if failure.errno != errno.EMSGSIZE:  # larger than the own device: says nothing of the path
                    error = error or errno.errorcode.get(failure.errno, str(failure))
            time.sleep(0.004)  # a burst would overflow a small queue on the way, and look like a small MTU
    except OSError as failure:
        error = errno.errorcode.get(failure.errno, str(failure))
    finally:
        sending.close()
    return {"sent": sent, "error": error, "address": address[0]}


def _firewall():
    """See firewall.chains(); None where that cannot be found out."""
    try:
        return firewall.chains()
    except system.CannotDo:
        return None


def _segments(one, mark):
    """Ask a far host for a connection at each of the ports, and leave it at that: {"error"}.

    The watch sees what answers: this server's kernel, which knows of no such connection, refuses it then.
    """
    sending = socket.socket(socket.AF_INET, socket.SOCK_RAW, watch.TCP)
    error = None
    try:
        sending.bind((one["source"], 0))
        for _ in range(2):
            for port in one["ports"]:
                sending.sendto(_connection(one["source"], one["to"], one["number"], port, mark), (one["to"], 0))
                time.sleep(0.01)
    except OSError as failure:
        error = errno.errorcode.get(failure.errno, str(failure))
    finally:
        sending.close()
    return {"error": error}


def _connection(source, to, number, port, mark):
    """The segment that asks for one; see watch._segment()."""
    ends = socket.inet_aton(source) + socket.inet_aton(to)
    head = struct.pack("!HHIIBBH", watch.PORTS + number, port, (mark - 1) & 0xFFFFFFFF, mark, 5 << 4, 0x02, 1024)
    total = echo.checksum(ends + struct.pack("!BBH", 0, watch.TCP, 20) + head + struct.pack("!HH", 0, 0))
    return head + struct.pack("!HH", total, 0)


def _bounced(one, marked):
    """Two packets for the far LAN, as a client would send them: a request, and an answer to nothing that the gateway knows of.

    A gateway that has the route sends them here, where the watch sees them come in. One that drops what belongs to no
    connection keeps the second, and with it the answers of its clients, whose requests it has never seen.
    """
    made = _packet6 if ":" in one["to"] else _packet4
    return [
        made(one["source"], one["to"], is_reply, number + 1, marked(one["number"], number))
        for number, is_reply in enumerate((False, True, False, True))
    ]


def _passing(one, mark, marked):
    """Packets in the name of a host of this LAN for the far server: what this server's firewall lets out, and in again."""
    if one["tcp"]:
        message, protocol = _connection(one["source"], one["to"], one["number"], SSH, mark), watch.TCP
    else:
        message, protocol = echo.request(8, 1 + os.getpid() % 65000, 1, marked(one["number"], 0)), watch.ICMP
    return [_ip_header(one["source"], one["to"], len(message), protocol, PASSAGE_HOPS) + message] * 2


def _bounce(one, packets):
    """Hand packets of IP to the gateway, as a host of the LAN does: {"error"}."""
    mac = _hardware_address(one["via"], one["device"])
    if mac is None:
        return {"error": "no neighbour %s" % one["via"]}
    try:
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except OSError as failure:
        return {"error": failure.strerror}
    try:
        six = ":" in one["to"]
        kind = 0x86DD if six else 0x0800
        raw.bind((one["device"], kind))
        frame = mac + raw.getsockname()[4] + struct.pack("!H", kind)
        for packet in packets:
            raw.send(frame + packet)
            time.sleep(0.02)
    except OSError as failure:
        return {"error": failure.strerror}
    finally:
        raw.close()
    return {"error": None}


def _packet4(source, to, is_reply, number, payload):
    message = echo.request(0 if is_reply else 8, 1 + os.getpid() % 65000, number, payload)
    return _ip_header(source, to, len(message)) + message


def _packet6(source, to, is_reply, number, payload):
    """An echo of IPv6, whose checksum covers the addresses too."""
    ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to)
    body = struct.pack("!HH", 1 + os.getpid() % 65000, number) + payload
    kind = 129 if is_reply else 128
    pseudo = ends + struct.pack("!IxxxB", 4 + len(body), watch.ICMP6)
    total = echo.checksum(pseudo + struct.pack("!BBH", kind, 0, 0) + body)
    head = struct.pack("!IHBB", 6 << 28, 4 + len(body), watch.ICMP6, BOUNCE_HOPS) + ends
    return head + struct.pack("!BBH", kind, 0, total) + body


def _ip_header(source, to, length, protocol=watch.ICMP, hops=BOUNCE_HOPS):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, hops, protocol, 0)
    ends = socket.inet_aton(source) + socket.inet_aton(to)
    return head[:10] + struct.pack("!H", echo.checksum(head + ends)) + ends


def _hardware_address(address, device):
    """The MAC of a neighbour as bytes; asks for it if it is not known."""
    for attempt in range(2):
        mac = _mac6(address, device) if ":" in address else dict(_arp()).get(address)
        if mac:
            return bytes(bytearray(int(part, 16) for part in mac.split(":")))
        if not attempt:
            _nudge([address], device)
            time.sleep(0.3)
    return None


def _mac6(address, device):
    try:
        said = system.run(["ip", "-6", "neigh", "show", "to", address, "dev", device])[1]
    except system.CannotDo:
        return None
    match = re.search(r"\blladdr ((?:[0-9a-f]{2}:){5}[0-9a-f]{2})\b", said)
    return match.group(1) if match else None


def _arp():
    """(address, MAC) of the IPv4 neighbours that have answered."""
    found = []
    try:
        with open("/proc/net/arp") as file:
            for line in file.read().splitlines()[1:]:
                fields = line.split()
                if len(fields) >= 6 and int(fields[2], 16) & 2:
                    found.append((fields[0], fields[3]))
    except OSError:
        pass  # no such file, no neighbours: nothing to report
    return found


def _neighbours(lan):
    network = ipaddress.ip_network(lan)
    found = (ipaddress.ip_address(address) for address, _ in _arp())
    return [str(one) for one in sorted(found) if one in network][:64]


def _ask_for_neighbours(lan):
    """Have the kernel look for everybody in a LAN of up to 254 hosts, by a datagram to each: a larger one is left alone."""
    network = ipaddress.ip_network(lan)
    if network.version == 4 and 2 < network.num_addresses <= 256:
        _nudge([str(host) for host in network.hosts()])


def _nudge(addresses, device=None):
    """Have the kernel ask for the link-layer addresses of these hosts, all of one family."""
    six = ":" in addresses[0]
    nudging = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    nudging.setblocking(False)
    try:
        for address in addresses:
            try:
                scope = (0, socket.if_nametoindex(device)) if six and device else ()
                nudging.sendto(b"", (address, DISCARD) + scope)
            except OSError:
                continue  # no route, or no room for more questions: then it stays unknown
            time.sleep(0.001)
    finally:
        nudging.close()


def _route(address):
    """{"dev", "via", "source", "mtu"} of the way that a packet from here takes, or {"error"}."""
    try:
        status, said, complaint = system.run(["ip", "-o", "route", "get", address])
    except system.CannotDo as error:
        return {"error": str(error)}
    if status:
        return {"error": system.shown(complaint)}
    found = dict(re.findall(r"\b(dev|via|src|mtu) (?:lock )?(\S+)", said))
    return {
        "dev": found.get("dev"),
        "via": found.get("via"),
        "source": found.get("src"),
        "mtu": int(found["mtu"]) if found.get("mtu", "").isdigit() else None,
    }


def _setting(name):
    """A sysctl by its path, or None."""
    if not re.match(r"^[a-z0-9_]+(/[A-Za-z0-9_.@-]+)+$", name) or ".." in name:
        raise ValueError("%r is no setting" % name)
    try:
        with open("/proc/sys/" + name) as file:
            return file.read().strip()
    except OSError:
        return None
