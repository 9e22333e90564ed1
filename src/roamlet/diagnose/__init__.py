"""What a process does, and why it does not go on: its threads, tasklets and contexts, and what waits for what.

`tree()` is a look at this process, as plain data (`roamlet.diagnose.model`), and `dump()` writes it: at once, at a signal
(`enable()`, or ROAMLET_DUMP=1 in the environment), or when a time limit is passed (`dump_later()`). `watch()` logs tasklets that
keep their thread, `metrics()` counts. `roamlet.diagnose.render` makes text of what was found. What `enable()` has prepared also
answers `roamlet trace PID`.

Nothing of roamlet below its command imports this package; `import roamlet` does where ROAMLET_DUMP is set.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roamlet.diagnose.counting import metrics
    from roamlet.diagnose.dumping import Later, disable, dump, dump_later, enable
    from roamlet.diagnose.inside import tree
    from roamlet.diagnose.tracing import Trace
    from roamlet.diagnose.watching import Watch, watch

__all__ = ["Later", "Watch", "disable", "dump", "dump_later", "enable", "metrics", "trace", "tree", "watch"]

# Loaded when they are asked for: the data and texts of a look are also used where the core is not loaded.
_MODULES = {
    **dict.fromkeys(("Later", "disable", "dump", "dump_later", "enable"), "dumping"),
    **dict.fromkeys(("Watch", "watch"), "watching"),
    "metrics": "counting",
    "tree": "inside",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"roamlet.diagnose.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def trace(path: "str | os.PathLike[str] | None" = None, *, events: int = 1 << 18, hold: float = 0.01) -> "Trace":
    """Return a context manager that records what the tasklets of this process do: `with diagnose.trace("trace.json"):`.

    At the end it is written to `path`, if given, in the form of its name: .json or .json.gz for Perfetto and speedscope,
    .speedscope.json for speedscope's flame graphs, .html for browsers. The Trace that the block gets can `save(path)` after it,
    any number of times, and print a `summary()`. Each thread has room for `events` (16 to 16777216), of which the newest are
    kept; what was dropped is said. A tasklet that runs for longer than `hold` seconds (0.001 to 3600) is looked at, from a
    thread, and its stack kept.

    One trace is taken at a time: RuntimeError for a second one when the block is entered. ValueError for values out of range and
    for a name without a form, at once; OSError at the end when the file cannot be written. Does not block.
    """
    # Inside: the data of a look are read where the core is not loaded.
    from roamlet.diagnose.tracing import Trace

    return Trace(path, events=events, hold=hold)
