"""What runs on servers for a check: packets read, the filter in the kernel's own terms, counters in the tools' own words."""

import os
import struct
import subprocess
import sys

import pytest

from roamlet_vpn.host.check import counters, echo, probe, stream, watch

MARK = 0x12345678


def ip4(protocol, body, fragment=0):
    head = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, fragment, 64, protocol, 0, b"\x0a\0\0\1", b"\x0a\0\0\2"
    )
    return head + body


def ip6(protocol, body):
    return struct.pack("!IHBB", 6 << 28, len(body), protocol, 64) + b"\0" * 15 + b"\1" + b"\0" * 15 + b"\2" + body


def udp(payload):
    return struct.pack("!HHHH", 5, 51820, 8 + len(payload), 0) + payload


def tcp(source, to, acknowledged, flags):
    return struct.pack("!HHIIBBHHH", source, to, 77, acknowledged, 5 << 4, flags, 1024, 0, 0)


def marked(mark=MARK):
    return watch.MARK.pack(mark, 7, 3)


PACKETS = [
    (ip4(1, echo.request(8, 1, 1, marked())), ["request", 7, 3, "10.0.0.1", "10.0.0.2", 36]),
    (ip4(1, echo.request(0, 1, 1, marked())), ["reply", 7, 3, "10.0.0.1", "10.0.0.2", 36]),
    (ip4(17, udp(marked() + b"\0" * 20)), ["udp", 7, 3, "10.0.0.1", "10.0.0.2", 56]),
    (ip6(58, echo.request(128, 1, 1, marked())), ["request", 7, 3, "::1", "::2", 56]),
    (ip6(17, udp(marked())), ["udp", 7, 3, "::1", "::2", 56]),
    (ip4(17, udp(b"\1\0\0\0" + b"\5" * 144)), ["initiation", -1, 0, "10.0.0.1", "10.0.0.2", 176]),
    (ip4(17, udp(b"\2\0\0\0" + b"\5" * 88)), ["response", -1, 0, "10.0.0.1", "10.0.0.2", 120]),
    (ip4(17, udp(b"\4\0\0\0" + b"\5" * 144)), None),  # WireGuard's data
    (ip4(1, echo.request(8, 1, 1, marked(MARK + 1))), None),  # another check's
    (ip4(6, tcp(20007, 22, MARK, 0x02)), ["request", 7, 22, "10.0.0.1", "10.0.0.2", 40]),
    (ip4(6, tcp(22, 20007, MARK, 0x12)), ["reply", 7, 22, "10.0.0.1", "10.0.0.2", 40]),
    (ip4(6, tcp(445, 20007, MARK, 0x14)), ["reply", 7, 445, "10.0.0.1", "10.0.0.2", 40]),  # refused
    (ip6(6, tcp(20007, 22, MARK, 0x02)), ["request", 7, 22, "::1", "::2", 60]),
    (ip4(6, tcp(20007, 22, MARK + 1, 0x02)), None),  # another connection
    (ip4(17, udp(marked()), fragment=100), None),
    (ip4(1, b"\3\1\0\0" + b"\0" * 40), None),
    (ip4(17, b""), None),
    (b"", None),
    (b"\xff" * 64, None),
]


@pytest.mark.parametrize(("packet", "note"), PACKETS)
def test_packets_are_read(packet, note):
    if packet[6:8] != struct.pack("!H", 100):  # of fragments the filter sees to it that none comes here
        assert watch.read(packet, MARK) == note


@pytest.mark.parametrize(("packet", "note"), PACKETS)
def test_the_filter_passes_what_is_read_and_nothing_else(packet, note):
    """The program as the kernel would run it."""
    program = watch._filter(MARK)
    accumulator = index = at = 0
    while True:
        code, yes, no, operand = program[at]
        at += 1
        try:
            if code == watch._LOAD_BYTE:
                (accumulator,) = struct.unpack_from("!B", packet, operand)
            elif code == watch._LOAD_HALF:
                (accumulator,) = struct.unpack_from("!H", packet, operand)
            elif code == watch._LOAD_HALF_X:
                (accumulator,) = struct.unpack_from("!H", packet, index + operand)
            elif code == watch._LOAD_WORD_X:
                (accumulator,) = struct.unpack_from("!I", packet, index + operand)
            elif code == watch._LOAD_HEADER_LENGTH:
                index = (packet[operand] & 15) * 4
            elif code == watch._SET_X:
                index = operand
            elif code == watch._AND:
                accumulator &= operand
            elif code == watch._JUMP_EQUAL:
                at += yes if accumulator == operand else no
            elif code == watch._JUMP_SET:
                at += yes if accumulator & operand else no
            else:
                assert code == watch._RETURN
                passed = bool(operand)
                break
        except (struct.error, IndexError):
            passed = False  # past the end of a packet the kernel refuses it
            break
    assert passed is (note is not None)


