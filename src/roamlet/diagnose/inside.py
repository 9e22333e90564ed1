"""The look from inside: makes a model.Process of this process, from what the core, the hub and the contexts have at one moment.

Layers above the core are asked only if the program has imported them: `sys.modules` is looked at in place of an import, so that
a look loads nothing, costs a program nothing before, and works on a target, which has a part of roamlet. Why no tasklet goes on
is found by cycles.py.
"""

import os
import sys
import threading
import time
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

from roamlet import core
from roamlet._version import VERSION
from roamlet.core import os_threads
from roamlet.diagnose import asking, background, cycles
from roamlet.diagnose.model import (
    BLOCKED,
    IN_RUN,
    NEW,
    PAUSED,
    RECEIVE,
    RUNNABLE,
    RUNNING,
    SELECT,
    SEND,
    TIMER,
    Frame,
    Process,
    Scheduler,
    Stack,
    Tasklet,
    Thread,
    Wait,
)

DEEPEST = 1000  # frames of one stack; what is further out is left out
MOST_WITH_WAKERS = 20_000  # tasklets whose wakers are looked for unless it is asked for
_OWN_FOLDER = os.path.dirname(__file__) + os.sep
LONGEST_REPR = 200  # characters of a local's repr


def tree(*, locals: bool = False, wakers: bool | None = None) -> Process:
    """Look at this process: its threads, their tasklets and what each waits for, its contexts, and cycles of waiting.

    `locals`: with the reprs of all variables, which run code of the program. `wakers`: find out what could end each wait, and
    cycles, which takes most of the time; None: unless there are more than 20,000 tasklets. Never blocks or switches; may be
    called in any thread, and in a signal handler.
    """
    made = _Look(locals)
    process = Process(
        pid=os.getpid(),
        command=_command(),
        python=sys.version.split()[0],
        roamlet=VERSION,
        backend=core.backend,
        taken=time.time(),
        moment=time.monotonic(),
        folder=_OWN_FOLDER[: -len("diagnose") - 1],
        memory=_memory(),
        processor=time.process_time(),
    )
    process.threads = made.threads(core.survey())
    process.contexts = asking.contexts(made.names)
    if wakers is None:
        wakers = len(made.objects) <= MOST_WITH_WAKERS
        if not wakers:
            process.problems.append(f"what could end each wait: there are more than {MOST_WITH_WAKERS:,} tasklets")
    if wakers:
        cycles.find(process, made.objects, made.waits_for)
    return process


def _command() -> str:
    return " ".join([os.path.basename(sys.executable or "python"), *sys.orig_argv[1:]])[:500]


