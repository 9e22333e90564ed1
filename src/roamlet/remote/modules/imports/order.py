"""In which order modules have to arrive: a graph and nothing else."""

from collections.abc import Iterable, Iterator, Mapping, Sequence


def units(edges: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """The strongly connected components, dependencies first, each with packages before what lies in them.

    Tarjan's algorithm without recursion: chains of imports are longer than Python's stack.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: list[str] = []
    is_open: set[str] = set()
    for root in edges:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []

        def enter(name: str, work: list[tuple[str, Iterator[str]]] = work) -> None:
            index[name] = low[name] = len(index)
            open_nodes.append(name)
            is_open.add(name)
            work.append((name, iter(edges[name])))

        enter(root)
        while work:
            name, rest = work[-1]
            for target in rest:
                if target not in edges:
                    continue
                if target not in index:
                    enter(target)
                    break
                if target in is_open:
                    low[name] = min(low[name], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    at = open_nodes.index(name)
                    unit = open_nodes[at:]
                    del open_nodes[at:]
                    is_open.difference_update(unit)
                    yield sorted(unit, key=lambda one: (one.count("."), index[one]))


def reached(edges: Mapping[str, Sequence[str]], roots: Iterable[str]) -> set[str]:
    """All that these roots lead to, themselves included, as far as it is in the graph."""
    found: set[str] = set()
    pending = [name for name in roots if name in edges]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [target for target in edges[name] if target in edges]
    return found
