"""What is saved: a call chain so many frames deep that waits in a channel, and what its frames hold as plain objects."""

from dataclasses import dataclass
from typing import Any

OWN = 3  # frames of roamlet's chain that are not levels of the recursion: outermost(), the last deep() and leaf()


def leaf(ch: Any) -> int:
    value: int = ch.receive()
    return value * 10


def deep(ch: Any, levels: int) -> int:
    if levels:
        return deep(ch, levels - 1) + 1
    return leaf(ch)


def outermost(ch: Any, levels: int) -> int:
    return deep(ch, levels)


def tasklet(frames: int) -> Any:
    """A tasklet of roamlet's, so many frames deep, that waits in a channel of its own."""
    import roamlet  # here, so that the sides have nothing of each other

    made = roamlet.tasklet(outermost)(roamlet.channel(), frames - OWN)
    made.run()
    return made


@dataclass
class Frame:
    """What a frame holds, as a plain object."""

    function: str
    place: int
    variables: dict[str, Any]


def plain(frames: int) -> list[Frame]:
    """So many plain objects."""
    return [Frame("bench.snapshot.chain.deep", 12, {"ch": None, "levels": number}) for number in range(frames)]
