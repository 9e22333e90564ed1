"""Cycles of waiting as graphs of numbers, whether they were found from inside or from outside. Standard library alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from roamlet.diagnose import model
from roamlet.diagnose.render import place_of

FOLLOWED = 64  # tasklets that could end a wait, for the search of cycles; with more of them, only a wait that never ends is in one
CYCLES = 20  # that are reported


def closed(left: set[int], wakers: Mapping[int, Iterable[int]]) -> set[int]:
    """The largest part of these tasklets each of which can be woken by others of that part alone."""
    left = set(left)
    changed = True
    while changed:
        gone = {number for number in left if not all(each in left for each in wakers[number])}
        left -= gone
        changed = bool(gone)
    return left


def add_cycles(
    process: model.Process,
    tasklets: Mapping[int, model.Tasklet],
    edges: Mapping[int, Sequence[int]],
    waiting: Iterable[int],
    stuck: set[int],
    possible: set[int],
    proof: str = "",
) -> None:
    """Add the cycles to `process`: those that are certain first.

    `edges`: the tasklets that could end a wait, as far as they are known. `waiting`: those that wait at all. `stuck`: nothing else
    can wake them. `possible`: nothing else is known to. `proof`: what tells for sure where the latter alone is known.
    """
    waits = set(waiting)
    known = {number: [each for each in below[:FOLLOWED] if each in waits] for number, below in edges.items()}
    more = 0
    for part in components(known):
        if len(part) < 2 and part[0] not in known[part[0]]:
            continue
        sure = all(number in stuck for number in part)
        if not sure and not all(number in possible for number in part):
            continue
        if len(process.cycles) < CYCLES:
            steps = [*_steps(shortest(part, known), tasklets, process.folder)]
            process.cycles.append(model.Cycle(steps, sure, "" if sure else proof))
        else:
            more += 1
    process.cycles.sort(key=lambda cycle: not cycle.sure)
    if more:
        process.problems.append(f"{more:,} more cycles of waiting")


def _steps(ring: list[int], tasklets: Mapping[int, model.Tasklet], folder: str) -> Iterator[model.Step]:
    for number, after in zip(ring, [*ring[1:], ring[0]], strict=True):
        tasklet = tasklets[number]
        assert tasklet.wait is not None
        after_name = tasklets[after].name
        if tasklet.wait.owner == after:
            why = f", which {after_name} holds"
        elif tasklet.wait.kind == model.JOIN:
            why = ""
        else:
            why = f", whose other end only tasklets like {after_name} have" if after != number else ""
        yield model.Step(number, tasklet.name, f"{tasklet.wait.text}{why}", after, place_of(tasklet, folder))


def components(edges: dict[int, list[int]]) -> list[list[int]]:
    """The strongly connected components of a graph: Tarjan's, without recursion."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for start, first in edges.items():
        if start in order:
            continue
        work = [(start, iter(first))]
        order[start] = low[start] = len(order)
        stack.append(start)
        on_stack.add(start)
        while work:
            number, below = work[-1]
            for each in below:
                if each not in order:
                    order[each] = low[each] = len(order)
                    stack.append(each)
                    on_stack.add(each)
                    work.append((each, iter(edges.get(each, ()))))
                    break
                if each in on_stack:
                    low[number] = min(low[number], order[each])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[number])
                if low[number] == order[number]:
                    part = []
                    while True:
                        each = stack.pop()
                        on_stack.discard(each)
                        part.append(each)
                        if each == number:
                            break
                    found.append(part[::-1])
    return found


def shortest(part: list[int], edges: dict[int, list[int]]) -> list[int]:
    """The shortest way from the first one of a component back to itself."""
    inside, start = set(part), part[0]
    before: dict[int, int] = {}
    level = [start]
    while level:
        following = []
        for number in level:
            for each in edges[number]:
                if each == start:
                    ring = [number]
                    while ring[-1] != start:
                        ring.append(before[ring[-1]])
                    return ring[::-1]
                if each in inside and each not in before:
                    before[each] = number
                    following.append(each)
        level = following
    return [start]
