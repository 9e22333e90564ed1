"""The model of what a Reader has walked through. What is read besides, names and code with its lines, does not change."""

from collections.abc import Iterable

from roamlet.diagnose import model
from roamlet.diagnose.outside.contexts import published
from roamlet.diagnose.outside.cycles import add_cycles
from roamlet.diagnose.outside.reader import NEW, RECEIVES, RUNS, SENDS, STARTED, Reader, State, Thread
from roamlet.diagnose.outside.shapes import Key
from roamlet.diagnose.outside.system.columns import Rows

KINDS = {
    "Lock": model.LOCK,
    "RLock": model.LOCK,
    "Condition": model.CONDITION,
    "Semaphore": model.SEMAPHORE,
    "BoundedSemaphore": model.SEMAPHORE,
    "Event": model.EVENT,
    "SimpleQueue": model.QUEUE,
}

# In the order in which the classes take them.
OF_A_TASKLET: tuple[str, ...] = model.Tasklet.__slots__[1:]
OF_A_WAIT: tuple[str, ...] = model.Wait.__slots__
WAIT: int
SINCE: int
DUE: int
ADDRESS: int
OTHERS: int
WAIT, SINCE, DUE, ADDRESS, OTHERS = (
    OF_A_TASKLET.index("wait"),
    *(OF_A_WAIT.index(name) for name in ("since", "due", "address", "others")),
)

SEVERAL = 100  # objects that are waited for, from which on channels are told apart from the rest

Fields = tuple[int, ...]  # of a tasklet, as the reader has them


class Alike:
    """What tasklets have in common that differ in their numbers and in the times of their waits alone."""

    def __init__(self, one: model.Tasklet) -> None:
        self._members = [getattr(one, name) for name in OF_A_TASKLET]
        self._wait = None if one.wait is None else [getattr(one.wait, name) for name in OF_A_WAIT]
        self._known: dict[object, model.Members] = {}

    def members(self, since: float | None, due: float | None, channel: int | None, others: int) -> model.Members:
        """All but the number of the one that has these times. Waits of equal times are one object. `channel`: what it waits for,
        where they wait for different ones, with so many others.
        """
        if self._wait is None:
            since = due = channel = None
        found = self._known.get((since, due, channel))
        if found is None:
            if self._wait is not None:
                self._wait[SINCE], self._wait[DUE] = since, due
                if channel is not None:
                    self._wait[ADDRESS], self._wait[OTHERS] = channel, others
                self._members[WAIT] = model.Wait(*self._wait)
            found = self._known[since, due, channel] = tuple(self._members)
        return found


