"""The errors of weft vpn that are no part of one concept alone. All derive from VpnError, and so from weft.WeftError."""

from weft import WeftError

__all__ = ["VpnError", "shown"]


class VpnError(WeftError):
    """Something about the network, its file or one of its servers is wrong; the message says what and what to do next."""


def shown(text: object) -> str:
    """Text that may have come from a server or a file, without what a terminal would obey: that stands as `?`. Lines stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in str(text))
