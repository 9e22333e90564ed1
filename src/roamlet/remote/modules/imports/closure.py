"""What importing some modules needs at once, and what their functions may import later: two walks of modules/imports/walk.py.

The second one also takes what modules/imports/prediction.py guesses from the function that is about to be called.
"""

import sys
from collections.abc import Collection, Iterable

from roamlet.remote.modules.companions import NO_COMPANIONS, Companions
from roamlet.remote.modules.finding.sources import is_loaded
from roamlet.remote.modules.imports.prediction import NONE, Hints, Prediction
from roamlet.remote.modules.imports.scan import Import, Imports
from roamlet.remote.modules.imports.walk import Closure, Follow, Walk
from roamlet.remote.modules.native.platforms import Platform
from roamlet.remote.modules.policy import EVERYTHING, Modules

LARGEST_INSIDE = 1 << 16
"""In bytes: a larger data file that only functions use is sent when it is opened."""


def closure(
    roots: Iterable[str],
    has: Collection[str],
    *,
    more: Iterable[Imports] = (),
    along: Companions = NO_COMPANIONS,
    policy: Modules = EVERYTHING,
    platform: Platform | None = None,
) -> Closure:
    """Everything that importing `roots` imports at once, on a target that has the top-level names `has`.

    Extension modules are among it where they can run on `platform`; without one, nowhere. `more` are imports that are
    done besides, loaded here or not: those of a function that is about to be called. `along` are modules that go with it as
    long as they cost little.
    Thread-safe; the time is that of reading and scanning the modules the first time (for 160 modules some 50 ms with
    .pyc files), then a few ms.
    """
    walk = Walk(has, policy, platform)
    for root in roots:
        walk.want(root)
        walk.roots.add(root)
    walk.run()
    walk.lack_standard()
    walk.do(more)
    walk.run()
    walk.add_cheap(along.names, along.most)
    return walk.finish()


def closure_inside(
    inside: Iterable[tuple[str, Imports]],
    has: Collection[str],
    *,
    more: Iterable[Imports] = (),
    first: Closure | None = None,
    hints: Hints = NONE,
    policy: Modules = EVERYTHING,
    platform: Platform | None = None,
) -> Closure:
    """What the functions of modules import when they are called, what that needs, and so on until nothing is new.

    Only what the parent has loaded is followed: most functions are never called. `more` are imports that are followed in
    any case. Where a module imports names that only it can compute, as Django does with database backends, whatever the
    parent has loaded of that module's package counts as imported by it. With `first`, the closure of what was called, comes what
    modules/imports/prediction.py guesses from `hints`.
    """
    walk = Walk(has, policy, platform)
    walk.largest_file = LARGEST_INSIDE
    walk.do(more)
    walk.run()
    waiting = [*inside, *walk.result.inside]
    done: set[str] = set()
    while waiting:
        for name, imports in waiting:
            done.add(name)
            if imports.asks_all_inside:
                walk.add_index()
                walk.result.parts.add("modules.metadata")
            if imports.asks_metadata_inside:
                walk.add_metadata(name.partition(".")[0])
                walk.result.parts.add("modules.metadata")
            for one in imports.inside:
                walk.roots.update(walk.follow(one, Follow.LOADED))
            targets = list(imports.named_inside)
            if imports.by_name:
                targets += _loaded_beside(name)
            for target in targets:
                if is_loaded(target):
                    walk.roots.update(walk.follow(Import(target), Follow.LOADED))
        walk.run()
        waiting = [(name, imports) for name, imports in walk.result.inside if name not in done]
    if first is not None:
        Prediction(walk, first, hints).run()
        # Not before: what is in functions of modules that are only guessed is not looked for.
    return walk.finish()


def _loaded_beside(name: str) -> list[str]:
    """What is loaded in the package of a module, at any depth."""
    package = name if hasattr(sys.modules.get(name), "__path__") else name.rpartition(".")[0]
    return [other for other in list(sys.modules) if package and other.startswith(package + ".")]
