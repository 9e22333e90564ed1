"""Text of other machines on a terminal: what a terminal would obey is shown as a repr has it. Knows nothing of roamlet.

The one place for it. A file or a pipe gets the text as it came: it may be data, and whatever reads it decides.
"""

import unicodedata
from typing import IO

KEPT = "\n\t\u200c\u200d"  # the last two join letters or keep them apart, in emoji and in several scripts


def escaped(text: str) -> str:
    """`text` with every control character but line break and tab, every mark that changes the direction of text, and every other
    character that is not printed written as in a repr: a backslash, x or u, and its number. CR LF becomes a line break.
    """
    if text.isprintable():
        return text
    return "".join(_shown(char) for char in text.replace("\r\n", "\n"))


def _shown(char: str) -> str:
    if char.isprintable() or char in KEPT or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode()


def escaped_for(text: str, out: IO[str]) -> str:
    """`text` as it may be written to `out`: escaped if that is a terminal."""
    return escaped(text) if out.isatty() else text


def print_escaped(text: str, out: IO[str], end: str = "\n") -> None:
    """Write `text` to `out` and flush it: escaped if that is a terminal. Blocks like any write; raises OSError as that does.

    Characters that the encoding of `out` lacks are escaped too.
    """
    text = escaped_for(text, out) + end
    try:
        out.write(text)
    except UnicodeEncodeError as error:  # nothing has been written then
        out.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
    out.flush()