class Description:
    """Makes the model. `now`: on the monotonic clock, in ns; None: not known, as in a core file.

    Equal stacks are one object each, so that they are compared by identity.
    """

    def __init__(self, reader: Reader, now: int | None) -> None:
        clock = reader.addresses.get("test_clock")
        self._reader, self._objects, self._at = reader, reader.objects, reader.at
        self._trying = reader.problems.trying
        # A clock of a test's own is not to be compared with the machine's, on which tasklets began to wait.
        self._now, self._moment = None if clock is None or reader.memory.word(clock) else now, now
        self._stacks: dict[Key, model.Stack] = {(): ()}
        self._names: dict[int, str] = {}

    def add_to(self, process: model.Process) -> None:
        """Put threads, tasklets and problems into `process`. Raises what DAMAGED lists, unless the reader is lenient."""
        reader = self._reader
        by_state = {thread.fields["tstate"]: thread for thread in reader.threads}
        states = dict(reader.states)
        for tstate in by_state.keys() - states.keys():  # where the list of thread states is damaged
            otherwise = State(0, 0, None, (), [])
            states[tstate] = self._trying("a thread state", otherwise, reader.thread_state, tstate)
        for tstate, state in states.items():
            thread = model.Thread(id=state.thread_id, native_id=state.native_id or None, holds_gil=state.gil)
            thread.main = state.native_id == process.pid
            walked = by_state.get(tstate)
            if walked is None:
                thread.frames = self._stack(state.key, state.frames)
            else:
                thread.service = bool(walked.fields["service"])
                thread.scheduler = self._scheduler(walked)
            process.threads.append(thread)
        process.threads.sort(key=lambda thread: (not thread.main, thread.native_id or 0))
        process.contexts = reader.contexts.found
        process.roamlet = self._trying("the version of its roamlet", None, self._published, "roamlet")
        process.folder = self._trying("the folder of its roamlet", None, self._published, "folder") or process.folder
        if reader.tasks.unread:
            process.problems.append(f"{reader.tasks.unread:,} of asyncio's tasks could not be read")
        self._trying("cycles of waiting", None, add_cycles, process, reader)
        process.problems += reader.problems
        if reader.threads and not reader.sees_frames:
            process.problems.append(
                f"the layout of frames of Python {reader.table.version} is unknown to its roamlet: where threads and "
                "tasklets are is not known"
            )
        elif reader.threads and not reader.sees_suspended:
            process.problems.append(
                f"the backend {reader.table.backend} hides the stacks of suspended tasklets from other processes: where they wait "
                "is not known"
            )

    def _published(self, name: str) -> str | None:
        """A text of roamlet's; None where only a part of it is loaded, or one that does not say it."""
        at = published(self._reader, name)
        return self._objects.string(at) if at else None

    def _scheduler(self, thread: Thread) -> model.Scheduler:
        fields, now = thread.fields, self._now
        tasklets = self._tasklets(thread)
        found = model.Scheduler(tasklets, None, bool(fields["idle"]), len(thread.ring), len(thread.timers))
        if not found.idle:
            found.current = fields["current"] or None
        found.switches, found.messages = fields.get("switches"), fields.get("messages")
        found.descriptors = sum(
            each.size
            for each in tasklets.groups()
            if each.first.wait is not None and each.first.wait.descriptor is not None
        )
        if now is not None:
            found.next_timer = (min(thread.timers.values()) - now) / 1e9 if thread.timers else None
            found.tick = max(now - fields["last_tick"], 0) / 1e9 if fields["last_tick"] else None
        return found

    def _tasklets(self, thread: Thread) -> model.Many:
        """Of a hundred thousand most differ in their numbers and the times of their waits alone: those are told by what was found
        for the first.
        """
        rows, kinds, tasklets = range(len(thread.tasks)), dict[object, int](), dict[int, Alike | None]()
        which: list[int] = list(map(kinds.setdefault, self._telling(thread), rows))
        for row in kinds.values():
            tasklet = self._tasklet(thread, row)
            tasklets[row] = None if tasklet is None else Alike(tasklet)
        firsts, members = dict[tuple[int, object], int](), dict[int, model.Members | None]()
        which = list(map(firsts.setdefault, zip(which, self._telling_times(thread), strict=True), rows))
        for (kind, _), row in firsts.items():
            alike = tasklets[kind]
            members[row] = None if alike is None else alike.members(*self._times(thread, row))
        ids, order = list[int](), list[model.Members]()
        for row in thread.in_order():
            found = members[which[row]]
            if found is not None:  # it has not ended
                ids.append(thread.tasks.ids[row])
                order.append(found)
        return model.Many(ids, order)

    def _telling(self, thread: Thread) -> Iterable[object]:
        """For each row what tells its tasklet from others, but for its number and the times of its wait."""
        tasks, reader, at = thread.tasks, self._reader, self._at
        if len(tasks) == 0 or reader.with_locals:
            return tasks.ids
        names = ("blocked", "state", "atomic", "preempted")
        telling: list[Iterable[object]] = [map(id, thread.keys), *(tasks.columns[at[name]] for name in names)]
        channels, on, queue = self._channels(tasks), tasks.columns[at["waiting_on"]], tasks.columns[at["queue"]]
        if channels is None:
            telling += [on, queue]
        else:  # the time tells the channel, too
            telling.append([None if channel else each for channel, each in zip(channels, on, strict=True)])
            telling.append([None if channel else each for channel, each in zip(channels, queue, strict=True)])
        named = list(self._objects.telling_names(tasks.columns[at["function"]]))
        for t in {thread.fields["main"], thread.fields["current"], *reader.called, *reader.loops}:
            row = tasks.where(t)
            if row is not None:
                named[row] = t  # as none else
        telling.append(named)
        if len(thread.ring) > 1:
            telling.append(map(thread.ring.__contains__, tasks.ids))
        if reader.parents:
            telling.append(map(id, map(reader.parents.get, tasks.ids)))
        return zip(*telling, strict=True)

    def _channels(self, tasks: Rows) -> list[int] | None:
        """The channel that each tasklet sends to or receives from, 0 for others; None where all wait for few objects."""
        if len(self._reader.waits) < SEVERAL:
            return None
        blocked, on = tasks.columns[self._at["blocked"]], tasks.columns[self._at["waiting_on"]]
        return [at if how in (RECEIVES, SENDS) else 0 for how, at in zip(blocked, on, strict=True)]

    def _telling_times(self, thread: Thread) -> Iterable[object]:
        """For each row what tells the times of its wait; and the channel, where there are many."""
        tasks, timers, telling = thread.tasks, thread.timers, list[Iterable[object]]()
        if len(tasks) == 0 or self._reader.with_locals:
            return [None] * len(tasks)
        if self._moment is not None and "since" in self._at:
            telling.append(tasks.columns[self._at["since"]])
        if self._now is not None and timers:
            timed = zip(tasks.ids, tasks.columns[self._at["timer"]], strict=True)
            telling.append([None if number < 0 else timers.get(t) for t, number in timed])
        channels = self._channels(tasks)
        if channels is not None:
            telling.append(channels)
        return zip(*telling, strict=True) if telling else [None] * len(tasks)

    def _times(self, thread: Thread, row: int) -> tuple[float | None, float | None, int | None, int]:
        """For how long a tasklet has waited, and for how long it still does; its channel, where it waits for one, and for that how
        many others.
        """
        tasks, at, t = thread.tasks, self._at, thread.tasks.ids[row]
        since = tasks.columns[at["since"]][row] if "since" in at else 0
        on: int | None = tasks.columns[at["waiting_on"]][row]
        if not on or tasks.columns[at["blocked"]][row] not in (RECEIVES, SENDS) or t in self._reader.called:
            on = None
        others = 0 if on is None else self._reader.waiting[on] - 1
        return self._waited(since), self._due(thread.timers.get(t)), on, others

    def _tasklet(self, thread: Thread, row: int) -> model.Tasklet | None:
        """None for one that has ended."""
        at, main, names = self._at, thread.fields["main"], self._names
        t, task, wait = thread.tasks.ids[row], thread.tasks.row(row), None
        if not task[at["blocked"]]:
            state = self._state(thread, t, task)
            if state is None:
                return None
        elif task[at["blocked"]] == RUNS:
            state = model.IN_RUN
        else:
            state, wait = model.BLOCKED, self._wait(thread, t, task)
        called = task[at["function"]]
        frames = self._stack(thread.keys[row], thread.frames.get(t, []))
        name = "main" if t == main else names.get(called)
        if name is None:
            name = names[called] = self._trying(f"the name of {t:#x}", "?", self._objects.function_name, called)
        if called == 0 and t != main and frames:  # it has dropped its function, in whose frame it still is
            name = frames[-1].function
        tasklet = model.Tasklet(t, name, state, t == main, wait, frames=frames, atomic=task[at["atomic"]])
        if t in self._reader.parents:
            tasklet.parent, tasklet.scope, _ = self._reader.parents[t]
        if task[at["preempted"]] and t != thread.fields["current"]:
            tasklet.preempted = True
        if t in self._reader.loops:
            tasklet.tasks = tuple(self._reader.tasks.found[self._reader.loops[t]])
        return tasklet

    def _state(self, thread: Thread, t: int, task: Fields) -> str | None:
        """Of a tasklet that waits for nothing; None for one that has ended."""
        state, current, idle = task[self._at["state"]], t == thread.fields["current"], thread.fields["idle"]
        if state == NEW:
            return model.NEW if t in thread.ring else model.PAUSED
        if state != STARTED:
            return None
        if current and not idle:
            return model.RUNNING
        if t in thread.ring:
            return model.RUNNABLE
        # One that has ended may be current: its thread sleeps on its C stack then.
        return None if current and t != thread.fields["main"] else model.PAUSED

    # ---- waits ----

    def _wait(self, thread: Thread, t: int, task: Fields) -> model.Wait:
        at = self._at
        blocked, address, queue = task[at["blocked"]], task[at["waiting_on"]], task[at["queue"]]
        if address == 0:
            wait = model.Wait(model.TIMER)
        elif t in self._reader.called:
            host, function = self._reader.called[t]
            wait = model.Wait(model.CALL, host=host, function=function)
        else:
            of = f"what {t:#x} waits for"
            wait = self._trying(of, model.Wait(model.OTHER), self._new_wait, blocked, address, queue)
        wait.since, wait.due = self._waited(task[at["since"]] if "since" in at else 0), self._due(thread.timers.get(t))
        return wait

    def _waited(self, began: int) -> float | None:
        """For how long, in seconds: the three digits that a text shows, so that many a wait has taken equally long."""
        return None if self._moment is None or began <= 0 else float(f"{max(self._moment - began, 0) / 1e9:.3g}")

    def _due(self, when: int | None) -> float | None:
        return None if self._now is None or when is None else (when - self._now) / 1e9

    def _new_wait(self, blocked: int, at: int, queue: int) -> model.Wait:
        found, others = self._reader.waits[at], self._reader.waiting[at] - 1
        kind = found["kind"]
        if blocked in (RECEIVES, SENDS):
            which, buffer = model.RECEIVE if blocked == RECEIVES else model.SEND, found.get("buffer", 0)
            return model.Wait(which, "channel", at, others=others, buffer=buffer)
        if kind in ("select", "Waiter"):
            which, on = (model.SELECT, "") if kind == "select" else (model.WAKEUP, "core.Waiter")
            return model.Wait(which, on, at, others=others, channels=found.get("channels", ()))
        if kind == "Descriptor":
            direction = model.WRITE if queue == at + self._reader.numbers["Descriptor.write"] else model.READ
            return model.Wait(direction, f"descriptor {found['fd']}", at, descriptor=found["fd"], others=others)
        if kind == "ModuleLock":
            owner = self._tasklet_of(found["owner"])
            return model.Wait(model.IMPORT, f"module {found['name']}", at, owner=owner, others=others)
        name = self._objects.type_name(found["type"]) if found["type"] else "an object"
        own = self._objects.types.get(found["type"])  # else it is of a class derived from it
        if "joined" in found or "scope" in found:
            of = (
                self._objects.function_name(found["joined"][1])
                if "joined" in found
                else f"{found['scope'][1]} tasklets of a scope"
            )
            return model.Wait(model.JOIN, address=at, function=of, others=others)
        if kind in KINDS:
            return model.Wait(KINDS[kind], f"sync.{own}" if own else name, at, owner=found.get("owner"), others=others)
        return model.Wait(model.OTHER, name, at, others=others)

    def _tasklet_of(self, owner: int | None) -> int | None:
        """The tasklet that holds a module's lock: the owner is a thread's id where that is its main tasklet."""
        for thread in self._reader.threads:
            state = self._reader.states.get(thread.fields["tstate"])
            if state is not None and state.thread_id == owner:
                return thread.fields["main"]
        return owner

    # ---- stacks ----

    def _stack(self, key: Key, frames: list[int]) -> model.Stack:
        if self._reader.with_locals:
            return self._new_stack(key, frames)
        if key not in self._stacks:
            self._stacks[key] = self._new_stack(key, frames)
        return self._stacks[key]

    def _new_stack(self, key: Key, frames: list[int]) -> model.Stack:
        objects, made = self._objects, list[model.Frame]()
        for index in range(0, len(key), 2):
            code = key[index]
            where = self._trying(f"a frame's code at {code:#x}", ("?", "?", None), objects.place, code, key[index + 1])
            if where is None:
                if made or index + 2 < len(key):
                    continue
                where = objects.beginning(code)  # the only one: a tasklet that begins just now
            found = None
            if self._reader.with_locals and index // 2 < len(frames):
                values = self._trying(f"the locals of {where[0]}", {}, objects.locals, frames[index // 2], code)
                found = tuple(values.items())
            made.append(model.Frame(where[0], where[1], where[2], found))
        return tuple(made)
