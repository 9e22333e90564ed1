"""How one server and its tunnels are, whatever the backend. wireguard/status.py and ssh/status.py have the tunnels."""

from dataclasses import dataclass
from typing import Any, Literal

State = Literal["up", "idle", "down"]


@dataclass(frozen=True, kw_only=True)
class TunnelStatus:
    """A tunnel as one of its ends reports it."""

    peer: str | None  # the site; None: a key that is no site's
    state: State
    rx: int  # bytes
    tx: int
    rx_rate: float | None = None  # bytes a second; None in the first update
    tx_rate: float | None = None

    def label(self) -> str:
        """The peer's name, or its unknown key."""
        return self.peer or ""

    def since(self) -> str:
        """When it was last known to work, in words."""
        raise NotImplementedError

    def by(self) -> str:
        """By which address or device it goes, in words."""
        raise NotImplementedError

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class SiteStatus:
    """One server. `error` says why nothing else is known."""

    site: str
    error: str | None = None
    public_key: str | None = None
    listen_port: int | None = None
    mtu: int | None = None
    up: bool = False
    reached: bool = True
    peers: tuple[TunnelStatus, ...] = ()


def rates(seconds: float, now: tuple[int, int], before: tuple[int, int] | None) -> tuple[float | None, float | None]:
    """Bytes a second, received and sent; None where there is no earlier count, or where the counters began anew."""
    if before is None or seconds <= 0 or now[0] < before[0] or now[1] < before[1]:
        return None, None
    return (now[0] - before[0]) / seconds, (now[1] - before[1]) / seconds


def age_text(seconds: float | None) -> str:
    """How long ago, in words."""
    if seconds is None:
        return "never"
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"
