"""The errors of roamlet vpn that are no part of one concept alone. All derive from VpnError, and so from roamlet.RoamletError."""

from roamlet import RoamletError

__all__ = ["VpnError", "shown"]


class VpnError(RoamletError):
    """Something about the network, its file or one of its servers is wrong; the message says what and what to do next."""


def shown(text: object) -> str:
    """Text that may have come from a server or a file, without what a terminal would obey: that stands as `?`. Lines stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in str(text))
