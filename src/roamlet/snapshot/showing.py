"""What is in a snapshot, as plain data and as text: each tasklet's stack with its lines, variables and their sizes.

Nothing of the snapshot is run, imported or unpickled; so it may come from anywhere, and from any Python.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from roamlet.snapshot._errors import BadSnapshot
from roamlet.snapshot.image import format
from roamlet.snapshot.image.plain import FAILURES, Made, Named, Pairs, Pickles, Row, table
from roamlet.snapshot.state import NEW, STARTED, Flag, NewContents, Record, StartedContents

__all__ = ["described", "described_file", "text_of"]

DEEPEST, MOST, LONGEST = 4, 8, 200  # levels, values of each, and characters that are shown of a variable


def described(data: bytes) -> dict[str, Any]:
    """What is in a snapshot or a checkpoint, in plain data that json knows; docs/reference/snapshot.md has its form.

    Runs nothing that the bytes name. BadSnapshot, a ValueError, when they are no snapshot, damaged, or garbled.
    """
    python, marshalled, pickles = format.parts(data, any_python=True)
    read = Pickles(bytes(pickles))
    try:
        platform, version, entries, *more = table(marshalled)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pickletools has some for what no pickler of ours writes
            read.read()
        view = _View(read, [reference for reference, _ in entries], more[0] if more else {})
        return {
            "bytes": len(data),
            "python": "{}.{}".format(*python),
            "roamlet": _readable(version),
            "platform": _readable(platform),
            **view.checkpoint(),
            "holds": view.shown(view.pickles.root),
            "tasklets": list(view.tasklets()),
        }
    except FAILURES as error:
        raise BadSnapshot(
            f"the snapshot is garbled: its digest is right, but roamlet does not write such a one ({type(error).__name__}: {error})"
        ) from error
    finally:
        read.release()


def described_file(stream: BinaryIO) -> dict[str, Any]:
    """What is in a file; one that does not begin as a snapshot is not read to its end. BadSnapshot as above."""
    return described(format.read_file(stream, any_python=True))


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_word(value: Any) -> bool:
    return value is None or isinstance(value, str)


_SAID: dict[str, Callable[[Any], bool]] = {
    "saved": lambda value: isinstance(value, float),
    "process": lambda value: isinstance(value, int),
    "script": _is_word,
    "module": _is_word,
    "arguments": _is_words,
    "folder": _is_word,
    "classes": _is_words,
    "left_out": _is_words,
}


class _View:
    """Reads what was read: numbers for tasklets and channels, and names."""

    def __init__(self, pickles: Pickles, references: list[Any], about: dict[str, Any]) -> None:
        self.pickles = pickles
        self.references = references
        self.about = about
        self.contents = {id(made): content for made, content in zip(pickles.objects, pickles.contents, strict=True)}
        self.numbers: dict[int, int] = {}
        for names in (("tasklet", "plain_tasklet"), ("channel", "plain_channel")):
            found = [made for made in pickles.objects if made.by(*names)]
            self.numbers.update((id(made), number) for number, made in enumerate(found, 1))

    def checkpoint(self) -> dict[str, Any]:
        """What only a checkpoint says."""
        if not self.about:
            return {}
        path = self.about["path"]
        said = {"checkpoint": path.decode(errors="replace") if isinstance(path, bytes) else path}
        for key, wanted in _SAID.items():
            said[key] = self.about[key]
            if not wanted(said[key]):
                raise TypeError(f"the value of {key!r} has another type")
        return said

    # ---- tasklets ----

    def tasklets(self) -> Iterator[dict[str, Any]]:
        stacks = iter(self.about.get("stacks", ()))
        for made in self.pickles.objects:
            if not made.by("tasklet", "plain_tasklet"):
                continue
            content = self.contents[id(made)].values
            said = {
                "tasklet": self.numbers[id(made)],
                "class": self.shown(made.args[0]) if made.args else "roamlet.tasklet",
            }
            if content[0] == STARTED:
                started = StartedContents(*content)
                yield {
                    **said,
                    "state": self._started(made, started),
                    **self._on_its_way(started),
                    **self._handled(started.handled),
                    "frames": list(self._frames(started.records.values, next(stacks, None))),
                }
            else:
                new = NewContents(*content)
                begins = new.stage == NEW
                state = ("scheduled" if new.flags & Flag.SCHEDULED else "paused") if begins else "not bound, or ended"
                call = {"calls": self._call(new.function, new.args, new.kwargs)} if begins else {}
                yield {**said, "state": f"{state}, not begun" if begins else state, **call, "frames": []}

    def _started(self, made: Made, content: StartedContents) -> str:
        if content.direction:
            return f"blocked in {'send' if content.direction > 0 else 'receive'} at {self.shown(content.channel)}"
        if content.flags & Flag.SCHEDULED:
            return "in the run queue"
        return "in roamlet.checkpoint()" if self.about and made is self.pickles.root else "paused"

    def _on_its_way(self, content: StartedContents) -> dict[str, str]:
        if not content.flags & (Flag.HAS_VALUE | Flag.RAISES):
            return {}
        return {"raises" if content.flags & Flag.RAISES else "value": self.shown(content.value)}

    def _handled(self, handled: Any) -> dict[str, str]:
        return {} if handled is None else {"handles": self.shown(handled)}

    def _call(self, function: Any, args: Any, kwargs: Any) -> str:
        words = [self.shown(each) for each in args.values] if isinstance(args, Row) else []
        named = kwargs.pairs if isinstance(kwargs, Pairs) else []
        words += [f"{_readable(str(key))}={self.shown(value)}" for key, value in named]
        return f"{self.shown(function)}({', '.join(words)})"

    def _frames(self, records: list[Any], stack: Any) -> Iterator[dict[str, Any]]:
        for number, record in enumerate(records):
            function, unit, _, nulls, slots = record.values[: len(Record._fields)]
            if stack is None:
                frame = {"function": self._function(function), "instruction": unit}
                names: tuple[str, ...] = ()
            else:
                code, line = stack[number]
                file, name, names = self.about["code"][code]
                frame = {
                    "function": _readable(name),
                    "file": _readable(file),
                    "line": int(line),
                    "text": _readable(self.about["lines"].get((code, line), "")),
                }
            yield {**frame, "variables": list(self._variables(names, nulls, slots))}

    def _variables(self, names: tuple[str, ...], nulls: Any, slots: Row) -> Iterator[dict[str, Any]]:
        empty = {at for at in range(64) if nulls >> at & 1} if isinstance(nulls, int) else set(nulls.values)
        for at, (value, size) in enumerate(zip(slots.values, slots.sizes, strict=True)):
            if at in empty:
                continue
            name = _readable(names[at]) if at < len(names) else f"({at})"  # an operand has none
            yield {"name": name, "value": self.shown(value), "bytes": size}

    def _function(self, function: Any) -> str:
        if isinstance(function, int):
            module, name, path, *_ = self.references[function]
            return _readable(f"{module}.{name}" + "".join(f"[{each}]" for each in path))
        if isinstance(function, Made) and function.by("function"):
            return self._function(function.args[0])
        if isinstance(function, Made) and function.by("new_function"):
            _, where, name, _ = function.args
            qualified = function.state.values[1] if isinstance(function.state, Row) else name
            return _readable(f"{where}.{qualified}")
        return self.shown(function)

    # ---- values ----

    def shown(self, value: Any) -> str:
        """A value in a line of text, cut where it is long or deep."""
        text = self._text(value, DEEPEST)
        return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."

    def _text(self, value: Any, depth: int) -> str:
        if isinstance(value, int) and value.bit_length() > 256:
            return f"<int of {value.bit_length()} bits>"
        if isinstance(value, (str, bytes, bytearray)):
            return _readable(repr(value[:LONGEST])) + (f"... {len(value)} in all" if len(value) > LONGEST else "")
        if value is None or isinstance(value, (bool, int, float)):
            return repr(value)
        if isinstance(value, Named):
            return _readable(value.name if value.module in ("builtins", "__main__") else f"{value.module}.{value.name}")
        if depth == 0:
            return "..."
        if isinstance(value, Row):
            return self._row(value, depth)
        if isinstance(value, Pairs):
            return "{" + self._pairs(value.pairs, ": ", depth) + "}"
        assert isinstance(value, Made)
        return self._made_by_us(value, depth) or self._called(value, depth)

    def _values(self, values: list[Any], depth: int) -> str:
        return _listed(values, lambda each: self._text(each, depth - 1))

    def _pairs(self, pairs: list[tuple[Any, Any]], between: str, depth: int) -> str:
        def text(pair: tuple[Any, Any]) -> str:
            key, value = pair
            name = _readable(key) if between == "=" and isinstance(key, str) else self._text(key, depth - 1)
            return name + between + self._text(value, depth - 1)

        return _listed(pairs, text)

    def _row(self, row: Row, depth: int) -> str:
        inside = self._values(row.values, depth)
        if row.kind == "list":
            return f"[{inside}]"
        if row.kind == "tuple":
            return f"({inside},)" if len(row.values) == 1 else f"({inside})"
        return f"{row.kind}({{{inside}}})" if row.values else f"{row.kind}()"

    def _made_by_us(self, made: Made, depth: int) -> str | None:
        """What one of our own makers makes; None for all else."""
        if made.by("function", "new_function"):
            return f"<function {self._function(made)}>"
        if made.by("cell"):
            content = self.contents[id(made)].values
            return self._text(content[0], depth - 1) if content else "<empty cell>"
        if id(made) in self.numbers:
            return f"<{made.maker.name.removeprefix('plain_')} {self.numbers[id(made)]}>"
        if made.by("module"):
            return f"<module {self._text(made.args[0], depth)}>"
        if made.by("method"):
            return f"<method {self._text(made.args[0], depth)} of {self._text(made.args[1], depth - 1)}>"
        if made.by("exception") and isinstance(made.args[1], Row):
            return f"{self._text(made.args[0], depth)}({self._values(made.args[1].values, depth)})"
        if made.by("new_generator"):
            return f"<generator {self._function(made.args[0])}>"
        return None

    def _called(self, made: Made, depth: int) -> str:
        """What is made by a call of something, as that call."""
        state = made.state.values[0] if isinstance(made.state, Row) and made.state.values else made.state
        words = [self._values(made.args, depth)] if made.args else []
        words += [f"*[{self._values(made.values, depth)}]"] if made.values else []
        words += ["{" + self._pairs(made.pairs, ": ", depth) + "}"] if made.pairs else []
        if isinstance(state, Pairs):
            words.append(self._pairs(state.pairs, "=", depth))
        elif state is not None:
            words.append(f"state={self._text(state, depth - 1)}")
        return f"{self._text(made.maker, depth)}({', '.join(words)})"


def _listed(values: list[Any], text: Callable[[Any], str]) -> str:
    """The first of the values, and how many there are if not all are shown."""
    more = [f"... {len(values)} in all"] if len(values) > MOST else []
    return ", ".join([*map(text, values[:MOST]), *more])


def _readable(text: str) -> str:
    """Without characters that do something to a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


