"""Files of /proc as text. Names in them are anybody's: bytes that are no UTF-8, and line ends of other systems, are kept."""

from typing import TextIO


def opened(path: str) -> TextIO:
    """The file, opened for reading. Raises OSError."""
    return open(path, encoding="utf-8", errors="surrogateescape", newline="\n")
