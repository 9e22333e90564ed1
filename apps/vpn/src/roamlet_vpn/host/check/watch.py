"""Sees on a server where a packet of a check comes by: each one carries a mark, and is noted at every device it passes.

Needs root and Linux. A filter in the kernel takes out what is marked, and WireGuard's handshakes; nothing else of the traffic
reaches this process.
"""

import ctypes
import select
import socket
import struct
import threading
import time

# What a server reports of one check at most: packets with a forged mark fill no memory.
MOST_EVENTS = 20000
LONGEST = 120.0  # seconds after which a watch ends although its result was not fetched

SO_ATTACH_FILTER = 26
ETH_P_ALL = 0x0003
PACKET_OUTGOING = 4
SNAPLEN = 128

ICMP, TCP, UDP, ICMP6 = 1, 6, 17, 58
PORTS = 20000  # a probe by TCP comes from this port and its number: segments have no room for the number itself
MARK = struct.Struct("!IHH")  # the check's own number, the probe's, the packet's

# Lengths of WireGuard's handshake messages with the UDP header, and their first four bytes.
INITIATION = (156, 0x01000000)
RESPONSE = (100, 0x02000000)

# Classic BPF, as in linux/filter.h.
_LOAD_BYTE, _LOAD_HALF, _LOAD_HALF_X, _LOAD_WORD_X = 0x30, 0x28, 0x48, 0x40
_LOAD_HEADER_LENGTH, _SET_X, _AND = 0xB1, 0x01, 0x54
_JUMP_EQUAL, _JUMP_SET, _RETURN = 0x15, 0x45, 0x06


class Watch(object):
    """A thread that notes each marked packet. `stop()` returns the notes; it also ends by itself after LONGEST seconds."""

    def __init__(self, mark):
        self.mark = mark
        self.events = []
        self._socket = _packet_socket(mark)
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="roamlet-vpn-watch")
        self._thread.daemon = True
        self._thread.start()

    def stop(self):
        """What was seen: a list of [time, device, "in" or "out", kind, probe, packet, source, destination, length, MAC]."""
        self._waker.close()
        self._thread.join()
        return self.events

    def _run(self):
        ends = time.monotonic() + LONGEST
        try:
            while True:
                left = ends - time.monotonic()
                readable = select.select([self._socket, self._wake], [], [], max(0, left))[0]
                if self._socket in readable:
                    self._take()
                elif self._wake in readable or left <= 0:
                    return
        finally:
            self._socket.close()
            self._wake.close()

    def _take(self):
        try:
            packet, address = self._socket.recvfrom(SNAPLEN)
        except OSError:  # the device went away with the packet
            return
        note = read(packet, self.mark)
        if note is None or len(self.events) >= MOST_EVENTS:
            return
        direction = "out" if address[2] == PACKET_OUTGOING else "in"
        mac = ":".join("%02x" % byte for byte in bytearray(address[4][:6]))
        self.events.append([time.time(), address[0], direction] + note + [mac])


def read(packet, mark):
    """[kind, probe, packet's number, source, destination, length] of a packet from its IP header on, or None."""
    if len(packet) < 28:
        return None
    version = bytearray(packet[:1])[0] >> 4
    if version == 4:
        start = (bytearray(packet[:1])[0] & 15) * 4
        protocol = bytearray(packet[9:10])[0]
        length = struct.unpack("!H", packet[2:4])[0]
        source, destination = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
    elif version == 6 and len(packet) >= 48:
        start = 40
        protocol = bytearray(packet[6:7])[0]
        length = 40 + struct.unpack("!H", packet[4:6])[0]
        source = socket.inet_ntop(socket.AF_INET6, packet[8:24])
        destination = socket.inet_ntop(socket.AF_INET6, packet[24:40])
    else:
        return None
    body = packet[start + 8 :]
    if protocol == TCP:
        return _segment(packet[start:], source, destination, length, mark)
    if protocol == UDP:
        size = struct.unpack("!H", packet[start + 4 : start + 6])[0]
        for kind, (expected, first) in (("initiation", INITIATION), ("response", RESPONSE)):
            if size == expected and len(body) >= 4 and struct.unpack("!I", body[:4])[0] == first:
                return [kind, -1, 0, source, destination, length]
        kind = "udp"
    elif protocol in (ICMP, ICMP6):
        types = {8: "request", 0: "reply", 128: "request", 129: "reply"}
        kind = types.get(bytearray(packet[start : start + 1])[0])
    else:
        return None
    if kind is None or len(body) < MARK.size:
        return None
    found, probe, number = MARK.unpack(body[: MARK.size])
    return [kind, probe, number, source, destination, length] if found == mark else None


