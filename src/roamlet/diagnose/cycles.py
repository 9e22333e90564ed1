"""Why tasklets do not go on: what could end each wait, and cycles of tasklets that wait for each other.

A wait has objects any of which could end it: a tasklet (the holder of a lock, one that is joined), or a channel, an event and the
like, which any code can use that reaches it. As the collector does, this follows references: from the frames of all tasklets that
wait without a time limit to what they refer to. An object that has more references than were met is held from elsewhere, by a
global, a running tasklet, another thread, and counts as alive, as does all that it leads to. A wait that nothing alive can end
never ends. Where it is not met so exactly, a cycle is reported as possible: none of its tasklets is known to be woken by any other.

Nothing is called but the collector's own functions, and nothing is changed.
"""

import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from types import BuiltinMethodType, CodeType, FrameType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any

from roamlet import core
from roamlet.diagnose import model
from roamlet.diagnose.graphs import FOLLOWED, add_cycles, closed
from roamlet.diagnose.model import Process, Tasklet, Wait, Waker
from roamlet.diagnose.render import place_of

MOST_NODES = 300_000  # objects that are followed; beyond these no wait is called endless
NEAR = 3  # references between a frame and what it is said to refer to
NEAR_OBJECTS = 64  # objects that are followed for that, for each tasklet
OURS = 2  # references to a node while it is counted: in the table, and map()'s
NAMED = 8  # tasklets that are named as wakers of one object

_PLAIN = (int, float, str, bytes, bool, complex, type(None), type, ModuleType, CodeType, FrameType)


def _plain() -> tuple[type, ...]:
    """What is not followed. Greenlets are among it: from CPython 3.15 on they show what their frames refer to, and twice what an
    operand borrows from a variable. More references would be counted than there are, and what lives be taken for unreachable.
    """
    kind = getattr(sys.modules.get("greenlet"), "greenlet", None)
    return (*_PLAIN, core.tasklet, *((kind,) if isinstance(kind, type) else ()))


def find(process: Process, tasklets: dict[int, Any], waits_for: dict[int, tuple[Any, ...]]) -> None:
    """Fill in the wakers and owners of each wait, and the cycles. `tasklets`: the objects; `waits_for`: what could wake each."""
    _Search(process, tasklets, waits_for).fill()


