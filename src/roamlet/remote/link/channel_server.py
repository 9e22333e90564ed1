"""What a link needs of whatever serves its channels; a link is given it, because it is above."""

from typing import Any, Protocol


class ChannelServer(Protocol):
    """What serves the channels of one link: see roamlet.remote.channels.served.Channels."""

    def __len__(self) -> int:
        """How many channels the context holds."""

    def take(self, number: int, body: bytes) -> None:
        """Take one CHANNEL frame. Never blocks. Raises ValueError for what no context sends."""

    def report(self) -> None:
        """Called when all frames that have come were taken. Never blocks."""

    def end(self) -> None:
        """The link has ended. Called on the thread for links."""

    def leave_to_parent(self) -> None:
        """In a forked child."""

    def number_of(self, channel: Any) -> int | None:
        """The number by which the context knows the channel, for one more reference. None when the link has ended."""

    def announce(self, numbers: list[int]) -> None:
        """Called right before a message is sent that refers to these."""

    def uncount(self, number: int, count: int = 1) -> None:
        """Called for references that the context has not, or no longer."""

    def resolve(self, number: int) -> Any:
        """The channel that a value from the context names."""
