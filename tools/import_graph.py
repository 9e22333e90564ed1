"""Which package imports which, read from the sources. Nothing is imported or run."""

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Module:
    """A file: its dotted name, the first sentence of its docstring, and the modules of ours that it imports."""

    name: str
    is_package: bool
    purpose: str
    imports: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Room:
    """A package, or a module beside packages, as one box of a map."""

    name: str
    modules: int
    purpose: str
    imports: frozenset[str]


def read(folders: Iterable[Path]) -> dict[str, Module]:
    """Every module of the packages in `folders`, by its dotted name. Imports inside functions count like all others."""
    trees = {}
    modules = {}
    for folder in folders:
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("_*.pyi")]):  # the stubs are those of modules in C
            parts = path.relative_to(folder).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            text = path.read_text(encoding="utf-8")
            trees[name] = ast.parse(text, str(path))
            modules[name] = Module(
                name, is_package, first_sentence(ast.get_docstring(trees[name]) or first_comment(text))
            )
    for name, tree in trees.items():
        modules[name].imports = set(_imported(tree, modules[name], modules)) - {name}
    return modules


def first_sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    end = paragraph.find(". ")
    return paragraph if end < 0 else paragraph[: end + 1]


def first_comment(source: str) -> str:
    """The comment that a file begins with, one of `#!` left out; its paragraphs are apart by an empty line, as in a docstring."""
    lines = itertools.dropwhile(lambda line: line.startswith("#!"), source.splitlines())
    return "\n".join(
        line.removeprefix("#").strip() for line in itertools.takewhile(lambda line: line[:1] == "#", lines)
    )


def _imported(tree: ast.Module, module: Module, known: Mapping[str, Module]) -> Iterator[str]:
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _longest(alias.name, known)
        elif isinstance(node, ast.ImportFrom):
            start = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                start = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                yield from _longest(f"{start}.{alias.name}", known)


def _longest(dotted: str, known: Mapping[str, Module]) -> Iterator[str]:
    """The module that `dotted` names, or that has it."""
    while dotted and dotted not in known:
        dotted = dotted.rpartition(".")[0]
    if dotted:
        yield dotted


def rooms(modules: Mapping[str, Module], parent: str, beside: Iterable[str] = ()) -> dict[str, Room]:
    """The packages and modules right inside of `parent`, and what they import of each other.

    The parent's own `__init__` is a room of the parent's name. Each package of `beside` is a room as a whole.
    """
    inside: dict[str, set[str]] = {}
    for name in modules:
        if (room := _room_of(name, parent, beside)) is not None:
            inside.setdefault(room, set()).add(name)
    found = {}
    for room, names in inside.items():
        targets = {_room_of(target, parent, beside) for name in names for target in modules[name].imports}
        imports = frozenset(target for target in targets if target is not None and target != room)
        found[room] = Room(room, len(names), modules[room].purpose, imports)
    return found


def _room_of(name: str, parent: str, beside: Iterable[str]) -> str | None:
    words = name.split(".")
    if words[0] in beside:
        return words[0]
    if name == parent:
        return parent
    if name.startswith(parent + "."):
        return ".".join(words[: parent.count(".") + 2])
    return None


def circles(edges: Mapping[str, Iterable[str]]) -> list[frozenset[str]]:
    """The strongly connected parts of a graph, those of one room included: what a part imports comes before it."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    parts: list[frozenset[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for target in sorted(edges[node]):
            if target not in number:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], number[target])
        if low[node] == number[node]:
            part = frozenset(stack[stack.index(node) :])
            del stack[stack.index(node) :]
            parts.append(part)

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return parts
