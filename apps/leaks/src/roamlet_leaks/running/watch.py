"""When the program is looked at: now, or from the beginning to the end of a block; and the findings as text."""

import gc
import linecache
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from roamlet_leaks.finding import Finding, shown
from roamlet_leaks.keep import accepts
from roamlet_leaks.running.cycles import cycles
from roamlet_leaks.running.frames import handlers
from roamlet_leaks.running.lines import instructions_of
from roamlet_leaks.running.lingering import lingering
from roamlet_leaks.running.marks import Mark, marks


def find(known: frozenset[Mark] = frozenset()) -> list[Finding]:
    """The exceptions that keep memory now: those in cycles, which are freed by this, and those that linger.

    Collects, twice when there is something to free, and looks at every object that the collector tracks: about 25 ms for 100 000 of
    them, and 10 ms for each step to the holder of what lingers. Meanwhile no other thread runs Python for long, no tasklet is
    switched to, and finalizers run as in any collection. Thread-safe. Cycles that an earlier collection has freed are not
    seen: `watch()` sees those too. A line that says `# roamlet: keep`, or whose function does, is accepted. Keeps nothing.
    """
    try:
        return [finding for finding in (*cycles(known), *lingering(known)) if not _accepted(finding)]
    finally:
        # They hold code objects, and nothing is to be kept from one look to the next.
        handlers.cache_clear()
        instructions_of.cache_clear()


def _accepted(finding: Finding) -> bool:
    """Whether the line, or the `def` of its function, says `# roamlet: keep`."""
    try:
        return accepts("".join(linecache.getlines(finding.path)), finding.line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # what lies there is not what was run
        return False


class Watch:
    """What `watch()` gives: `findings` is filled in at the end of the block."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def __str__(self) -> str:
        """The findings as people read them."""
        return report(self.findings)


@contextmanager
def watch(*, collector: bool = False) -> Iterator[Watch]:
    """Find the exceptions that the block leaves behind: `with watch() as seen: ...`, then `seen.findings`.

    Exceptions that were there before are no matter. The collector is off inside, so that no cycle gets away: a block that makes
    many cycles of any kind uses memory for them until its end. With `collector` it stays as it is, and what it frees inside is
    not seen. Costs a collection at both ends, and what `find()` does. Says
    nothing, and raises nothing of its own; when the block raises, that exception is no finding.
    """
    seen = Watch()
    gc.collect()
    known = marks()
    automatic = gc.isenabled()
    if not collector:
        gc.disable()
    try:
        yield seen
    finally:
        try:
            seen.findings += find(known)
        finally:
            if automatic and not collector:
                gc.enable()


def report(findings: Iterable[Finding]) -> str:
    """Text for people: each line with what it keeps, its longest-lived frames, and the mend."""
    blocks = []
    for finding in findings:
        many = "" if finding.times == 1 else f" ({finding.times} times)"
        lines = [f"{finding}{many}", f"    in {shown(finding.function)}"]
        if finding.keeps is not None:
            lines.append(f"    keeps {finding.keeps}")
            lines += [f"        {shown(frame)}" for frame in finding.keeps.frames]
        lines.append(f"    mend: {shown(finding.mend)}")
        blocks.append("\n".join(lines))
    return "\n".join(blocks)
