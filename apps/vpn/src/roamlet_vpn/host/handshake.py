"""Has the new peers of a tunnel shake hands now, rather than when WireGuard gets round to it.

Two ends that come up within the time that a packet takes from one to the other call each other at the same moment. Each answers,
takes itself for the one that was called, and waits for the other to send first. A call that finds the other end not yet there is
lost. Both are tried again after REKEY_TIMEOUT, five seconds (WireGuard's paper, section 6.4). So one end of each pair, once both
are up, looks for their handshakes, and calls again where one is missing.
"""

import re
import socket
import time

from roamlet_vpn.host import act, rollback, system

PULSE = 0.05  # seconds between two looks
FIRST_PATIENCE = 0.5  # seconds until a peer is called again; twice as long each time: an answer may be on its way
HOLDS = 180  # seconds: REJECT_AFTER_TIME, after which a session carries nothing any more
DISCARD = 9  # the port of the datagram that makes WireGuard call


def shake_hands(interface, token, peers, patience):
    """Wait until these peers have shaken hands, `patience` seconds at the most; return the keys of those that have not.

    `peers` are their addresses in the tunnel by their public keys. One that does not answer is taken out and put in again, while
    the rollback of `token` is armed; peers that have a session are not touched. Raises CannotDo. Blocks.
    """
    system.checked_interface(interface)
    deadline = time.monotonic() + patience
    wait = FIRST_PATIENCE
    missing = _missing(interface, peers)
    for key in missing:
        _send(peers[key])
    again = time.monotonic() + wait
    while missing and time.monotonic() < deadline:
        time.sleep(PULSE)
        missing = _missing(interface, peers)
        if missing and time.monotonic() >= again:
            for key in missing:
                with rollback.turn(token):
                    _call_again(interface, key)
                _send(peers[key])
            wait *= 2
            again = time.monotonic() + wait
    return sorted(missing)


def _missing(interface, peers):
    """Those that are peers here and have no session."""
    missing = []
    now = time.time()
    for line in system.must(["wg", "show", interface, "latest-handshakes"]).splitlines():
        key, _, seconds = line.partition("\t")
        if key in peers and not now - int(seconds) <= HOLDS:
            missing.append(key)
    return missing


def _send(address):
    """A datagram, for which WireGuard calls a peer without keepalive too. Whether it arrives does not matter."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(b"", (address, DISCARD))
        except OSError:
            return  # no route: only a keepalive can help


def _call_again(interface, key):
    """Take the peer out and put it in as it is configured, so that it forgets when it called last. One without endpoint stays."""
    part = _part(act.stripped(interface), key)
    if part is None or not re.search(r"^endpoint\s*=", part, re.IGNORECASE | re.MULTILINE):
        return
    system.must(["wg", "set", interface, "peer", key, "remove"])
    system.must(["wg", "addconf", interface, "/dev/stdin"], part)


def _part(text, key):
    """The section of a stripped configuration that is about this peer."""
    for part in re.split(r"(?m)^(?=\[)", text):
        lines = [line.partition("=") for line in part.splitlines()]
        if any(name.strip().lower() == "publickey" and value.strip() == key for name, _, value in lines):
            return part
    return None
