"""The page of the reference docs: from one run's figures to docs/reference/benchmarks.md."""

from typing import Any

from .show import markdown
from .tables import tables

TEMPLATE = """# Benchmarks

Written by `python -m bench render` from one run of `python -m bench`; do not edit by hand. Absolute figures are this
machine's: read the ratios. Every peer was measured in the same run, in turns with weft.

{machine}

{tables}

## How it is measured, and what it does not show

- **Core**: each runtime in a process of its own, garbage collector off, turns of some milliseconds in rotation, thread
  CPU time, the best turn counts. Loops are part of the figures, and of the unit too. What a program does between two
  switches is not in them: with real work in a tasklet the ratios shrink. greenlet and bare generators have no scheduler
  and no channel, so their rows are floors. The buffered value is shown because gevent and asyncio do that much faster
  than a message: the writer waits for nobody.
- **Memory**: resident bytes per blocked tasklet, in a fresh process per figure; small functions with two arguments;
  page tables are not counted.
- **Import**: the far interpreter is a bare virtual environment of the same Python. The bytes pass a relay of our own
  that holds each for half a round trip. It does not model TCP slow start (some 5 round trips for 450 kB on a fresh
  connection), loss or jitter, so it flatters whoever sends much at once. A turnaround is the parent sending something
  after it had heard from the child: counted on the wire, for both sides alike. "Scan warm": the parent has served an
  earlier context. Otherwise a new parent process for each run, which has to find and read everything first.
- **Calls**: wall time, the best turn. Where the kernel places two processes that talk to each other matters more than
  most code, so the median turn stands beside the best. Mitogen's pipelined calls come from one thread with a sliding
  window of `call_async`, weft's from as many tasklets.
"""


def page(run: dict[str, Any]) -> str:
    """The whole page as Markdown."""
    *figures, bars = tables(run)  # what somebody who looks it up wants to know stands first
    body = "\n".join(markdown(table) for table in [bars, *figures]).rstrip()
    return TEMPLATE.format(machine=machine_lines(run), tables=body)


def machine_lines(run: dict[str, Any]) -> str:
    machine, versions = run["machine"], run["versions"]
    peers = ", ".join(f"{name} {version}" for name, version in versions.items() if name not in ("python", "compiler"))
    lines = [
        f"- Taken {run['taken'][:10]}{' (a quick run)' if run['quick'] else ''}, load {machine['load'][0]:.1f} at the start",
        f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB; {machine['system']}",
        f"- {versions['python']} ({versions['compiler']}); {peers}",
    ]
    return "\n".join(lines)
