"""What a process does, and why it does not go on: its threads, tasklets and contexts, and what waits for what.

`model` is what a look finds, as plain data; `render` makes text of it. Nothing of roamlet below its command imports this package.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roamlet.diagnose.tracing import Trace

__all__ = ["trace"]


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