def test_the_checksum_of_a_request_is_right():
    assert echo.checksum(echo.request(8, 77, 5, b"odd")) == 0


TC = """qdisc noqueue 0: dev lo root refcnt 2
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
qdisc mq 0: dev eth0 root
 Sent 900 bytes 9 pkt (dropped 7, overlimits 0 requeues 0)
qdisc fq_codel 0: dev eth0 parent :1 limit 10240p flows 1024
 Sent 900 bytes 9 pkt (dropped 7, overlimits 0 requeues 1)
"""
SS = """ESTAB 0 0 192.168.10.100:22 198.51.100.9:40000
\t cubic wscale:7,7 rto:280 bytes_sent:1000 bytes_retrans:20 bytes_acked:980 segs_out:9
ESTAB 0 0 192.168.10.100:41000 198.51.100.2:22
\t cubic bytes_sent:500 bytes_acked:500
ESTAB 0 0 192.168.10.100:41002 198.51.100.2:443
\t cubic bytes_sent:9999 bytes_retrans:9999
"""


def test_counters_in_the_words_of_the_tools():
    assert counters.queues(TC) == {"lo": 0, "eth0": 7}
    assert counters.retransmissions(SS) == [1500, 20]
    assert counters.retransmissions("") is None and counters.queues("") == {}


@pytest.mark.usefixtures("iproute2")
def test_counters_of_this_machine_are_plain_numbers():
    found = counters.counters(51820)
    assert found["devices"]["lo"]["rx_packets"] >= 0 and set(found["udp"]) >= {"RcvbufErrors"}


@pytest.mark.parametrize("name", ["net/../../etc/passwd", "/etc/passwd", "net"])
def test_settings_are_only_settings(name):
    with pytest.raises(ValueError, match="is no setting"):
        probe._setting(name)


def test_a_stream_is_counted_where_it_arrives():
    port = stream.listen("127.0.0.1")
    assert stream.send("127.0.0.1", "127.0.0.1", port, 0.1) is None
    count, seconds, error = stream.received(port)
    assert count > 0 and seconds > 0 and error is None
    assert "refused" in stream.send("127.0.0.1", "127.0.0.1", port, 0.1)


ALONE = """
import sys
sys.path[:0] = [%r]
from roamlet_vpn.host.check import probe
order = {"mark": 99, "interval": 0.01, "wait": 0.2, "patience": 0.5, "port": 9, "bounces": [], "routes": ["127.0.0.1"],
         "settings": ["net/ipv4/ip_forward"], "passages": [],
         "segments": [{"number": 6, "source": "127.0.0.1", "to": "127.0.0.1", "ports": [22, 445]}],
         "datagrams": [{"number": 5, "to": "127.0.0.1", "port": 9, "sizes": [100, 200, 65000]}],
         "echoes": [{"number": 1, "source": "127.0.0.1", "to": "127.0.0.1", "count": 3, "size": 84, "df": True, "patient": True},
                    {"number": 2, "source": None, "to": "192.0.2.1", "count": 1, "size": 84, "df": False, "patient": False}]}
import subprocess
subprocess.check_call(["ip", "link", "set", "lo", "up"])
begun = probe.begin(99, ["127.0.0.0/24"])
measured = probe.measure(order)
print([begun, measured, probe.finish(99)])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace of its own needs root")
@pytest.mark.usefixtures("iproute2")
def test_a_whole_measurement_in_a_namespace_of_its_own():
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(probe.__file__))))
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-I", "-c", ALONE % source],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    begun, measured, seen = eval(done.stdout, {"__builtins__": {}})
    assert begun["missing"] == {}
    (_, own), (_, far) = measured["echoes"]
    assert own["sent"] == 3 and len(own["times"]) == 3 and own["error"] is None
    assert far["times"] == [] and far["error"] == "ENETUNREACH"
    assert measured["datagrams"] == [
        [5, {"sent": [100, 200, 65000], "error": "ECONNREFUSED", "address": "127.0.0.1"}]
    ] or (
        measured["datagrams"][0][1]["error"] == "ECONNREFUSED"  # and what was sent into it is not counted
    )
    assert measured["routes"]["127.0.0.1"]["dev"] == "lo" and measured["settings"] == {"net/ipv4/ip_forward": "0"}
    kinds = {(direction, kind, number) for _, _, direction, kind, number, *_ in seen}
    assert {("out", "request", 1), ("in", "request", 1), ("out", "reply", 1), ("in", "reply", 1)} <= kinds
    assert ("in", "udp", 5) in kinds
    # No program listens there, so each connection is refused, which is an answer.
    assert measured["segments"] == [[6, {"error": None}]]
    asked = {(direction, kind, port) for _, _, direction, kind, number, port, *_ in seen if number == 6}
    assert asked == {(way, kind, port) for way in ("in", "out") for kind in ("request", "reply") for port in (22, 445)}
