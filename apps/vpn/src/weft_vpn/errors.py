"""The errors of weft vpn that are no part of one concept alone. All derive from VpnError, and so from weft.WeftError."""

from weft import WeftError

__all__ = ["VpnError"]


class VpnError(WeftError):
    """Something about the network, its file or one of its servers is wrong; the message says what and what to do next."""
