"""On which line of a TOML text a key stands; the standard parser does not say. Knows nothing of networks."""

import re

HEADER = re.compile(r"\s*\[+\s*([^\]#]*?)\s*\]")
KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
PART = re.compile(r"""[A-Za-z0-9_-]+|"([^"]*)"|'([^']*)'""")


class Lines:
    """The lines of a text that the TOML parser has accepted. A line inside a list or a text of several lines may look like a key
    of its own; then the first one of a name counts, which is the true one unless the text is made to deceive.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._of: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(self._lines, 1):
            if header := HEADER.match(line):
                table = _parts(header[1])
                for length in range(1, len(table) + 1):
                    self._of.setdefault(table[:length], number)
            elif key := KEY.match(line):
                parts = (*table, *_parts(key[1]))
                for length in range(len(table) + 1, len(parts) + 1):
                    self._of.setdefault(parts[:length], number)

    def of(self, *path: str, near: str | None = None) -> int:
        """The line of the key, or of the nearest table around it; 0 for none. `near`: of this text in its value, if it is there."""
        for length in range(len(path), 0, -1):
            number = self._of.get(path[:length])
            if number is not None:
                return self._item(number, near) if near is not None and length == len(path) else number
        return 0

    def _item(self, first: int, text: str) -> int:
        for number in range(first, len(self._lines) + 1):
            line = self._lines[number - 1]
            if number > first and (HEADER.match(line) or KEY.match(line)) and "=" in line:
                break
            if text in line:
                return number
        return first


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(match[1] or match[2] or match[0] for match in PART.finditer(dotted))