# ---- as text ----


def text_of(what: dict[str, Any], name: str, when: str) -> str:
    """What described() returns, for people: a traceback for each tasklet. `when` says when it was saved."""
    lines = [f"{name}: {_title(what, when)}"]
    if what.get("script"):
        lines.append(
            f"  of {_readable(' '.join([what['script'], *what['arguments'][1:]]))}, in {_readable(str(what['folder']))}"
        )
    if what.get("classes"):
        lines.append(f"  needs that script for its classes {_readable(', '.join(what['classes']))}")
    if what.get("left_out"):
        lines.append(f"  left out: the context variables {_readable(', '.join(map(repr, what['left_out'])))}")
    if "checkpoint" not in what:
        lines.append(f"  holds {what['holds']}")
    for each in what["tasklets"]:
        lines += ["", *_tasklet_lines(each)]
    return "\n".join(lines) + "\n"


def _title(what: dict[str, Any], when: str) -> str:
    kind = f"a checkpoint, {when} by process {what['process']}" if "checkpoint" in what else "a snapshot"
    return f"{kind}; {what['bytes']:,} bytes, CPython {what['python']}, roamlet {what['roamlet']}, {what['platform']}"


def _tasklet_lines(each: dict[str, Any]) -> Iterator[str]:
    kind = "" if each["class"] == "roamlet.tasklet" else f" ({each['class']})"
    yield f"tasklet {each['tasklet']}{kind}, {each['state']}"
    for key in ("calls", "value", "raises", "handles"):
        if key in each:
            yield f"  {key} {each[key]}"
    if each["frames"]:
        yield "Traceback (most recent call last):"
    for frame in each["frames"]:
        if "file" in frame:
            yield f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}'
            if frame["text"]:
                yield f"    {frame['text']}"
        else:
            yield f"  instruction {frame['instruction']}, in {frame['function']}"
        width = max((len(variable["name"]) for variable in frame["variables"]), default=0)
        for variable in frame["variables"]:
            yield f"      {variable['name']:{width}} = {variable['value']}  ({variable['bytes']:,} bytes)"
