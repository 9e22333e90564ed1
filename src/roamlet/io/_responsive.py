"""roamlet.responsive: a shorter switch interval, only while I/O competes with threads that compute. The decision is in C."""

import threading

from roamlet.io._native import set_responsive


class _Switch:
    """What responsive(True) and responsive(False) set."""

    on = False
    guard = threading.Lock()


class _Stretch:
    """A `with` block that wants it. Each can be entered any number of times, one inside the other too."""

    def __enter__(self) -> None:
        set_responsive(True)

    def __exit__(self, *_: object) -> None:
        set_responsive(False)


def responsive(on: bool | None = None) -> _Stretch:
    """Let I/O answer fast beside threads that compute: `with roamlet.responsive():`, or for good: roamlet.responsive(True),
    (False).

    A thread that wants the GIL from one that computes gets it after sys.getswitchinterval(), 5 ms, which it spends for every time
    that it slept. With this, whenever a thread's hub had to wait for the GIL after it had slept, the interval of the process is
    set to 0.5 ms, and set back as soon as 50 ms have passed without that, when the last `with` block is left, or when the thread
    ends; an interval that somebody else has set meanwhile stays. So it costs nothing while nothing computes or nothing comes in;
    while both do, threads that compute lose some percent to switching, beside what I/O takes from them. It does not shorten an
    interval that is shorter already.

    For the whole process, from any thread; blocks nest, and last in several threads at once. Does not block or switch. Raises
    TypeError for what is neither a bool nor None.
    """
    if on is not None:
        if not isinstance(on, bool):
            raise TypeError(f"responsive() takes True or False, or nothing for a with block, not {on!r}")
        with _Switch.guard:
            if on is not _Switch.on:
                set_responsive(on)
                _Switch.on = on
    return _Stretch()