def _segment(header, source, destination, length, mark):
    """A connection that a check asks for, whose field for acknowledgements means nothing yet and holds the mark; or what answers
    it, which acknowledges the number before the mark, and so has the mark there too. The packet's number is the far port.
    """
    if len(header) < 14:
        return None
    near, far, _, found, _, flags = struct.unpack("!HHIIBB", header[:14])
    is_request = flags & 0x12 == 0x02  # SYN without ACK
    if not is_request:
        near, far = far, near
    if found != mark or near < PORTS:
        return None
    return ["request" if is_request else "reply", near - PORTS, far, source, destination, length]


def _packet_socket(mark):
    """A socket that gets marked packets of all devices, from the IP header on. Raises OSError without root."""
    # Python can bind such a socket to one device only, so it hears all from the start: `read` ignores what came before the filter.
    watching = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    try:
        program = b"".join(struct.pack("HBBI", *line) for line in _filter(mark))
        kept = ctypes.create_string_buffer(program)
        watching.setsockopt(
            socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(program) // 8, ctypes.addressof(kept))
        )
        watching.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        watching.setblocking(False)
    except Exception:
        watching.close()
        raise
    return watching


def _filter(mark):
    """The filter: IPv4 or IPv6, ICMP, TCP or UDP, and after its first 8 bytes the mark or the start of a handshake.

    Written with names for the places to jump to, which are turned into distances at the end.
    """
    lines = [
        (None, _LOAD_BYTE, 0, None, None),
        (None, _AND, 0xF0, None, None),
        (None, _JUMP_EQUAL, 0x40, "four", "not four"),
        ("not four", _JUMP_EQUAL, 0x60, "six", "no"),
        ("four", _LOAD_HALF, 6, None, None),
        (None, _JUMP_SET, 0x1FFF, "no", "whole"),  # a fragment that is not the first
        ("whole", _LOAD_HEADER_LENGTH, 0, None, None),
        (None, _LOAD_BYTE, 9, None, None),
        (None, _JUMP_EQUAL, ICMP, "marked", "tcp four"),
        ("tcp four", _JUMP_EQUAL, TCP, "marked", "udp four"),
        ("udp four", _JUMP_EQUAL, UDP, "datagram", "no"),
        ("six", _SET_X, 40, None, None),
        (None, _LOAD_BYTE, 6, None, None),
        (None, _JUMP_EQUAL, ICMP6, "marked", "tcp six"),
        ("tcp six", _JUMP_EQUAL, TCP, "marked", "udp six"),
        ("udp six", _JUMP_EQUAL, UDP, "datagram", "no"),
        ("datagram", _LOAD_HALF_X, 4, None, None),
        (None, _JUMP_EQUAL, INITIATION[0], "first", "response?"),
        ("response?", _JUMP_EQUAL, RESPONSE[0], "second", "marked"),
        ("first", _LOAD_WORD_X, 8, None, None),
        (None, _JUMP_EQUAL, INITIATION[1], "yes", "marked"),
        ("second", _LOAD_WORD_X, 8, None, None),
        (None, _JUMP_EQUAL, RESPONSE[1], "yes", "marked"),
        ("marked", _LOAD_WORD_X, 8, None, None),
        (None, _JUMP_EQUAL, mark, "yes", "no"),
        ("yes", _RETURN, SNAPLEN, None, None),
        ("no", _RETURN, 0, None, None),
    ]
    places = {line[0]: number for number, line in enumerate(lines) if line[0]}
    return [
        (code, places[yes] - number - 1 if yes else 0, places[no] - number - 1 if no else 0, operand)
        for number, (_, code, operand, yes, no) in enumerate(lines)
    ]
