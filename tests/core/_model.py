"""A small pure-Python model of the run queue and of channels, random programs, and both ways to run them.

A program is a list of scripts, one a tasklet; each script is a list of operations on the program's channels and other
tasklets. `run_real` performs it with roamlet, `run_model` with the model; both return a log of what every operation gave
and what the queues looked like, which must be the same to the letter.

In the model the ring is a list whose first item is the current tasklet; the end of the queue is the list's end.
"""

import random
import sys
from dataclasses import dataclass, field
from typing import Any

import roamlet
from roamlet import core

Operation = tuple[Any, ...]

# kind -> how often, relative to the others
WEIGHTS = {
    "schedule": 6, "send": 10, "receive": 10, "next": 3, "sleep": 3, "pause": 2, "insert": 4, "run": 3, "switch": 1,
    "remove": 2, "kill": 2, "kill_pending": 2, "throw": 1, "throw_pending": 1, "send_error": 1, "close": 1, "open": 2,
    "give_back": 1,
    "preference": 2, "schedule_all": 1, "spawn": 3, "fail": 1, "nested_run": 2, "nested_run_alone": 2, "block_trap": 1,
    "set_atomic": 2,
}  # fmt: skip


@dataclass
class Program:
    channels: int
    scripts: list[list[Operation]]
    refusals: list[int]
    """How often each tasklet goes on after TaskletExit."""
    begun: int
    """How many tasklets main starts; the others wait for a "spawn"."""
    buffers: list[int]
    """Of each channel."""
    seed: int | None = None


