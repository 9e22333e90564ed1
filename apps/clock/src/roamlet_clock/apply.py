"""Asks hosts for their facts and carries plans out on them, all at once. What fails on one host is that host's alone."""

import itertools
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import roamlet
from roamlet.remote import Context, Result
from roamlet_clock import units
from roamlet_clock.actions import Action, Put
from roamlet_clock.errors import ClockError
from roamlet_clock.facts import Facts
from roamlet_clock.host import act as host_act
from roamlet_clock.host import gather as host_gather
from roamlet_clock.plan import ASKED_PATHS, ASKED_UNITS
from roamlet_clock.untrusted import Untrusted

T = TypeVar("T")

GATHERING = 60.0  # seconds
ACTING = 180.0


class NotDone(ClockError):
    """A host has done a part of its plan, or none. The message says how far it came and why; doing it again is right."""


@dataclass(frozen=True)
class Done:
    """How many actions were done, and what the script said meanwhile."""

    count: int
    said: tuple[str, ...] = ()


def each(contexts: Mapping[str, Context], work: Callable[[str, Context], T]) -> dict[str, Result[T]]:
    """Do work(name, context) for all of them at once; the answers, in the same order. Blocks until all have answered."""

    def one(name: str, context: Context) -> Result[T]:
        try:
            return Result(name, value=work(name, context))
        except Exception as error:
            return Result(name, error=error.with_traceback(None))  # kept longer than the frames that it has passed

    called = {name: roamlet.spawn(one, (name, context)) for name, context in contexts.items()}
    return {name: call.join() for name, call in called.items()}


def look(name: str, context: Context) -> Facts:
    """The facts of a host. Changes nothing. Raises what a call does, and FactsError."""
    arguments = (list(ASKED_PATHS), list(ASKED_UNITS), units.PROGRAM)
    return Facts.from_plain(context.call(host_gather.gather, arguments, timeout=GATHERING), name)


def carry_out(context: Context, actions: tuple[Action, ...]) -> Done:
    """Do them in their order; files are put in place whole or not at all. Raises NotDone, and what a call does."""
    done = 0
    said: list[str] = []

    def not_done(why: object) -> NotDone:
        stuck = actions[done].describe() if done < len(actions) else "end"
        return NotDone(f"{done} of {len(actions)} done; could not {stuck}: {why}")

    for is_put, row in itertools.groupby(actions, key=lambda action: isinstance(action, Put)):
        if is_put:
            for action in row:
                assert isinstance(action, Put)
                try:
                    _put(context, action)
                except OSError as error:
                    raise not_done(error) from None
                done += 1
            continue
        plain = [action.plain() for action in row if not isinstance(action, Put)]
        answer = Untrusted(context.call(host_act.act, (plain,), timeout=ACTING), f"the answer of {context.name}")
        done += answer["done"].whole(0, len(plain))
        said += [line.text() for line in answer["said"].each()]
        if (why := answer["error"].maybe(Untrusted.text)) is not None:
            raise not_done(why)
    return Done(done, tuple(said))


def _put(context: Context, action: Put) -> None:
    descriptor, path = tempfile.mkstemp(prefix="roamlet-clock-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(action.text)
        context.put(path, action.path, mode=action.mode, parents=True, times=False)
    finally:
        os.unlink(path)
