"""What was found out about one thing, and what mends it."""

from typing import Any, Literal, NamedTuple

State = Literal["ok", "note", "wrong"]


class Finding(NamedTuple):
    """`state`: "ok"; "note", where something works with less; "wrong", where something does not work. `mend`: a line to type."""

    about: str
    state: State
    said: str
    mend: str = ""

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()
