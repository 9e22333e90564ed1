"""The contexts that a process has opened, and its calls in flight: what roamlet.diagnose.asking.contexts() finds inside.

They are found by what the process has published, a dictionary whose address the core's table has. The classes that are read have
`__slots__`: a type says itself where those are, in the same way in all versions of CPython.
"""

from typing import Protocol

from roamlet.diagnose import model
from roamlet.diagnose.outside.errors import Torn
from roamlet.diagnose.outside.python import Objects
from roamlet.diagnose.outside.referring import Walked, variables

MOST = 10_000  # contexts, and calls of one
REQUEST = ("text", "references", "outgoing", "body")  # slots of the class of a call that is being made


class Published(Protocol):
    """What is needed of the reader."""

    addresses: dict[str, int]
    objects: Objects


class Contexts:
    """What one walk has read. `calls`: host and function of each call in flight, by the address of what gets its answer."""

    def __init__(self) -> None:
        self.found: list[model.Context] = []
        self.names: dict[int, str] = {}  # of each context, by the address of its call engine
        self.calls: dict[int, tuple[str, str]] = {}
        self.waiting: dict[int, model.Call] = {}  # the calls of `found`, by the same addresses


def published(reader: Published, name: str) -> int:
    """The object that the process has published by this name; 0 for none, and where the form of dictionaries is unknown."""
    objects = reader.objects
    at = objects.memory.word(reader.addresses["published"]) if "published" in reader.addresses else 0
    if at == 0 or "keys.indices" not in objects.numbers:
        return 0
    return next((value for key, value in objects.dict_items(at) if objects.string(key) == name), 0)


def read_contexts(reader: Published) -> Contexts:
    """Raises what DAMAGED lists."""
    made, objects, several = Contexts(), reader.objects, published(reader, "contexts")
    for calls in objects.referred_to(several) if several else ():
        context = _context(objects, calls, made)
        made.names[calls] = context.name
        made.found.append(context)
    made.found.sort(key=lambda each: each.name)
    return made


def _context(objects: Objects, calls: int, made: Contexts) -> model.Context:
    link, shipping, facts, via = (objects.member(calls, name) for name in ("link", "shipping", "facts", "via"))
    sender, inline = objects.member(link, "sender"), objects.member(link, "_inline")
    context = model.Context(
        name=objects.string(objects.member(link, "name")),
        transport=objects.type_name(objects.type_of(objects.member(link, "transport"))).rpartition(".")[2].lower(),
        process=_number(objects, facts, "pid"),
        python=".".join(map(objects.value, objects.tuple_words(objects.member(facts, "python")))),
        state="open" if objects.is_none(objects.member(sender, "end")) else "closed",
        made=_number(objects, link, "calls"),
        bytes_down=_number(objects, sender, "bytes_down"),
        bytes_up=_number(objects, link, "_bytes_read"),
        modules=_number(objects, shipping, "modules"),
        round_trips=_number(objects, shipping, "round_trips"),
    )
    if not objects.is_none(via):
        context.via = objects.string(objects.member(objects.member(via, "link"), "name"))
    if not objects.is_none(inline):
        context.bytes_up = (context.bytes_up or 0) + _number(objects, inline, "bytes_up")
    entries = objects.dict_items(objects.member(objects.member(link, "in_flight"), "calls"))
    for _, entry in entries[:MOST]:
        answered, text = objects.tuple_words(entry)[:2]
        call = model.Call(objects.string(text))
        context.calls.append(call)
        made.calls[answered] = context.name, call.function
        made.waiting[answered] = call
    return context


def _number(objects: Objects, at: int, name: str) -> int:
    number = objects.number(objects.member(at, name))
    if number is None:
        raise Torn(f"no number at {at:#x}")
    return number


def being_made(reader: Walked, t: int, task: tuple[int, ...], contexts: Contexts) -> tuple[str | None, str] | None:
    """Host and function of the call that a tasklet makes, which may read its own answer from the link, or wait for room to send."""
    host = text = None
    for value, type_ in variables(reader, t, task):
        if value in contexts.names:
            host = host or contexts.names[value]
        elif text is None and _is_request(reader.objects, type_):
            text = reader.objects.string(reader.objects.member(value, "text"))
    return None if text is None else (host, text)


def _is_request(objects: Objects, type_: int) -> bool:
    slots = objects.slots(type_)
    return all(name in slots for name in REQUEST)
