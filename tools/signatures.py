"""Fills in the signatures and contracts of docs/reference from the code: its pages hold no second copy of them.

    python -m tools.signatures            fails if a page is not what the code says
    python -m tools.signatures --write    makes it so

`<!-- signature: roamlet.remote.ssh -->` has the signature alone, `<!-- contract: ... -->` the docstring as well, and
`<!-- short: ... -->` leaves the options that many functions share as `**options`.
"""

import functools
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never, is_typeddict

from tools import marked

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100


def found(dotted: str) -> Any:
    """The object of this name: modules as far as there are some, attributes from there."""
    words = dotted.split(".")
    for number in range(len(words), 0, -1):
        try:
            thing = importlib.import_module(".".join(words[:number]))
        except ModuleNotFoundError:
            continue
        for word in words[number:]:
            thing = inspect.getattr_static(thing, word) if inspect.isclass(thing) else getattr(thing, word)
        return thing
    raise LookupError(f"nothing is called {dotted}")


def signature(dotted: str, *, written_out: bool = True) -> str:
    """What calls it takes, as a block of Python. Options that a TypedDict lists are written out, or left as `**options`."""
    thing, name = found(dotted), dotted.rpartition(".")[2]
    if isinstance(thing, property):
        return block(f"{name}: {annotation(inspect.signature(thing.fget).return_annotation)}")
    if isinstance(thing, (staticmethod, classmethod)):
        thing = thing.__func__
    described = inspect.signature(thing)
    parameters = []
    kinds = inspect.Parameter
    star = False
    listed = list(described.parameters.values())
    if listed and listed[0].name == "self":
        del listed[0]
    for parameter in listed:
        if parameter.annotation is Never:  # takes what is unknown to say so
            continue
        if parameter.kind is kinds.KEYWORD_ONLY and not star:
            star = True
            parameters.append("*")
        options = unpacked(parameter.annotation) if parameter.kind is kinds.VAR_KEYWORD else {}
        if options and not written_out:
            parameters.append(f"**{parameter.name}")
            continue
        if options:
            if not star:
                parameters.append("*")
            parameters += [f"{option}: {annotation(kind)} = ..." for option, kind in options.items()]
            continue
        star = star or parameter.kind is kinds.VAR_POSITIONAL
        parameters.append(parameter_text(parameter))
    returned = "" if inspect.isclass(thing) else f" -> {annotation(described.return_annotation)}"
    start = "async def " if inspect.iscoroutinefunction(thing) else "class " if inspect.isclass(thing) else "def "
    line = f"{start}{name}({', '.join(parameters)}){returned}: ..."
    if len(line) > WIDTH:
        line = "\n".join([f"{start}{name}(", *(f"    {parameter}," for parameter in parameters), f"){returned}: ..."])
    return block(line)


def parameter_text(parameter: inspect.Parameter) -> str:
    prefix = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = prefix + parameter.name
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {annotation(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        default = parameter.default
        shown = json.dumps(default) if isinstance(default, str) else getattr(default, "__name__", repr(default))
        text += f" = {shown}" if ":" in text else f"={shown}"
    return text


def unpacked(kind: Any) -> dict[str, Any]:
    """The fields of the TypedDict in `Unpack[...]`, or nothing."""
    options = getattr(kind, "__args__", ())
    return dict(options[0].__annotations__) if options and is_typeddict(options[0]) else {}


def annotation(kind: Any) -> str:
    """As it is written: without the modules of names."""
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    text = re.sub(r"\bForwardRef\('([^']+)'[^)]*\)", r"\1", text)
    text = text.replace("'", '"') if "Literal" in text else text.replace("'", "")  # of names that are defined later
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text).replace("~", "").replace("NoneType", "None")


def block(text: str) -> str:
    return f"```python\n{text}\n```"


def contract(dotted: str, *, written_out: bool = True) -> str:
    """The signature, and the docstring as Markdown."""
    written = inspect.getdoc(found(dotted)) or ""
    return f"{signature(dotted, written_out=written_out)}\n\n{written}"


KINDS: dict[str, Callable[[str], str]] = {
    "signature": signature,
    "contract": contract,
    "short": functools.partial(contract, written_out=False),
}


def main(arguments: list[str]) -> int:
    wanted = {}
    for page in sorted((ROOT / "docs/reference").glob("*.md")):
        text = old = page.read_text(encoding="utf-8")
        for kind, made in KINDS.items():
            text = marked.filled(text, kind, made)
        if text != old:
            wanted[page] = text
    return marked.settle(wanted, "tools.signatures", write="--write" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