class _Search:
    def __init__(self, process: Process, tasklets: dict[int, Any], waits_for: dict[int, tuple[Any, ...]]) -> None:
        self.process = process
        self.tasklets = tasklets
        self.waits_for = waits_for
        self.models: dict[int, Tasklet] = {each.id: each for _, each in process.tasklets()}
        self.plain = _plain()
        self.globals = {id(vars(module)) for module in list(sys.modules.values()) if isinstance(module, ModuleType)}
        self.roots = {number: gc.get_referents(tasklet) for number, tasklet in tasklets.items()}
        self.wanted = {id(each) for objects in waits_for.values() for each in objects}
        self.near: dict[int, list[int]] = {}  # an object that is waited for, and the tasklets that refer to it
        self._known: dict[tuple[int, str], list[int]] = {}
        self._alive: set[int] = set()  # objects and tasklets
        self._extra: dict[int, int] = {}  # how many references come from elsewhere than from tasklets that wait

    def fill(self) -> None:
        self._find_holders()
        self._find_near()
        stuck = self._stuck()
        edges = {number: self._edges(number) for number in self.waits_for}
        others = Counter(each.wait.address for each in self.models.values() if each.wait is not None)
        wakers: dict[tuple[object, ...], tuple[Waker, ...]] = {}
        for number in self.waits_for:
            wait = self.models[number].wait
            if wait is None:
                continue
            wait.others = others[wait.address] - 1 if wait.address else 0
            key = (wait.address or number, wait.kind, wait.owner, number in stuck, wait.due)
            if key not in wakers:
                wakers[key] = tuple(self._wakers(edges[number], wait, number in stuck, bool(self.waits_for[number])))
            wait.wakers = wakers[key]
        for each in self.models.values():
            if each.wait is not None and not each.wait.wakers:
                each.wait.wakers = tuple(_from_outside(each.wait))
        add_cycles(self.process, self.models, edges, self.waits_for, stuck, self._possible(edges))

    # ---- what refers to what

    def _find_holders(self) -> None:
        """The tasklets that are in `with lock:`, whose frames have the lock's __exit__."""
        waiting: dict[int, list[int]] = {}
        for number, objects in self.waits_for.items():
            wait = self.models[number].wait
            if wait is not None and wait.kind == model.LOCK:
                for lock in objects:
                    waiting.setdefault(id(lock), []).append(number)
        for number, tasklet in self.tasklets.items() if waiting else ():
            for lock in _entered(core.frame_slots(tasklet)):
                if lock in waiting and number not in waiting[lock]:
                    for waiter in waiting.pop(lock):
                        wait = self.models[waiter].wait
                        assert wait is not None
                        wait.owner = number
                        self.waits_for[waiter] = (self.tasklets[number],)

    def _find_near(self) -> None:
        """Which tasklets refer to what is waited for: from their frames, a few references on, or by a global name."""
        names: dict[tuple[int, int], list[int]] = {}
        for number, found in self.roots.items():
            met = set()
            level: list[Any] = found
            seen = 0
            for _ in range(NEAR):
                following: list[Any] = []
                for each in level:
                    if id(each) in self.wanted:
                        met.add(id(each))
                    elif isinstance(each, FunctionType):
                        met.update(self._by_name(each, names))
                        following += each.__closure__ or ()
                    elif seen < NEAR_OBJECTS and _is_node(each, self.plain, self.globals):
                        seen += 1
                        following += gc.get_referents(each)[:NEAR_OBJECTS]
                level = following
            for each in met:
                self.near.setdefault(each, []).append(number)

    def _by_name(self, each: Any, known: dict[tuple[int, int], list[int]]) -> list[int]:
        """The objects waited for that a function reaches by its global names."""
        key = (id(each.__code__), id(each.__globals__))
        if key not in known:
            space, code = each.__globals__, each.__code__
            names = () if code.co_name == "<module>" else code.co_names  # which has the names of all that it makes
            known[key] = [id(space[name]) for name in names if name in space and id(space[name]) in self.wanted]
        return known[key]

    # ---- which waits never end

    def _candidates(self) -> dict[int, tuple[Any, ...]]:
        return {
            number: objects
            for number, objects in self.waits_for.items()
            if objects and (wait := self.models[number].wait) is not None and wait.due is None
        }

    def _stuck(self) -> set[int]:
        """The tasklets whose wait nothing that is alive can end."""
        waiting = self._candidates()
        graph = _graph((root for number in waiting for root in self.roots[number]), self.plain, self.globals)
        if graph is None:
            self.process.problems.append(
                f"which waits never end: the tasklets refer to more than {MOST_NODES:,} objects; locks and joins were looked at"
            )
            return _by_tasklets_alone(waiting, self.tasklets)
        nodes, children = graph
        # Counted by ids: a variable that still had one of these objects would be a reference more.
        internal = Counter(child for below in children.values() for child in below)
        internal.update(each for number in waiting for each in map(id, self.roots[number]))
        ours = Counter(each for objects in self.waits_for.values() for each in map(id, objects))
        ours.update(each for found in self.roots.values() for each in map(id, found))
        for number, count in _counts(nodes).items():
            extra = count - ours[number] - internal[number]
            if extra > 0:
                self._extra[number] = extra
        return self._spread(waiting, list(self._extra), children)

    def _spread(
        self, waiting: dict[int, tuple[Any, ...]], alive: list[int], children: dict[int, list[int]]
    ) -> set[int]:
        """Take the tasklets away that something alive can wake: they are alive then, with all that they refer to."""
        stuck = set(waiting)
        wakes: dict[int, list[int]] = {}
        for number, objects in waiting.items():
            for each in objects:
                wakes.setdefault(id(each), []).append(number)
        seen = set(alive)
        pending = list(alive)
        for number in self.tasklets:  # those that run, sleep, or wait for what comes from outside
            if number not in stuck:
                pending.append(number)
                seen.add(number)
        while pending:
            number = pending.pop()
            below = list(children.get(number, ()))
            for woken in wakes.get(number, ()):
                if woken in stuck:
                    stuck.discard(woken)
                    below.append(woken)
                    below += map(id, self.roots[woken])
            for each in below:
                if each not in seen:
                    seen.add(each)
                    pending.append(each)
        self._alive = seen
        return stuck

    # ---- cycles

    def _edges(self, number: int) -> list[int]:
        """The tasklets that could wake this one, as far as they are known; the list of all that wait alike is one object."""
        wait, objects = self.models[number].wait, self.waits_for[number]
        assert wait is not None
        if len(objects) == 1 and id(objects[0]) not in self.tasklets:
            key = (id(objects[0]), wait.kind)
            if key not in self._known:
                self._known[key] = [each for each in self.near.get(key[0], ()) if not self._waits_so(each, key)]
            return self._known[key]
        found: list[int] = []
        for each in objects:
            found += [id(each)] if id(each) in self.tasklets else self.near.get(id(each), ())
        return [each for each in dict.fromkeys(found) if each != number or wait.kind == model.JOIN]

    def _waits_so(self, number: int, key: tuple[int, str]) -> bool:
        """Whether a tasklet waits in this way for this object: it wakes no other that does."""
        wait, objects = self.models[number].wait, self.waits_for.get(number, ())
        return wait is not None and wait.kind == key[1] and len(objects) == 1 and id(objects[0]) == key[0]

    def _possible(self, edges: dict[int, list[int]]) -> set[int]:
        """Those that have known wakers, all of which are such, too, and whose objects nothing else has but a global name."""
        named = Counter(
            id(value)
            for module in list(sys.modules.values())
            if isinstance(module, ModuleType)
            for value in list(vars(module).values())
            if id(value) in self.wanted
        )
        left = {
            number
            for number, objects in self._candidates().items()
            if 0 < len(edges.get(number, ())) <= FOLLOWED
            and all(self._is_only_named(id(each), named) for each in objects)
        }
        return closed(left, edges)

    def _is_only_named(self, number: int, named: Counter[int]) -> bool:
        extra = self._extra.get(number, 0)
        return extra == named[number] and (extra > 0 or number not in self._alive or number in self.tasklets)

    # ---- wakers

    def _wakers(self, named: list[int], wait: Wait, stuck: bool, inside: bool) -> Iterator[Waker]:
        """`named`: the tasklets that could end the wait; `inside`: code of this process ends it, and no other event."""
        if wait.owner is not None and wait.owner in self.models:
            holder = self.models[wait.owner]
            yield Waker(
                "tasklet", f"{holder.name} ({holder.id:#x}) holds it: {_state(holder, self.process.folder)}", holder.id
            )
            return
        for other in named[:NAMED]:
            tasklet = self.models[other]
            verb = "is waited for" if wait.kind == model.JOIN else "refers to it"
            yield Waker("tasklet", f"{tasklet.name} ({other:#x}) {verb}: {_state(tasklet, self.process.folder)}", other)
        if len(named) > NAMED:
            yield Waker("tasklet", f"and {len(named) - NAMED:,} more tasklets that refer to it")
        if stuck:
            text = (
                "nothing that still runs can reach what it waits for"
                if named
                else "no other tasklet refers to what it waits for"
            )
            yield Waker("nothing", text)
        elif not named and inside:
            yield Waker(
                "thread", "code that is not in the frames of waiting tasklets: a global, a thread, a running tasklet"
            )
        yield from _from_outside(wait)


