"""Echo requests by raw sockets: many at once, from a chosen address, of a chosen size, with DF, and what came back of each.

Needs root; no ping program, which small systems lack.
"""

import errno
import os
import select
import socket
import struct
import time

IP_MTU_DISCOVER, IPV6_MTU_DISCOVER = 10, 23
PROBE = 3  # IP_PMTUDISC_PROBE: set DF, and believe no earlier answer about the path
SOL_RAW, ICMP_FILTER = 255, 1
ICMP6_FILTER = 1

# ICMP errors by (family, type, code); others are shown by their numbers.
ERRORS = {
    (4, 3, 0): "network unreachable",
    (4, 3, 1): "host unreachable",
    (4, 3, 3): "port unreachable",
    (4, 3, 4): "too large",
    (4, 3, 9): "prohibited",
    (4, 3, 10): "prohibited",
    (4, 3, 13): "prohibited",
    (4, 11, 0): "too many hops",
    (6, 1, 0): "network unreachable",
    (6, 1, 1): "prohibited",
    (6, 1, 3): "host unreachable",
    (6, 2, 0): "too large",
    (6, 3, 0): "too many hops",
}


def checksum(data):
    """The internet's checksum of bytes."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def request(kind, identifier, number, payload):
    """An ICMP message for IPv4 with its checksum; `kind` 8 is a request, 0 a reply."""
    head = struct.pack("!BBHHH", kind, 0, 0, identifier, number)
    return struct.pack("!BBHHH", kind, 0, checksum(head + payload), identifier, number) + payload


class Echoes(object):
    """Sends requests and gathers what comes back, until `seconds` after the last one.

    Each probe is a dict: `number`, `source` (an address or None), `to`, `count`, `size` (of the whole IP packet), `df`, `patient`.
    Its answer: {"sent", "times": seconds of each that came back, "error": what went wrong first, or None, "by": the
    host that reported it}.
    """

    def __init__(self, mark):
        self.mark = mark  # packs what stands first in each payload: mark(probe, packet) -> bytes
        self.identifier = struct.unpack("!H", os.urandom(2))[0]
        self._senders = {}
        self._under_way = {}  # (family, number in the header) -> (probe, sent at)
        self._next = 0
        self.answers = {}

    def run(self, probes, interval, seconds, patience):
        """All probes at once, the packets of each `interval` seconds apart. Blocks for as long as that takes, and until all came
        back: `seconds` at the most, or `patience` while a probe marked `patient` has no answer at all.
        """
        self._receivers = {}
        try:
            for probe in probes:
                self.answers[probe["number"]] = {"sent": 0, "times": [], "error": None, "by": None}
            rounds = max([probe["count"] for probe in probes] or [0])
            for turn in range(rounds):
                until = time.monotonic() + interval
                for probe in probes:
                    if turn < probe["count"]:
                        self._send(probe, turn)
                        self._receive(0)
                if turn < rounds - 1:
                    self._receive(until - time.monotonic())
            began = time.monotonic()
            while self._under_way and time.monotonic() - began < (patience if self._silent(probes) else seconds):
                self._receive(0.05)
        finally:
            for one in list(self._senders.values()) + list(self._receivers.values()):
                one.close()
        return self.answers

    def _silent(self, probes):
        """Whether a patient probe that was sent has got neither an answer nor an error yet."""
        waiting = [self.answers[probe["number"]] for probe in probes if probe.get("patient")]
        return any(answer["sent"] and not answer["times"] and answer["error"] is None for answer in waiting)

    def _send(self, probe, turn):
        family = 6 if ":" in probe["to"] else 4
        answer = self.answers[probe["number"]]
        head = 48 if family == 6 else 28
        payload = self.mark(probe["number"], turn)
        payload += b"\0" * (probe["size"] - head - len(payload))
        self._next = (self._next + 1) & 0xFFFF
        message = request(128 if family == 6 else 8, self.identifier, self._next, payload)
        try:
            if family not in self._receivers:
                self._receivers[family] = _receiver(family)
            sender = self._sender(family, probe["source"], probe["df"])
            answer["sent"] += 1
            self._under_way[family, self._next] = (probe["number"], time.monotonic())
            sender.sendto(message, (probe["to"], 0))
        except OSError as error:
            self._under_way.pop((family, self._next), None)
            if answer["error"] is None:
                answer["error"] = errno.errorcode.get(error.errno, str(error))

    def _sender(self, family, source, df):
        key = (family, source, df)
        if key not in self._senders:
            sender = self._senders[key] = _raw(family)
            _refuse_all(sender, family)
            level, option = (41, IPV6_MTU_DISCOVER) if family == 6 else (0, IP_MTU_DISCOVER)
            sender.setsockopt(level, option, PROBE if df else 0)
            if source:
                sender.bind((source, 0))
        return self._senders[key]

    def _receive(self, seconds):
        """Take what comes for so long; at 0, what is there."""
        ends = time.monotonic() + seconds
        while True:
            left = max(0, ends - time.monotonic())
            readable = select.select(list(self._receivers.values()), [], [], left)[0]
            if not readable:
                return
            for family, receiver in self._receivers.items():
                if receiver in readable:
                    packet, address = receiver.recvfrom(2048)
                    self._take(family, packet, address[0], time.monotonic())

    def _take(self, family, packet, sender, now):
        if family == 4:  # raw sockets of IPv4 show the header, those of IPv6 do not
            packet = packet[(bytearray(packet[:1])[0] & 15) * 4 :]
        if len(packet) < 8:
            return
        kind, code, _, identifier, number = struct.unpack("!BBHHH", packet[:8])
        is_reply = kind == (129 if family == 6 else 0)
        if not is_reply:  # an error tells which packet it is about
            inner = packet[8:]
            inner = inner[40:48] if family == 6 else inner[(bytearray(inner[:1] or b"\0")[0] & 15) * 4 :][:8]
            if len(inner) < 8:
                return
            identifier, number = struct.unpack("!HH", inner[4:8])
        if identifier != self.identifier or (family, number) not in self._under_way:
            return
        probe, sent = self._under_way.pop((family, number))
        answer = self.answers[probe]
        if is_reply:
            answer["times"].append(now - sent)
        elif answer["error"] is None:
            answer["error"] = ERRORS.get((family, kind, code), "icmp %d/%d" % (kind, code))
            answer["by"] = sender


def _raw(family):
    if family == 6:
        return socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)


def _receiver(family):
    receiver = _raw(family)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    receiver.setblocking(False)
    return receiver


def _refuse_all(sender, family):
    """Have the kernel give a socket that only sends nothing: every raw socket gets a copy of every answer."""
    if family == 6:
        sender.setsockopt(58, ICMP6_FILTER, b"\xff" * 32)
    else:
        sender.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("I", 0xFFFFFFFF))
