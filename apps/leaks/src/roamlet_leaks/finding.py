"""What is reported: a place in a source file, what is wrong there, what that keeps alive and how it is mended.

Plain data: nothing in it refers to an object of the program that was looked at.
"""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Keeps:
    """What would be gone if the exceptions of one finding were."""

    objects: int
    bytes: int
    """As sys.getsizeof counts each of them; memory that an extension allocates on its own is not seen."""
    frames: tuple[str, ...]
    """Of functions that have ended, `path:line in function`, the one that began first in front: the longest-lived."""

    def __str__(self) -> str:
        things = "1 object" if self.objects == 1 else f"{self.objects:,} objects"
        return f"{things}, {size(self.bytes)}"


@dataclass(frozen=True)
class Finding:
    """One line of a program that keeps exceptions, whatever found it."""

    kind: str
    """`cycle`: only the cyclic collector frees it. `lingering`: something alive holds it. `risk`: seen in the source alone."""
    code: str
    """RL001 and so on: see `roamlet_leaks.CASES`."""
    path: str
    line: int
    """The line that stores the exception; where that cannot be told, the one that it passed in the same function."""
    function: str
    """Its qualified name; `<module>` for the lines outside all functions."""
    name: str
    """The variable, attribute or container that holds it, as the source says it: `result`, `self.error`, `errors`."""
    message: str
    mend: str
    column: int = 1
    """As editors count: the first is 1."""
    times: int = 1
    """How many exceptions of this line there were."""
    keeps: Keeps | None = None
    """Known only where the program was run."""

    def __str__(self) -> str:
        """`path:line:column: CODE message`, which editors and CI read."""
        return f"{shown(self.path)}:{self.line}:{self.column}: {self.code} {shown(self.message)}"

    def plain(self) -> dict[str, Any]:
        """As JSON has it: the fields by name, `keeps` an object or None."""
        fields = asdict(self)
        if self.keeps is not None:
            fields["keeps"]["frames"] = list(self.keeps.frames)
        return fields


def shown(text: str) -> str:
    """`text` in one line that may go to any terminal: a name of a file may hold anything but a slash."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def size(number: float) -> str:
    """`number` bytes as people read it."""
    for unit in ("bytes", "KB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"
