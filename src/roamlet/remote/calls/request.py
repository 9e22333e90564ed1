"""Calls as they are sent: the function's name and the encoded arguments, with what must be sent before them. Sends nothing."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roamlet import _observing as observing
from roamlet.remote import modules
from roamlet.remote.channels.served import ChannelReferences
from roamlet.remote.shipping.shipping import part_name
from roamlet.remote.values.registry import Body, Outgoing
from roamlet.wire import codec
from roamlet.wire.values import large_messages

HEADS = 4096  # functions of which the encoded beginning of a call is kept
ARGUMENT_NAMES = ("module", "function", "args", "kwargs", "trace context")


class Request:
    """A call, encoded. `references` and `outgoing` are those of a call with more than plain values.

    `function` is the one whose modules must be sent with the call. It is None for a function of roamlet's own, which is on the
    target by then.
    """

    __slots__ = ("body", "function", "name", "observed", "outgoing", "references", "text")

    def __init__(
        self,
        function: Callable[..., Any] | None,
        name: modules.FunctionName,
        text: str,
        body: Body,
        references: ChannelReferences | None = None,
        outgoing: Outgoing | None = None,
    ) -> None:
        self.function: Callable[..., Any] | None = function
        self.name: modules.FunctionName = name
        self.text: str = text
        self.body: Body = body
        self.references: ChannelReferences | None = references
        self.outgoing: Outgoing | None = outgoing
        self.observed: observing.Observed | None = None

    @classmethod
    def to_payload(cls, module: str, function: str, args: Sequence[Any] = ()) -> "Request":
        """A call, with plain values, of a function of roamlet.wire that the target has."""
        name = modules.FunctionName(module, function)
        return cls(
            None,
            name,
            part_name(module.removeprefix("roamlet.wire.")),
            codec.dumps((module, function, tuple(args), None)),
        )

    def share(self) -> None:
        """Let it be sent in pieces that intermediaries keep: others like it may follow."""
        assert self.outgoing is not None
        if isinstance(self.body, bytes) and len(self.body) > large_messages.PIECE:
            self.body = large_messages.LargeMessage(self.body)
            self.outgoing.parts = (*self.outgoing.parts, "values.large_messages")
        if isinstance(self.body, large_messages.LargeMessage):
            self.body.shared = True

    def let_go_of_kept(self) -> None:
        """Let the context drop the values in it that were released: it was answered, or gets no answer."""
        if self.outgoing is not None:
            self.outgoing.kept = []

    def let_go(self) -> None:
        """Release its channels, because it is not sent after all."""
        if self.observed is not None:
            self.observed.failed(sys.exception())
        if self.references is not None:
            self.references.discard()


heads: dict[modules.FunctionName, tuple[str, bytes]] = {}
"""Of functions that were called: what head_of() returns."""


def head_of(name: modules.FunctionName) -> tuple[str, bytes]:
    """Return the function's name in messages, and the encoded beginning of its calls: all before the arguments."""
    called: bytes = codec.dumps((*name, None, None))
    if len(heads) >= HEADS:
        heads.clear()
    made = _name_in_messages(name), called[:-2]  # without the two None
    heads[name] = made
    return made


def is_own(name: modules.FunctionName) -> bool:
    """Whether it is a function of roamlet's own."""
    return name.module.partition(".")[0] == "roamlet"


def _name_in_messages(name: modules.FunctionName) -> str:
    if name.module == modules.name_on_target():
        return f"__main__.{name.qualname}"
    if name.module.startswith("roamlet.wire."):
        return part_name(name.module.removeprefix("roamlet.wire."))
    return str(name)


def encoded(
    arguments: tuple[Any, ...], outgoing: Outgoing, references: ChannelReferences
) -> tuple[Body, tuple[str, str] | None]:
    """The body of CALL, or what in it cannot travel: (sentence, path)."""
    try:
        return outgoing.dumps(arguments, ARGUMENT_NAMES[: len(arguments)], references.refer), None
    except codec.CannotTravel as error:
        return b"", (str(error), error.path)


def no_bytes(*_: object) -> bytes:
    """What codec.dumps returns, as its `otherwise`, for arguments that are not plain values."""
    return b""


def name_of_value(function: Any) -> str:
    """The name in messages of a function that no other process finds by its name."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or type(function).__module__}.{name}"


def as_called(text: str) -> str:
    """A path as the caller knows it, of a function that travels as the first argument of another."""
    if text.startswith("args[0]"):
        return "function" + text.removeprefix("args[0]")
    return "args" + text.removeprefix("args[1]") if text.startswith("args[1]") else text


def positional(args: Sequence[Any], function: str) -> tuple[Any, ...]:
    """Raises TypeError for what a caller meant as the only argument."""
    if isinstance(args, (str, bytes)) or not isinstance(args, (tuple, list)):
        raise TypeError(f"args must be a tuple or a list, not {args!r:.80}: context.call({function}, (value,))")
    return tuple(args)


def keywords_of(kwargs: Mapping[str, Any] | None, function: str) -> dict[str, Any] | None:
    """Raises TypeError for keys that cannot be names of parameters."""
    if kwargs is None:
        return None
    if not isinstance(kwargs, Mapping) or not all(type(name) is str for name in kwargs):
        raise TypeError(f"kwargs must be a dict whose keys are str, not {kwargs!r:.80}, in the call of {function}")
    return dict(kwargs)
