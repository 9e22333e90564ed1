"""What is known at one point of a function: which names hold which exceptions, and whose traceback has this very frame.

Values only. A state is never changed: each method returns another one, or the same where nothing changes.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from roamlet_leaks.keep import Place


@dataclass(frozen=True, eq=False)
class Origin:
    """Where an exception comes from. Compared by identity: one for each place in the source.

    `kind` is "caught" (by an except clause of this function, or taken from sys.exc_info() there), "exit" (what `__exit__` is
    given: the frame of the `with` statement is in its traceback), "parameter", "made" (what a call returned) or "taken" (out
    of a container or an attribute). Whether the last three are exceptions is unknown until one is raised.
    """

    kind: str
    node: ast.AST
    by: str = ""


@dataclass(frozen=True)
class Site:
    """The statement that stored an exception, and how: "name", "attribute", "container" or "traceback"."""

    node: Place
    how: str


Held = Mapping[str, Mapping[Origin, Site]]


@dataclass(frozen=True)
class State:
    """`held`: by path (`error`, `self.error`), what may be there. `inside`: the exceptions whose traceback has this frame, and
    the node that put it there.
    """

    held: Held = field(default_factory=dict)
    inside: Mapping[Origin, Place] = field(default_factory=dict)
    cleared: frozenset[Origin] = frozenset()
    """Those whose frames have been cleared, all but those that still run: this one."""

    def at(self, path: str) -> Mapping[Origin, Site]:
        """What `path` itself may hold."""
        return self.held.get(path, {})

    def without(self, path: str) -> "State":
        """After `path`, and with it whatever is reached through it, has gone."""
        below = path + "."
        gone = [known for known in self.held if known == path or known.startswith(below)]
        if not gone:
            return self
        return replace(self, held={known: what for known, what in self.held.items() if known not in gone})

    def bound(self, path: str, origins: Iterable[Origin], site: Site) -> "State":
        """After `path = ...`."""
        state = self.without(path)
        new = dict.fromkeys(origins, site)
        return replace(state, held={**state.held, path: new}) if new else state

    def added(self, path: str, origins: Iterable[Origin], site: Site) -> "State":
        """After something was put into the container at `path`."""
        old = self.at(path)
        new = {origin: site for origin in origins if origin not in old}
        return replace(self, held={**self.held, path: {**old, **new}}) if new else self

    def raised(self, origins: Iterable[Origin], node: Place) -> "State":
        """After `node` has raised them here: their tracebacks have this frame now."""
        new = {origin: node for origin in origins if origin.kind == "exit" or origin not in self.inside}
        return replace(self, inside={**self.inside, **new}, cleared=self.cleared.difference(new)) if new else self

    def stripped(self, origins: Iterable[Origin]) -> "State":
        """After their tracebacks were taken away."""
        gone = [origin for origin in origins if origin in self.inside]
        if not gone:
            return self
        return replace(self, inside={origin: node for origin, node in self.inside.items() if origin not in gone})

    def frames_cleared(self, origins: Iterable[Origin]) -> "State":
        """After traceback.clear_frames()."""
        return replace(self, cleared=self.cleared.union(origins))


def join(first: State | None, second: State | None) -> State | None:
    """What may hold where two paths meet; None is a path that is never taken."""
    if first is None or first is second:
        return second
    if second is None:
        return first
    held = dict(first.held)
    for path, what in second.held.items():
        mine = held.get(path)
        if mine is None:
            held[path] = what
        elif any(origin not in mine for origin in what):
            held[path] = {**what, **mine}
    inside = first.inside
    if any(origin not in inside for origin in second.inside):
        inside = {**second.inside, **inside}
    cleared = first.cleared | second.cleared
    if cleared:
        kept = {o for way in (first, second) for o in way.inside if o not in way.cleared}
        cleared = cleared.difference(kept)
    return State(held, inside, cleared)


def same(first: State | None, second: State | None) -> bool:
    """Whether both say the same, sites aside."""
    if first is None or second is None:
        return first is second
    return (
        first.inside.keys() == second.inside.keys()
        and first.cleared == second.cleared
        and first.held.keys() == second.held.keys()
        and all(first.held[path].keys() == second.held[path].keys() for path in first.held)
    )
