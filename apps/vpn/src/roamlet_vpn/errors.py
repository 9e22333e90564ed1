"""The errors of roamlet vpn that are no part of one concept alone. All derive from VpnError, and so from roamlet.RoamletError."""

from roamlet import RoamletError
from roamlet.cli import escaped


class VpnError(RoamletError):
    """Something about the network, its file or one of its servers is wrong; the message says what and what to do next."""

    exit_code = 1  # of the command that ends with it


def shown(text: object) -> str:
    """Text that may have come from a server or a file; what a terminal would obey is shown as an escape. Lines stay."""
    return escaped(str(text))
