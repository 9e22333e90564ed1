"""The C core: tasklets, channels, the scheduler of each thread, timers and wake-ups. Chooses the switching backend.

The backends are separate extension modules built from the same sources. `native` is used where CPython's version and the platform
are known to it, `greenlet` everywhere else; the environment variable ROAMLET_SWITCH chooses one. ROAMLET_DEADLOCK is the mode that
`set_deadlock_mode` sets.
"""

import atexit
import importlib
import os
import sys
from types import ModuleType

_BACKENDS = ("native", "greenlet")  # in the order in which the loader tries them
_FORMER = ("sliced", "stacks")


def _load_backend() -> ModuleType:
    if sys.platform == "win32":
        raise ImportError(
            f"roamlet does not run on Windows (sys.platform is {sys.platform!r}): it needs Linux on x86-64 or aarch64, or macOS. "
            "On this machine, run it in the Linux of WSL (`wsl --install`, then install roamlet in there), or in a container"
        )
    if "t" in sys.abiflags:
        version = "{}.{}".format(*sys.version_info)
        raise ImportError(
            f"roamlet does not run on a free-threaded build of CPython ({sys.executable}), not even with the GIL switched on: "
            "it keeps locks of objects, and references that it does not count, on the C stack while Python code runs, and "
            f"cannot find them there once tasklets switch. Use the usual build of the same version, mostly called python{version}. "
            "What would have to change is in docs/design/free-threading.md of roamlet's sources"
        )
    wanted = os.environ.get("ROAMLET_SWITCH", "")
    if wanted in _FORMER:
        raise ImportError(
            f"ROAMLET_SWITCH={wanted} names a switching backend that roamlet has no more: `native` does the work of both `sliced` "
            "and `stacks`. Unset it, or set ROAMLET_SWITCH=native"
        )
    if wanted and wanted not in _BACKENDS:
        raise ImportError(
            f"ROAMLET_SWITCH={wanted!r} names no switching backend: use {' or '.join(_BACKENDS)}, or unset it"
        )
    reasons = []
    for name in (wanted,) if wanted else _BACKENDS:
        try:
            return importlib.import_module(f"roamlet.core._{name}")
        except ImportError as error:
            # The core's own words, or CPython's where the interpreter has its own GIL.
            if "subinterpreters" in str(error):
                raise ImportError(
                    "roamlet works in the main interpreter only: its schedulers belong to OS threads, which subinterpreters share"
                ) from error
            reasons.append(f"{name}: {error}")
    raise ImportError(
        "roamlet's C core cannot be loaded (" + "; ".join(reasons) + "). Was it built for this Python "
        f"({sys.implementation.cache_tag})? Build it with: {sys.executable} -m pip install --force-reinstall roamlet"
    )


# Under one name, whichever it is: types and pickles must not tell the backends apart.
sys.modules["roamlet.core._core"] = _load_backend()

from roamlet.core import _imports  # noqa: E402
from roamlet.core._core import (  # noqa: E402
    Cancelled,
    CancelScope,
    ChannelClosed,
    Deadlock,
    NoCore,
    RoamletError,
    TaskletExit,
    Waiter,
    atomic,
    backend,
    channel,
    counted,
    end_thread,
    frame_slots,
    get_channel_callback,
    get_schedule_callback,
    get_thread_info,
    getcurrent,
    getcurrentid,
    getmain,
    getruncount,
    inside_atomic,
    install_hub,
    keep_current,
    local,
    mark_service_signal,
    mark_service_thread,
    note_signal,
    outside_atomic,
    published,
    run,
    run_queue,
    schedule,
    schedule_remove,
    select,
    set_channel_callback,
    set_clock,
    set_deadlock_mode,
    set_error_handler,
    set_schedule_callback,
    set_single_stack,
    signal_answered,
    sleep,
    started,
    survey,
    switch_trap,
    tasklet,
    thread_ends,
    threads,
    trim,
)

__all__ = [
    "CancelScope",
    "Cancelled",
    "ChannelClosed",
    "Deadlock",
    "NoCore",
    "RoamletError",
    "TaskletExit",
    "Waiter",
    "atomic",
    "backend",
    "channel",
    "counted",
    "end_thread",
    "frame_slots",
    "get_channel_callback",
    "get_schedule_callback",
    "get_thread_info",
    "getcurrent",
    "getcurrentid",
    "getmain",
    "getruncount",
    "inside_atomic",
    "install_hub",
    "keep_current",
    "local",
    "mark_service_signal",
    "mark_service_thread",
    "note_signal",
    "outside_atomic",
    "published",
    "run",
    "run_queue",
    "schedule",
    "schedule_remove",
    "select",
    "set_channel_callback",
    "set_clock",
    "set_deadlock_mode",
    "set_error_handler",
    "set_schedule_callback",
    "set_single_stack",
    "signal_answered",
    "sleep",
    "started",
    "survey",
    "switch_trap",
    "tasklet",
    "thread_ends",
    "threads",
    "trim",
]

if _mode := os.environ.get("ROAMLET_DEADLOCK"):
    try:
        set_deadlock_mode(_mode)
    except ValueError:
        raise ImportError(
            f"ROAMLET_DEADLOCK={_mode!r} is no mode: use one of auto, raise, warn, off, or unset it (see roamlet.set_deadlock_mode)"
        ) from None

# From here on the tasklet that imports a module holds its lock, not the whole thread.
_imports.install()

# The main thread's tasklets end before the interpreter does, with their finally blocks; other threads' with their thread.
atexit.register(end_thread)
