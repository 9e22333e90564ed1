"""The internet of a lab: what it does to packets can be set while they are on their way."""

import json
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from roamlet_lab.errors import LabError
from roamlet_lab.machine import Machine


class Internet:
    """The relay between the gateways. Settings hold for packets that come from then on."""

    def __init__(
        self,
        path: Path,
        names: Callable[[], Iterable[str]],
        gateway: Callable[[str], Machine],
        renumber: Callable[[str, bool, bool], str],
    ) -> None:
        """`names` are the lab's offices now, `gateway` finds the gateway of one, or raises with the names that there are."""
        self._path = path
        self._names = names
        self._gateway = gateway
        self._renumber = renumber

    def set(
        self,
        *,
        delay: float | None = None,
        rtt: float | None = None,
        loss: float | None = None,
        rate: float | None = None,
        mtu: int | None = None,
        queue: int | None = None,
        blackhole: bool | None = None,
        office: str | None = None,
    ) -> None:
        """Change what is given and leave the rest.

        delay      seconds that a packet takes one way; rtt: twice that
        loss       from 0 to 1: so much of all packets is lost
        rate       Mbit/s of each office's line, in the direction to it; 0: as fast as this machine
        queue      bytes that wait for each office's line at most; what comes then is dropped
        mtu        largest packet that the line takes, of all offices or of `office`
        blackhole  True: a packet too large for a line is dropped silently, for all offices or for `office`
        """
        if delay is not None and rtt is not None:
            raise LabError("delay= and rtt= both: give one of them; rtt is twice the delay")
        one_way = rtt / 2 if rtt is not None else delay
        if one_way is not None:
            self._say(f"delay {_within('delay or rtt', one_way, 0, 60) * 1e6:.0f}")
        if loss is not None:
            self._say(f"loss {_within('loss', loss, 0, 1) * 1e6:.0f}")
        if rate is not None:
            self._say(f"rate {_within('rate', rate, 0, 1e6):f}")
        if queue is not None:
            self._say(f"queue {_within('queue', queue, 0, 1 << 30):.0f}")
        if office is not None:
            self._gateway(office)
        names = [office] if office is not None else self._names()
        for name in names:
            if mtu is not None:
                self._say(f"mtu {name} {_within('mtu', mtu, 576, 65535):.0f}")
                self._gateway(name).run(["ip", "link", "set", "wan0", "mtu", str(mtu)])
            if blackhole is not None:
                self._say(f"blackhole {name} {int(blackhole)}")

    def cut(self, office: str) -> None:
        """The office's line is down: no packet comes or goes, and no error is sent."""
        self._gateway(office)
        self._say(f"down {office}")

    def mend(self, office: str) -> None:
        """The office's line is up again."""
        self._gateway(office)
        self._say(f"up {office}")

    def renumber(self, office: str, *, flush: bool = True, dns: bool = True) -> str:
        """Give the office another WAN address, as its provider may at any time; returns the new one.

        flush  its gateway forgets the connections it knew, as most do then; without, it goes on with the old address in them
        dns    the name OFFICE.example leads to the new address at once, everywhere
        """
        return self._renumber(office, flush, dns)

    def stats(self) -> dict[str, Any]:
        """The settings and, for each office, counts of packets: taken from it, passed to it, lost, and so on."""
        answer = self._say("stats")
        return dict(json.loads(answer))

    def _say(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(10)
            try:
                connection.connect(str(self._path))
                connection.send(command.encode())
                answer = connection.recv(1 << 16).decode()
            except OSError as error:
                raise LabError(
                    f"the lab's internet does not answer ({error}); is the lab still up? roamlet lab status"
                ) from error
        if answer.startswith("error") or not answer:
            raise LabError(f"the lab's internet said: {answer or 'nothing'}")
        return answer


def _within(name: str, value: float, least: float, most: float) -> float:
    if not least <= value <= most:
        raise LabError(f"{name}={value!r}: give a number from {least:g} to {most:g}")
    return value