def _entered(found: list[Any]) -> Iterator[int]:
    """The ids of what `with` statements have entered, by what the slots of their frames refer to.

    Until 3.13 a `with` keeps the bound __exit__, from 3.14 on the one of the class and then the object, which it may have
    borrowed from a variable.
    """
    for each, after in pairwise([*found, None]):
        if type(each) not in (BuiltinMethodType, MethodDescriptorType) or each.__name__ != "__exit__":
            continue
        if type(each) is BuiltinMethodType:
            yield id(each.__self__)
        elif isinstance(after, each.__objclass__):
            yield id(after)


def _counts(nodes: dict[int, Any]) -> dict[int, int]:
    """How many references each object has beside the one in `nodes`.

    Counted without a variable of Python's: an argument that comes from one has a reference of its own until 3.13, while from 3.14
    on it is borrowed. map() has the same one reference on all versions.
    """
    return {number: count - OURS for number, count in zip(nodes, map(sys.getrefcount, nodes.values()), strict=True)}


def _state(tasklet: Tasklet, folder: str) -> str:
    wait = tasklet.wait
    text = f"{tasklet.state}, {wait.text}" if wait is not None else tasklet.state
    return f"{text} in {place_of(tasklet, folder)}" if tasklet.frames else text


def _from_outside(wait: Wait) -> Iterator[Waker]:
    if wait.due is not None:
        yield Waker("timer", f"its timer, in {max(wait.due, 0.0):.3g} s")
    if wait.descriptor is not None and wait.kind != model.CALL:
        end = f" to {wait.peer}" if wait.peer else ""
        yield Waker("descriptor", f"descriptor {wait.descriptor}{end}")
    elif wait.kind == model.CALL:
        yield Waker("host", f"the answer of {wait.host or 'the context'}")
    elif wait.kind == model.JOB:
        yield Waker("thread", f"{wait.function}")


def _follow(each: Any) -> list[Any]:
    """What an object leads to. Of a function not its globals, which a module has in any case."""
    if isinstance(each, FunctionType):
        return [part for part in (each.__closure__, each.__defaults__, each.__kwdefaults__) if part is not None]
    if isinstance(each, MethodType):
        return [each.__self__, each.__func__]
    return gc.get_referents(each)


def _graph(
    roots: Iterable[Any], plain: tuple[type, ...], spaces: set[int]
) -> tuple[dict[int, Any], dict[int, list[int]]] | None:
    """All that the roots lead to, without tasklets and modules: the objects, and the children of each. None: it is too much."""
    nodes: dict[int, Any] = {}
    children: dict[int, list[int]] = {}
    pending = []
    for root in roots:
        if id(root) not in nodes and _is_node(root, plain, spaces):
            nodes[id(root)] = root
            pending.append(root)
    while pending:
        each = pending.pop()
        below = children[id(each)] = []
        for child in _follow(each):
            if not _is_node(child, plain, spaces):
                continue
            below.append(id(child))
            if id(child) not in nodes:
                if len(nodes) >= MOST_NODES:
                    return None
                nodes[id(child)] = child
                pending.append(child)
    return nodes, children


def _is_node(each: Any, plain: tuple[type, ...], spaces: set[int]) -> bool:
    return not isinstance(each, plain) and id(each) not in spaces


def _by_tasklets_alone(waiting: dict[int, tuple[Any, ...]], tasklets: dict[int, Any]) -> set[int]:
    """Those that wait for tasklets only, which all wait so: without a look at objects."""
    wakers = {number: [id(each) for each in objects] for number, objects in waiting.items()}
    return closed({number for number, each in wakers.items() if all(other in tasklets for other in each)}, wakers)