def _memory() -> int | None:
    """Bytes of this process that are in the machine's memory; None where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


class _Look:
    """One look. `objects`: the tasklet objects by id; `waits_for`: for each blocked one the objects any of which could wake it."""

    def __init__(self, locals: bool) -> None:
        self.locals = locals
        self.objects: dict[int, core.tasklet[...]] = {}
        self.waits_for: dict[int, tuple[Any, ...]] = {}
        self.names: dict[int, int] = {}  # the id of a Waiter: that of the tasklet that waits for it
        self._stacks: dict[int, Stack] = {}  # by the id of the core's tuple, which `_kept` keeps
        self._kept: list[object] = []
        self._frames: dict[tuple[int, int | None], Frame] = {}
        self._awaited = asking.Awaited()

    def threads(self, found: Iterable[tuple[Any, ...]]) -> list[Thread]:
        known = {thread.ident: thread for thread in list(threading._active.values())}  # type: ignore[attr-defined]
        running = sys._current_frames()
        entries = {entry[0]: entry for entry in found}
        for known_entry in entries.values():  # all of them before any is looked at: parents are found among them
            self.objects.update((id(each[0]), each[0]) for each in known_entry[12])
        threads = []
        for ident in dict.fromkeys([*core.threads(), *entries]):
            entry, thread = entries.get(ident), known.get(ident)
            if thread is not None and thread.name == background.NAME:
                continue  # it only looks
            made = Thread(
                id=ident,
                name=thread.name if thread is not None else None,
                native_id=_native_id(ident, thread),
                main=ident == os_threads.main_ident(),
                holds_gil=ident == os_threads.get_ident(),
                service=(entry is not None and entry[10]) or _of_our_own(thread),
            )
            if entry is None:
                made.frames = self.stack(asking.outside_of(_OWN_FOLDER, running.get(ident)))
            else:
                made.scheduler = self.scheduler(entry)
            threads.append(made)
        del running
        return threads

    def scheduler(self, entry: tuple[Any, ...]) -> Scheduler:
        _, _, current, idle, runnable, timers, _, next_timer, tick, switches, _, _, tasklets, messages = entry
        made = Scheduler(idle=idle, runnable=runnable, timers=timers, next_timer=next_timer, tick=tick)
        made.switches, made.messages = switches, messages
        made.current = id(current) if current is not None else None
        made.tasklets = [self.tasklet(each, current, entry[1]) for each in tasklets]
        made.descriptors = sum(
            1 for each in made.tasklets if each.wait is not None and each.wait.descriptor is not None
        )
        return made

    def tasklet(self, entry: tuple[Any, ...], current: object, main: object) -> Tasklet:
        tasklet, state, blocked, on, offset, channels, due, since, scopes, atomic, preempted, queued, stack = entry
        # The core shows no stack of the one whose frames its thread has at present, and on greenlet of no other.
        live = asking.outside_of(_OWN_FOLDER, tasklet.frame) if stack is None or self.locals else None
        made = Tasklet(
            id=id(tasklet),
            name="main" if tasklet is main else asking.name_of(tasklet),
            state=_state(state, blocked, tasklet is current, queued),
            main=tasklet is main,
            atomic=atomic,
            preempted=preempted,
        )
        made.frames = self.survey_stack(stack) if stack is not None and not self.locals else self.stack(live)
        if scopes:
            made.scopes = tuple(repr(scope) for scope, _ in scopes)
            made.scope = made.scopes[0]
            made.parent = next((owner for _, owner in scopes if owner != made.id and owner in self.objects), None)
        if blocked not in (0, 3):
            made.wait = self.wait(tasklet, blocked, on, offset, channels, live if stack is None else None)
            made.wait.due, made.wait.since = due, since
        if any(each.function.endswith("run_forever") for each in made.frames):
            made.tasks = asking.tasks(live or asking.outside_of(_OWN_FOLDER, tasklet.frame), self.stack)
        return made

    def wait(
        self, tasklet: object, blocked: int, on: Any, offset: int, channels: tuple[Any, ...], top: FrameType | None
    ) -> Wait:
        if blocked in (-1, 1):
            self.waits_for[id(tasklet)] = (on,)
            return Wait(RECEIVE if blocked < 0 else SEND, asking.class_name(on), id(on), buffer=on.buffer)
        if on is None:
            return Wait(TIMER)
        if channels:
            self.waits_for[id(tasklet)] = channels
            return Wait(SELECT, channels=tuple(map(id, channels)))
        wait, wakers = self._awaited.wait(tasklet, on, offset, top)
        self.names[id(on)] = id(tasklet)
        self.waits_for[id(tasklet)] = wakers
        return wait

    def survey_stack(self, stack: tuple[Any, ...]) -> Stack:
        made = self._stacks.get(id(stack))
        if made is None:
            self._kept.append(stack)
            made = self._stacks[id(stack)] = tuple(map(self.frame, stack[::2], stack[1::2]))
        return made

    def stack(self, frame: FrameType | None) -> Stack:
        """The frames from this one outwards."""
        made: list[Frame] = []
        while frame is not None and len(made) < DEEPEST:
            code, line = frame.f_code, frame.f_lineno
            if self.locals:
                made.append(Frame(code.co_qualname, code.co_filename, line, self._variables(frame)))
            else:
                made.append(self.frame(code, line))
            frame = frame.f_back
        return tuple(made)

    def frame(self, code: CodeType, line: int | None) -> Frame:
        made = self._frames.get((id(code), line))
        if made is None:
            self._kept.append(code)
            made = self._frames[id(code), line] = Frame(code.co_qualname, code.co_filename, line)
        return made

    def _variables(self, frame: FrameType) -> tuple[tuple[str, str], ...]:
        if frame.f_code.co_name == "<module>":
            return ()
        found = []
        for name, value in list(frame.f_locals.items()):
            try:
                text = repr(value)
            except Exception as error:  # the program's own code, which may do anything
                text = f"<its repr raised {type(error).__name__}>"
            found.append((name, text if len(text) <= LONGEST_REPR else text[: LONGEST_REPR - 1] + "…"))
        return tuple(found)


def _state(state: int, blocked: int, current: bool, queued: bool) -> str:
    if blocked == 3:
        return IN_RUN
    if blocked:
        return BLOCKED
    if current:
        return RUNNING
    if queued:
        return RUNNABLE if state == 2 else NEW
    return PAUSED


def _native_id(ident: int, thread: threading.Thread | None) -> int | None:
    if sys.platform == "linux" and ident == os_threads.main_ident():
        return os.getpid()  # threading has the parent's after a fork
    return thread.native_id if thread is not None else None


def _of_our_own(thread: threading.Thread | None) -> bool:
    return thread is not None and thread.name.startswith("roamlet-")
