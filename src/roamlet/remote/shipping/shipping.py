"""Sends the parent's modules to one context, before, after and between its calls, and keeps account of what was sent.

Which modules those are is decided in modules/. Nothing is sent twice on a link.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from roamlet import _observing as observing
from roamlet.core import Waiter
from roamlet.remote import modules
from roamlet.remote.base.deadlines import limit
from roamlet.remote.base.threads import TaskletThread
from roamlet.remote.errors import RemoteError
from roamlet.remote.link.frames import ROOT
from roamlet.remote.link.inflight import Answer, Member
from roamlet.remote.link.link import Link
from roamlet.remote.modules.bounded import Bounded
from roamlet.remote.shipping.shared_objects import SharedObjectSender
from roamlet.sync import Event, Lock
from roamlet.wire import build, codec, protocol
from roamlet.wire.modules import bundle as wire_bundle
from roamlet.wire.values import large_messages

T = TypeVar("T")

EXTENSIONS = "modules.extensions"  # the part that loads extension modules on the target
MOST_QUESTIONS = 1024
PART_PREFIX = "roamlet.wire."
PREPARED = 4096  # functions whose modules were sent; forgetting one costs a look at the plan

# What was sent on a link is the same on many others: each takes 8 kB.
_sent: "Bounded[tuple[frozenset[str], tuple[str, ...]], frozenset[str]]" = Bounded(1 << 16, len)

# What parts of the payload are for, in messages.
PURPOSES = {
    "files.files": "a transfer of files",
    "files.trees": "a transfer of folders",
    "life.heartbeat": "heartbeat()",
    "link.router": "the start of a context behind this one",
    "link.prompts": "the terminal for a password",
    "channels": "a channel",
    "values.kept": "keep()",
    "calls.shell": "a prompt",
    "calls.programs": "a script or command",
    "calls.gateways": "a gateway of execnet",
    "calls.timed": "a trace",
    "calls.traced": "a trace context",
}


def part_name(part: str) -> str:
    """What messages call roamlet.wire.`part`: what it is for, where that is known."""
    return PURPOSES.get(part, f"roamlet.wire.{part}")


class Shipping:
    """The modules of one link. Thread-safe; blocks tasklets only.

    `modules` counts the modules sent, `round_trips` the questions that an import on the target has waited for. `policy` says what
    was decided about modules for this context.
    """

    __slots__ = (
        *("_announced", "_asked", "_has", "_imported", "_link", "_order", "_own", "_parts", "_platform", "_prepared"),
        *(
            "_sent",
            "_shared_objects",
            "_thread",
            "_unanswered",
            "_warned",
            "_waves",
            "modules",
            "policy",
            "round_trips",
        ),
    )

    def __init__(
        self,
        link: Link,
        has: frozenset[str],
        thread: TaskletThread,
        policy: modules.Modules | None = None,
        platform: modules.Platform | None = None,
    ) -> None:
        self.modules: int = 0
        self.round_trips: int = 0
        self._link = link
        self.policy: modules.Modules = policy or modules.Modules()
        self._has = self.policy.counts_on_target(has)
        self._platform = platform
        self._thread = thread
        self._shared_objects = SharedObjectSender(link, thread, self.policy.form[1])
        self._sent: frozenset[str] = frozenset()
        self._asked: set[str] = set()  # what was not foreseen
        self._unanswered: set[int] = set()
        self._prepared: set[modules.FunctionName] = set()
        self._parts: set[str] = set()
        self._own: set[str] = set()
        self._imported: set[str] = set()
        self._warned: set[str] = set()  # packages some of whose modules run uncompiled on the target
        self._waves: list[Event] = []  # each is set when what was to follow a call has been sent
        self._announced = 0  # bundles that were to follow a call
        # Held from the plan until its frames are queued: no call may overtake the modules that it relies on.
        self._order = Lock(fair=True)

    def follow(self, policy: modules.Modules, has: frozenset[str]) -> None:
        """Keep to this policy from now on; before the first call. `has` are the top-level names on the target."""
        self.policy = policy
        self._has = policy.counts_on_target(has)
        self._shared_objects.packer = policy.form[1]

    def call(
        self,
        function: Callable[..., Any],
        name: modules.FunctionName,
        text: str,
        body: bytes | large_messages.LargeMessage,
        deadline: float | None = None,
        member: Member | None = None,
        *,
        reads: bool = False,
    ) -> tuple[int, Waiter[Answer]]:
        """Send the call of `function`, `text` in messages, and, in the same write, what it needs and the context lacks.

        `reads` and what it returns: see Link.ask. Raises what modules.plan and Link.ask do, TimeoutError when `deadline` passes
        first; nothing was sent then.
        """
        if name in self._prepared:
            return self._link.ask(text, b"", body, deadline, member, reads=reads)
        self._link.refuse_if_ended(text)  # before the lock: in a forked process, the thread that holds it may be gone
        with self._in_order(text, deadline):
            code = modules.code_of(function)
            bundle = modules.plan(name.module, self._sent, self._has, code, self.policy, self._platform)

            def ask(frames: bytes) -> tuple[int, Waiter[Answer]]:
                return self._link.ask(text, frames, body, deadline, member, reads=reads)

            asked = self._deliver(bundle, ask, deadline=deadline)
            if len(self._prepared) >= PREPARED:
                self._prepared.clear()
            self._prepared.add(name)
        return asked

    def send_module(self, module: str, deadline: float | None = None) -> None:
        """Send what an import of `module` needs on the target, ahead of any frame sent from now on. As `call` otherwise."""
        if module in self._imported:
            return
        self._link.refuse_if_ended(module)
        with self._in_order(module, deadline):
            bundle = modules.plan(module, self._sent, self._has, None, self.policy, self._platform)
            if bundle is not None:
                self._deliver(bundle, lambda frames: self._link.send(frames, deadline=deadline), deadline=deadline)
            self._imported.add(module)

    @contextlib.contextmanager
    def _in_order(self, what: str, deadline: float | None) -> Iterator[None]:
        """Hold the order. Raises TimeoutError when others do so until `deadline`."""
        if not self._order.acquire(timeout=limit(deadline)):
            raise TimeoutError(f"other calls were still being sent when the time for {what} was over")
        try:
            yield
        finally:
            self._order.release()

    def settle(self, deadline: float | None) -> None:
        """Wait until all is sent that follows calls. Blocks this tasklet. Raises TimeoutError when `deadline` passes first."""
        while self._waves:
            if not self._waves[0].wait(limit(deadline)):
                raise TimeoutError("modules were still being sent when the time was over")

    def need(self, part: str, deadline: float | None = None) -> None:
        """Send the part roamlet.wire.`part` of the payload if it was not sent yet: it is in place before any frame sent from
        now on.

        Blocks this tasklet while others send. Raises what Link.send does, TimeoutError when `deadline` passes first.
        """
        if part in self._parts:
            return
        self._link.refuse_if_ended(part_name(part))
        with self._in_order(part_name(part), deadline):
            if part not in self._parts:
                data, parts = self._part(part, deadline)
                self._link.send(data, deadline=deadline)
                self._parts.update(parts)

    def has_sent(self, part: str) -> bool:
        """Whether roamlet.wire.`part` was sent, or begun to be."""
        return part in self._parts

    def send_bundle(self, bundle: modules.Bundle, part: str, deadline: float | None = None) -> None:
        """Send a bundle, and after it the part of the payload that uses it. Blocks and raises as `need` does."""
        with self._in_order(f"roamlet.wire.{part}", deadline):
            # First: for a context behind another one, making a frame may send it.
            data = self._frame(bundle, deadline=deadline)
            more, parts = self._part(part, deadline)
            self._link.send(data + more, deadline=deadline)
            self._parts.update(parts)
            self._count(bundle)

    def send_own(self, make: Callable[[modules.Platform], modules.Bundle], platform: modules.Platform) -> None:
        """Send more of roamlet itself, if it was not sent yet. Blocks and raises as `need` does, and what `make` does."""
        if make.__name__ in self._own:
            return
        with self._in_order(f"roamlet.{make.__name__}", None):
            if make.__name__ not in self._own:
                bundle = make(platform)
                self._link.send(self._frame(bundle))
                self._count(bundle)
                self._own.add(make.__name__)

    def _part(self, part: str, deadline: float | None = None) -> tuple[bytes, list[str]]:
        """Return the frames of a part and of those that it needs, without those that were sent, and the names of these parts."""
        parts = [name for name in (*build.STANDS_ON.get(part, ()), part) if name not in self._parts]
        frames = [self._link.bundle_frame(0, wire_bundle.pack(map(build.part, parts)), deadline)]
        for name in parts:
            if name not in build.CALLED:
                install = protocol.frame(self._link.identifier, ROOT, 0, protocol.PART, codec.dumps(name))
                frames.append(self._link.after_bundle(install))
        return b"".join(frames), parts

    def answer_piece(self, number: int) -> None:
        """Answer PIECE: an import on the target waits for a shared object. Never blocks; raises as SharedObjectSender.answer."""
        self._shared_objects.answer(number)
        self.round_trips += 1

    def answer(self, number: int, name: str) -> None:
        """Answer WANT: the module and what it needs, or that it is absent. Returns at once.

        Raises ValueError when more is asked than a context's threads can be waiting for.
        """
        if len(self._unanswered) >= MOST_QUESTIONS or number in self._unanswered:
            raise ValueError(f"more than {MOST_QUESTIONS} questions for modules without waiting for an answer")
        self._unanswered.add(number)
        self.round_trips += 1

        def answer() -> None:
            with self._order:
                if self._link.closed:  # no import waits, and there may be a thousand questions
                    return
                if name.removeprefix(PART_PREFIX) in build.ASKED and name.startswith(PART_PREFIX):
                    parts = build.ASKED[name.removeprefix(PART_PREFIX)]
                    self._send(self._link.bundle_frame(number, wire_bundle.pack(map(build.part, parts))))
                    return
                if name in self._sent:  # it is on the way, or was known to be absent: the context looks again
                    self._send(self._link.bundle_frame(number, wire_bundle.pack([])))
                    return
                try:
                    bundle = modules.pull(name, self._sent, self._has, self.policy, self._platform, self._asked)
                except BaseException as error:  # whatever it is, an import waits for the answer
                    self._send(self._link.bundle_frame(number, wire_bundle.pack([], [name], {name: str(error)})))
                    if not isinstance(error, RemoteError):
                        raise
                    return
                if len(self._asked) < MOST_QUESTIONS:
                    self._asked.add(name)
                self._deliver(bundle, self._send, number)

        def answer_and_count() -> None:
            try:
                answer()
            finally:
                self._unanswered.discard(number)

        self._thread.post(answer_and_count)

    def _deliver(
        self,
        bundle: modules.Bundle | None,
        send: Callable[[bytes], T],
        number: int = 0,
        deadline: float | None = None,
    ) -> T:
        """Let `send` queue the frames of a bundle, and send later what is to follow it; return what `send` returns. Only in order.

        What follows is announced ahead of the bundle. When the bundle is not sent, or not whole, the announcement may have been:
        it is then taken back, or an import on the target would wait for ever.
        """
        if bundle is None or not bundle.has_more:
            sent = send(self._frame(bundle, number, deadline))
            self._count(bundle)
            return sent
        self._announced += 1
        wave = self._announced
        try:
            sent = send(self._frame(bundle, number, deadline, self._about(wire_bundle.ANNOUNCED, wave)))
            self._count(bundle)
        except BaseException:
            self._link.send_at_once(self._link.bundle_frame(0, self._about(wire_bundle.DONE, wave)))
            raise
        self._later(bundle, wave)
        return sent

    @staticmethod
    def _about(what: str, wave: int) -> bytes:
        """A bundle that says only that another one will follow a call, or has followed it."""
        data: bytes = wire_bundle.pack([(what, wire_bundle.DATA, b"%d" % wave, "")])
        return data

    def _later(self, bundle: modules.Bundle, wave: int) -> None:
        """Send, after the call, what the functions of these modules import when they are called. Never blocks."""

        def send_second_wave() -> None:
            with self._order:
                try:
                    second = bundle.second_wave(self._sent)
                except RemoteError as error:  # it was not asked for; an import that asks for it will get the error
                    self._link.output.say(logging.DEBUG, f"nothing was sent after the call: {error}")
                    return
                self._send(self._frame(second))
                self._count(second)

        def send_and_say_so() -> None:
            try:
                send_second_wave()
            finally:
                with self._order:
                    self._send(self._link.bundle_frame(0, self._about(wire_bundle.DONE, wave)))
                self._waves.remove(sent)
                sent.set()

        sent = Event()
        self._waves.append(sent)
        self._thread.post(send_and_say_so)

    def _frame(
        self, bundle: modules.Bundle | None, number: int = 0, deadline: float | None = None, announcement: bytes = b""
    ) -> bytes:
        if bundle is None:
            return b""
        # In this order: for a context behind another one, making a frame may send it.
        frames = []
        if bundle.extensions:
            if EXTENSIONS not in self._parts:
                frames.append(self._part(EXTENSIONS, deadline)[0])
            frames.append(self._link.after_bundle(self._shared_objects.announce(bundle.extensions, bundle.certain)))
        if announcement:
            frames.append(self._link.bundle_frame(0, announcement, deadline))
        frames.append(self._link.bundle_frame(number, bundle.data, deadline))
        return b"".join(frames)

    def _count(self, bundle: modules.Bundle | None) -> None:
        """Take a bundle as sent: it was queued. Only in order."""
        if bundle is not None:
            names = bundle.names
            self._sent = _sent.of((self._sent, names), lambda: self._sent.union(names))
            if bundle.extensions:
                self._parts.add(EXTENSIONS)
            self._shared_objects.push(bundle.certain)
            self.modules += len(bundle.modules)
            if observing.observer is not None:
                observing.observer.shipped(self._link.name, bundle.modules)
            self._warn(bundle.replaced)

    def _warn(self, replaced: Collection[modules.Missing]) -> None:
        """Say, once for each package, that Python files are sent in place of its extension modules."""
        packages: dict[str, list[modules.Missing]] = {}
        for one in replaced:
            packages.setdefault(one.name.partition(".")[0], []).append(one)
        for package in packages.keys() - self._warned:
            self._warned.add(package)
            first, *others = packages[package]
            more = f", and those of {', '.join(one.name for one in others)} in theirs" if others else ""
            self._link.output.say(
                logging.WARNING,
                f"{self._link.name} runs {first.name} uncompiled: the Python file beside it is sent in its place{more}. "
                f"{first.reason}",
            )

    def _send(self, data: bytes) -> None:
        if data:
            try:
                self._link.send(data)
            except RemoteError as error:
                self._link.output.say(logging.DEBUG, f"modules were not sent: {error}")