def random_program(seed: int, tasklets: int = 12, length: int = 12, channels: int = 3) -> Program:
    generator = random.Random(seed)
    kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
    begun = max(2, tasklets * 2 // 3)

    def operation() -> Operation:
        kind = generator.choices(kinds, weights)[0]
        if kind in ("send", "receive", "next", "close", "open", "send_error", "give_back"):
            return kind, generator.randrange(channels)
        if kind == "preference":
            return kind, generator.randrange(channels), generator.choice([-1, 0, 1])
        if kind == "schedule_all":
            return kind, generator.randrange(channels), generator.random() < 0.5
        if kind == "sleep":
            return kind, generator.randint(1, 5)
        if kind in ("schedule", "pause", "fail", "nested_run", "nested_run_alone"):
            return (kind,)
        if kind in ("block_trap", "set_atomic"):
            return kind, generator.randrange(tasklets), generator.random() < 0.6
        return kind, generator.randrange(tasklets)

    scripts = [[operation() for _ in range(generator.randint(1, length))] for _ in range(tasklets)]
    refusals = [generator.choice([0, 0, 0, 1]) for _ in range(tasklets)]
    return Program(
        channels, scripts, refusals, begun, [generator.choice([0, 0, 1, 2, 5]) for _ in range(channels)], seed
    )


class Boom(Exception):
    """What scripts throw, send and fail with."""


# ---- with roamlet ----


class Real:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.log: list[Any] = []
        self.now = 1000.0
        self.channels = [roamlet.channel(size) for size in program.buffers]
        self.tasklets = [roamlet.tasklet(self.body) for _ in program.scripts]
        self.spawned = [False] * len(program.scripts)

    def spawn(self, index: int) -> str:
        if self.spawned[index]:
            return "spawned before"
        self.spawned[index] = True
        self.tasklets[index](index)
        return "spawned"

    def body(self, index: int) -> None:
        refusals = self.program.refusals[index]
        for number, operation in enumerate(self.program.scripts[index]):
            try:
                outcome = self.perform(index, number, operation)
            except roamlet.TaskletExit:
                if refusals == 0:
                    self.note(index, number, "killed")
                    raise
                refusals -= 1
                outcome = "refused to die"
            except (roamlet.ChannelClosed, StopIteration, Boom) as error:
                outcome = type(error).__name__
            except RuntimeError:
                outcome = "RuntimeError"
            self.note(index, number, outcome)
            if operation == ("fail",) and outcome == "fails":
                raise Boom

    def perform(self, index: int, number: int, operation: Operation) -> Any:
        kind, *rest = operation
        channel = self.channels[rest[0] % len(self.channels)] if rest else None
        other = self.tasklets[rest[0] % len(self.tasklets)] if rest else None
        calls = {
            "schedule": lambda: roamlet.schedule(None),
            "send": lambda: channel.send((index, number)),
            "receive": lambda: channel.receive(),
            "next": lambda: next(channel),
            "send_error": lambda: channel.send_exception(Boom),
            "give_back": lambda: channel.give_back((index, number)),
            "close": lambda: channel.close(),
            "open": lambda: channel.open(),
            "preference": lambda: setattr(channel, "preference", rest[1]),
            "schedule_all": lambda: setattr(channel, "schedule_all", rest[1]),
            "sleep": lambda: roamlet.sleep(rest[0]),
            "pause": lambda: roamlet.schedule_remove(None),
            "insert": lambda: other.insert() and None,
            "remove": lambda: other.remove() and None,
            "run": lambda: other.run(),
            "switch": lambda: other.switch(),
            "kill": lambda: other.kill(),
            "kill_pending": lambda: other.kill(pending=True),
            "throw": lambda: other.throw(Boom),
            "throw_pending": lambda: other.throw(Boom, pending=True),
            "spawn": lambda: self.spawn(rest[0]),
            "fail": lambda: "fails",
            "nested_run": lambda: roamlet.run(),
            "nested_run_alone": lambda: roamlet.run(hub=False),
            "block_trap": lambda: setattr(other, "block_trap", rest[1]),
            "set_atomic": lambda: other.set_atomic(rest[1]),
        }
        return calls[kind]()

    def note(self, index: Any, number: Any, outcome: Any) -> None:
        waiting = [(channel.balance, channel.buffered, channel.closed) for channel in self.channels]
        self.log.append((index, number, outcome, roamlet.getruncount(), waiting, self.now))

    def run(self) -> list[Any]:
        core.set_clock(lambda: self.now, self.advance)
        hook, sys.unraisablehook = (
            sys.unraisablehook,
            lambda _: None,
        )  # told of an error that finds one before it waiting
        try:
            for index in range(self.program.begun):
                self.spawn(index)
            for _ in range(1000):
                try:
                    roamlet.run()
                except Boom:
                    self.note("main", "run", "Boom")
                    continue
                break
            self.note("main", "run", "done")
            for index, tasklet in enumerate(self.tasklets):
                state = (tasklet.alive, tasklet.blocked, tasklet.paused, tasklet.scheduled)
                self.log.append((index, "state", state))
            self.end()
        finally:
            core.set_clock()
            sys.unraisablehook = hook
        return self.log

    def advance(self, seconds: float) -> None:
        self.now = round(self.now + seconds, 6)

    def end(self) -> None:
        """End what is left, in whatever order; what the tasklets do meanwhile is no part of the log."""
        log, self.log = self.log, []
        for _ in range(100):
            for tasklet in [tasklet for tasklet in self.tasklets if tasklet.alive]:
                try:
                    tasklet.block_trap = False
                    tasklet.kill()
                except Boom:
                    continue
            if not any(tasklet.alive for tasklet in self.tasklets):
                break
        while roamlet.getruncount() > 1:
            try:
                roamlet.schedule()
            except Boom:
                continue
        self.log = log
        self.tasklets.clear()


# ---- the model ----


@dataclass(eq=False)
class Task:
    index: Any
    state: str = "unbound"  # unbound, new, started, dead
    pc: int = 0
    under_way: bool = False  # suspended in the middle of its operation
    blocked: str = ""  # receive, send, sleep, run
    channel: Any = None
    value: Any = None
    raises: str = ""  # an error that waits for it: "exit" or "Boom"
    error: bool = False  # the value it sends is an error
    iterating: bool = False
    ended_loop: bool = False
    waits_for_hub: bool = False  # its run() also waits for sleepers
    block_trap: bool = False
    atomic: bool = False
    refusals: int = 0


@dataclass(eq=False)
class Channel:
    buffer: int
    preference: int
    values: list[tuple[Any, bool]] = field(default_factory=list)  # in the buffer, with whether each is an error
    queue: list[Task] = field(default_factory=list)
    schedule_all: bool = False
    closing: bool = False

    @property
    def balance(self) -> int:
        return sum(1 if task.blocked == "send" else -1 for task in self.queue)

    @property
    def closed(self) -> bool:
        return self.closing and not self.queue and not self.values


class Model:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.log: list[Any] = []
        self.now = 1000.0
        self.channels = [Channel(size, preference=0 if size else -1) for size in program.buffers]
        self.tasks = [Task(index, refusals=count) for index, count in enumerate(program.refusals)]
        self.main = Task("main", state="started")
        self.ring = [self.main]
        self.runs: list[Task] = []  # those inside run(), the innermost last
        self.timers: list[tuple[float, int, Task]] = []
        self.timer_order = 0

    # the ring

    def go_to(self, task: Task) -> None:
        place = self.ring.index(task)
        self.ring = self.ring[place:] + self.ring[:place]

    def unblock(self, task: Task) -> None:
        if task.channel is not None:
            task.channel.queue.remove(task)
        self.timers = [timer for timer in self.timers if timer[2] is not task]
        task.blocked, task.channel, task.iterating = "", None, False

    def wake(self, task: Task) -> None:
        self.unblock(task)
        self.ring.append(task)

    def spawn(self, task: Task) -> str:
        if task.state != "unbound":
            return "spawned before"
        task.state = "new"
        self.ring.append(task)
        return "spawned"

    # running

    def run(self) -> list[Any]:
        for index in range(self.program.begun):
            self.spawn(self.tasks[index])
        while True:
            self.main_runs()
            while self.ring[0] is not self.main:
                self.step(self.ring[0])
            self.run_returns(self.main)
            if not self.main.raises:
                break
            self.main.raises = ""
            self.note("main", "run", "Boom")
        self.note("main", "run", "done")
        for task in self.tasks:
            alive = task.state in ("new", "started")
            blocked = task.blocked not in ("", "run")
            self.log.append(
                (task.index, "state", (alive, blocked, alive and not blocked and task not in self.ring,
                                       task in self.ring or blocked))
            )  # fmt: skip
        return self.log

    def somebody_sleeps(self) -> bool:
        return any(task.blocked == "sleep" for task in self.tasks)

    def main_runs(self) -> None:
        self.enter_run(self.main, hub=True)

    def enter_run(self, task: Task, hub: bool) -> bool:
        """The current task calls run(). Whether it is suspended in there."""
        if len(self.ring) == 1 and not (hub and self.somebody_sleeps()):
            return False
        task.blocked, task.waits_for_hub = "run", hub
        self.runs.append(task)
        self.leave()
        return True

    def run_returns(self, task: Task) -> None:
        """So do the runs that were entered after it."""
        while task in self.runs:
            inner = self.runs.pop()
            if inner.blocked == "run":
                self.wake(inner)

    def keeper(self) -> Task:
        """The task that errors come to, and that goes on when no task can run."""
        return self.runs[-1] if self.runs else self.main

    def leave(self) -> None:
        """The current task goes out of the ring; when it was the last, wait until somebody can run."""
        self.ring.pop(0)
        while not self.ring:
            due = sorted(timer[:2] for timer in self.timers if timer[0] <= self.now)
            for key in due:
                self.wake(next(task for when, order, task in self.timers if (when, order) == key))
            if self.ring:
                break
            keeper = self.keeper()
            if not keeper.blocked or (
                keeper.blocked == "run" and not (keeper.waits_for_hub and self.somebody_sleeps())
            ):
                self.wake(keeper)
            else:
                self.now = min(timer[0] for timer in self.timers)

    def step(self, task: Task) -> None:
        """Let the current task go on until it has switched or ended."""
        if task.state == "new":
            task.state = "started"
            if task.raises:
                self.finish(task, failed=task.raises == "Boom")
                return
        script = self.program.scripts[task.index]
        while self.ring and self.ring[0] is task:
            if not task.under_way:
                if task.pc == len(script):
                    self.finish(task)
                    return
                task.under_way = True
                outcome = self.begin(task, script[task.pc])
                if outcome is SWITCHED:
                    continue
            else:
                outcome = self.resumed(task, script[task.pc])
            if outcome == "killed":
                if task.refusals == 0:
                    self.note(task.index, task.pc, "killed")
                    self.finish(task)
                    return
                task.refusals -= 1
                outcome = "refused to die"
            task.under_way = False
            self.note(task.index, task.pc, outcome)
            task.pc += 1
            if script[task.pc - 1] == ("fail",) and outcome == "fails":
                self.finish(task, failed=True)
                return

    def resumed(self, task: Task, operation: Operation) -> Any:
        value, task.value = task.value, None
        if operation[0].startswith("nested_run"):
            self.run_returns(task)
        if task.raises:
            raised, task.raises, task.ended_loop = task.raises, "", False
            return "killed" if raised == "exit" else "Boom"
        if operation[0] in ("receive", "next"):
            if task.ended_loop:
                task.ended_loop = False
                return "StopIteration"
            return value
        return None

    def finish(self, task: Task, failed: bool = False) -> None:
        task.state, task.under_way, task.raises, task.atomic = "dead", False, "", False
        if failed:
            keeper = self.keeper()
            if keeper.blocked or keeper not in self.ring:
                self.wake(keeper)
            keeper.raises = keeper.raises or "Boom"
            self.ring.pop(0)
            self.go_to(keeper)
        else:
            self.leave()

    def note(self, index: Any, number: Any, outcome: Any) -> None:
        waiting = [(channel.balance, len(channel.values), channel.closed) for channel in self.channels]
        self.log.append((index, number, outcome, len(self.ring), waiting, self.now))

    # operations: the outcome, or SWITCHED when the task is suspended in the middle

    def begin(self, task: Task, operation: Operation) -> Any:
        kind, *rest = operation
        channel = self.channels[rest[0] % len(self.channels)] if rest else None
        other = self.tasks[rest[0] % len(self.tasks)] if rest else None
        if kind == "schedule":
            self.ring.append(self.ring.pop(0))
            return SWITCHED
        if kind in ("send", "send_error", "give_back"):
            return self.send(task, channel, (task.index, task.pc), kind == "send_error", kind == "give_back")
        if kind in ("receive", "next"):
            return self.receive(task, channel, kind == "next")
        if kind.startswith("nested_run"):
            return SWITCHED if self.enter_run(task, hub=kind == "nested_run") else None
        if kind == "block_trap":
            other.block_trap = rest[1]
            return None
        if kind == "set_atomic":
            before, other.atomic = other.atomic, rest[1]
            return before
        if kind == "sleep":
            if task.block_trap:
                return "RuntimeError"
            task.blocked = "sleep"
            self.timers.append((self.now + rest[0], self.timer_order, task))
            self.timer_order += 1
            self.leave()
            return SWITCHED
        if kind == "pause":
            self.leave()
            return SWITCHED
        if kind in ("insert", "run", "switch", "remove"):
            return self.move(task, other, kind)
        if kind in ("kill", "kill_pending", "throw", "throw_pending"):
            return self.throw(task, other, "exit" if kind.startswith("kill") else "Boom", kind.endswith("pending"))
        if kind == "close":
            channel.closing = True
            for waiting in [waiting for waiting in channel.queue if waiting.iterating]:
                waiting.ended_loop = True
                self.wake(waiting)
        elif kind == "open":
            channel.closing = False
        elif kind == "preference":
            channel.preference = rest[1]
        elif kind == "schedule_all":
            channel.schedule_all = rest[1]
        return {"spawn": lambda: self.spawn(other), "fail": lambda: "fails"}.get(kind, lambda: None)()

    def send(self, task: Task, channel: Channel, value: Any, is_error: bool, gives_back: bool) -> Any:
        if channel.balance < 0:
            peer = channel.queue[0]
            peer.value, peer.raises = (None, "Boom") if is_error else (value, "")
            return self.met(channel, peer, 1)
        if gives_back and channel.buffer:
            channel.values.insert(0, (value, is_error))
            return self.met_none(channel)
        if not gives_back and len(channel.values) < channel.buffer and not channel.closing:
            channel.values.append((value, is_error))
            return self.met_none(channel)
        return self.wait(task, channel, "send", value, is_error, gives_back=gives_back)

    def receive(self, task: Task, channel: Channel, iterating: bool) -> Any:
        if channel.values or channel.balance > 0:
            peer = channel.queue[0] if channel.balance > 0 else None
            if channel.values:
                task.value, error = channel.values.pop(0)
                if peer is not None and len(channel.values) < channel.buffer:
                    channel.values.append((peer.value, peer.error))
                    peer.value, peer.error = None, False
                else:
                    peer = None
            else:
                task.value, error = peer.value, peer.error
                peer.value, peer.error = None, False
            if (self.met_none(channel) if peer is None else self.met(channel, peer, -1)) is SWITCHED:
                if error:
                    task.raises = "Boom"
                return SWITCHED
            value, task.value = task.value, None
            return "Boom" if error else value
        if iterating and channel.closing:
            return "StopIteration"
        return self.wait(task, channel, "receive", None, False, iterating)

    def wait(self, task, channel, what, value, is_error, iterating=False, gives_back=False) -> Any:
        if channel.closing and not gives_back:
            return "ChannelClosed"
        if task.block_trap:
            return "RuntimeError"
        task.value, task.error, task.iterating = value, is_error, iterating
        task.blocked, task.channel, task.ended_loop = what, channel, False
        channel.queue.insert(0 if gives_back else len(channel.queue), task)
        self.leave()
        return SWITCHED

    def met(self, channel: Channel, peer: Task, direction: int) -> Any:
        self.unblock(peer)
        if channel.schedule_all:
            self.ring.append(peer)
            self.ring.append(self.ring.pop(0))
            return SWITCHED
        if channel.preference == -direction:
            self.ring.insert(1, peer)
            self.ring.append(self.ring.pop(0))
            return SWITCHED
        self.ring.append(peer)
        return None

    def met_none(self, channel: Channel) -> Any:
        """It needed no partner, because of the buffer."""
        if not channel.schedule_all or len(self.ring) == 1:
            return None
        self.ring.append(self.ring.pop(0))
        return SWITCHED

    def move(self, task: Task, other: Task, kind: str) -> Any:
        if kind == "remove":
            if other.blocked not in ("", "run") or other is task:
                return "RuntimeError"
            if other in self.ring:
                self.ring.remove(other)
            return None
        if other is task:
            return None
        if other.blocked == "run":
            self.wake(other)
        if other.blocked or other.state not in ("new", "started"):
            return "RuntimeError"
        if other not in self.ring:
            self.ring.append(other)
        if kind == "insert":
            return None
        if kind == "switch":
            self.ring.pop(0)
        self.go_to(other)
        return SWITCHED

    def throw(self, task: Task, other: Task, error: str, pending: bool) -> Any:
        if other is task:
            return "killed" if error == "exit" else "Boom"
        if other.state not in ("new", "started"):
            return None if error == "exit" else "RuntimeError"
        if other.blocked:
            self.wake(other)
        elif other not in self.ring:
            self.ring.append(other)
        other.value, other.error, other.raises = None, False, error
        if pending:
            return None
        self.go_to(other)
        return SWITCHED


SWITCHED = object()


def run_real(program: Program) -> list[Any]:
    return Real(program).run()


def run_model(program: Program) -> list[Any]:
    return Model(program).run()
