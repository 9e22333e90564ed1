"""Dumps: what every tasklet does and waits for, as text, at once, at a signal, or when a time limit is passed.

A dump at a signal is made by a thread of its own, so that it comes although the main thread computes or hangs in C without the
GIL. Where a thread keeps the GIL for ever no Python code can run: a second signal has faulthandler write the threads' stacks.
"""

import faulthandler
import logging
import os
import signal
import sys
import time
from typing import IO, Any

from roamlet.core import note_signal, signal_answered
from roamlet.diagnose import render
from roamlet.diagnose.attaching.door import Door
from roamlet.diagnose.background import Background, Listener
from roamlet.diagnose.inside import tree

LONGEST = 365 * 86400.0  # seconds, of dump_later()

_log = logging.getLogger("roamlet.diagnose")

_listeners: list[Listener] = []  # one while a signal is enabled
_files: dict[int, IO[str] | None] = {}  # by signal


def dump(file: IO[str] | None = None, *, locals: bool = False) -> None:
    """Write what tree() finds: cycles of waiting, then each stack once, with its tasklets, their waits and what could end these.

    `file` is a text file, by default standard error, whose descriptor is written to past Python's buffers. May be called in any
    thread, and in a signal handler; blocks only as writing does. `locals`: see tree().
    """
    text = _headed(render.stacks(tree(locals=locals)))
    if file is not None:
        file.write(text)
        file.flush()
        return
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(2, data) :]


def _headed(text: str) -> str:
    return f"---- roamlet dump, {time.strftime('%Y-%m-%d %H:%M:%S')} ----\n{text}---- end ----\n"


def enable(signalnum: int = signal.SIGQUIT, file: IO[str] | None = None) -> None:
    """Have a dump written whenever this signal comes. SIGQUIT comes of `kill -QUIT PID`, and of Ctrl and backslash on a terminal.

    The program goes on; a handler that it had for the signal is not called while this is enabled. `file` needs a descriptor.
    The main thread is not needed: it may compute or hang in C. If nothing comes because a thread keeps the GIL, send the signal
    again: faulthandler then writes the stacks of the threads, and `roamlet stacks PID` shows the tasklets. Calling it again
    changes the file.

    The same thread answers `roamlet trace PID`, by a socket in a folder that this user alone may enter (/tmp/roamlet-UID; Linux).
    ValueError for what is no signal, or one that the interpreter needs; OSError for one that cannot be handled.
    """
    if isinstance(signalnum, bool) or not isinstance(signalnum, int) or signalnum not in signal.valid_signals():
        raise ValueError(f"enable() takes the number of a signal, such as signal.SIGQUIT, not {signalnum!r}")
    if signalnum in (signal.SIGINT, signal.SIGCHLD):
        raise ValueError(
            f"enable({signal.Signals(signalnum).name}): Python or roamlet needs this signal; use SIGQUIT or SIGUSR1"
        )
    # Writes where it was told to when no thread gets the GIL. ValueError, RuntimeError and OSError are its own.
    faulthandler.register(signalnum, file=file if file is not None else 2, all_threads=True, chain=False)
    listen()
    _files[signalnum] = file
    note_signal(signalnum, _listeners[0].descriptor)


def listen() -> None:
    """Start the thread that answers signals and requests for a trace, if it does not run. For roamlet's own use."""
    if not _listeners:
        _listeners.append(Listener(_answer, _moved, _door()))
        _listeners[0].start()


def _door() -> Door | None:
    """What `roamlet trace PID` asks; None where no socket can be made, or the system has no /proc to find it by."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return Door()
    except OSError as error:
        _log.info("`roamlet trace %d` will not work: %s", os.getpid(), error)
        return None


def disable(signalnum: int = signal.SIGQUIT) -> bool:
    """Undo enable(): the signal does again what it did before. False when it was not enabled."""
    if signalnum not in _files:
        return False
    faulthandler.unregister(signalnum)
    del _files[signalnum]
    if not _files:
        _listeners.pop().stop()
    return True


def _answer(signalnum: int) -> None:
    signal_answered(signalnum)
    try:
        dump(_files.get(signalnum))
    except Exception:  # a full disk or a closed file: the next signal may find it better
        sys.excepthook(*sys.exc_info())


def _moved(descriptor: int) -> None:
    for signalnum in _files:
        note_signal(signalnum, descriptor)


class Later:
    """A dump to come, of dump_later(). A context manager that cancels it."""

    def __init__(self, seconds: float, repeat: bool, file: IO[str] | None, exit: bool) -> None:
        self._seconds = seconds
        self._repeat = repeat
        self._file = file
        self._exit = exit
        self._background = Background(self._pass, seconds)
        self._background.start()

    def cancel(self) -> None:
        """Write no dump from now on. Idempotent; waits for one that is being written."""
        self._background.stop()

    @property
    def pending(self) -> bool:
        """Whether a dump is still to come."""
        return self._background.running

    def __enter__(self) -> "Later":
        return self

    def __exit__(self, *args: Any) -> None:
        self.cancel()

    def _pass(self) -> float | None:
        dump(self._file)
        if self._exit:
            os._exit(1)
        return self._seconds if self._repeat else None


def dump_later(seconds: float, *, repeat: bool = False, file: IO[str] | None = None, exit: bool = False) -> Later:
    """Have a dump written in `seconds` (float, > 0), unless cancel() of what this returns is called before.

    As a context manager it watches its block: `with dump_later(30): ...` writes a dump if the block takes longer. `repeat`: again
    after as many seconds; `exit`: end the process then, by os._exit(1). A thread that keeps the GIL holds it up: see enable().
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= LONGEST:
        raise ValueError(f"dump_later() takes a number of seconds above 0, at most a year, not {seconds!r}")
    return Later(float(seconds), repeat, file, exit)


def from_environment(value: str) -> None:
    """ROAMLET_DUMP: 1, or the name of a signal. ImportError for anything else; nothing for 0 and the empty string."""
    if value in ("", "0"):
        return
    name = "SIGQUIT" if value == "1" else value.upper()
    number = getattr(signal, name if name.startswith("SIG") else f"SIG{name}", None)
    try:
        enable(int(number) if isinstance(number, signal.Signals) else -1)
    except (ValueError, OSError, RuntimeError) as error:
        raise ImportError(
            f"ROAMLET_DUMP={value!r} is no signal that can ask for a dump ({error}): use 1 for SIGQUIT, or a name such as USR1, "
            "or unset it"
        ) from None
