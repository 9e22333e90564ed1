"""`weft vpn init --adopt`: from wg-quick configurations that were made by hand to a file whose plan is empty. Pure."""

from collections.abc import Mapping

from weft_vpn.facts import Facts
from weft_vpn.network import Site

__all__ = ["adopted"]


def adopted(found: Mapping[str, tuple[Site, Facts]], interface: str) -> tuple[str, list[str]]:
    """The text of the file, and what to know about it, a line each."""
    raise NotImplementedError
