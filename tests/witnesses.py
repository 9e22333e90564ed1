"""Witnesses of how long frames live: objects that stand in the locals of a frame, and weak references that outlive it.

An exception keeps its traceback, that its frames, and those their locals. So a witness that still lives when the exception was
handled says that something keeps the exception, or that it stands in a cycle; the cyclic collector must be off for that.
"""

import gc
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import pytest


class Witness:
    """A local that weak references can follow; `name` says of which frame."""

    def __init__(self, name: str) -> None:
        self.name = name


class Witnesses:
    """Those of one test. `seen` tells that the paths that were meant to raise have done so."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Witness]] = []
        self.seen: list[str] = []

    def __call__(self, name: str) -> Witness:
        """A new one, for the caller's frame to hold in a local."""
        witness = Witness(name)
        self._references.append(weakref.ref(witness))
        return witness

    def fails(self, *args: Any, kind: type[BaseException] = ValueError) -> NoReturn:
        """Raise `kind`, below a frame that holds a witness and the arguments."""
        local = self("the frame that raised")
        self.seen.append("raised")
        try:
            raise kind("raised below a witness")
        finally:
            assert local.name

    def handles(self, call: Callable[[], object], kind: type[BaseException] = ValueError) -> None:
        """Make the call, which raises `kind`, in a frame that holds a witness and lives on afterwards for nobody."""
        local = self("the frame that handled it")
        try:
            call()
        except kind:
            self.seen.append("handled")
            assert local.name
            return
        raise AssertionError(f"{kind.__name__} was not raised")

    def alive(self) -> list[str]:
        """Of those that live, the frames that they stand for and what keeps them, a line each."""
        assert not gc.isenabled(), "a collection may have come in between"
        found = []
        for reference in self._references:
            witness = reference()
            if witness is not None:
                found.append(f"{witness.name}: kept by {', '.join(keepers(witness, [self._references]))}")
            del witness
        return found

    def judge(self) -> None:
        """Fail unless there was a witness, and all are dead."""
        if not self._references or not self.seen:
            pytest.fail("nothing was raised: this test shows nothing")
        if alive := self.alive():
            pytest.fail("alive after the exception was handled:\n  " + "\n  ".join(alive))


def keepers(thing: object, leave_out: list[object], steps: int = 12) -> list[str]:
    """How `thing` is held: a chain of what refers to it, the nearest first, as far as it is one."""
    chain: list[str] = []
    known = {id(thing), *map(id, leave_out)}
    referrers: list[Any] = []
    known.add(id(referrers))
    for _ in range(steps):
        referrers[:] = [one for one in gc.get_referrers(thing) if id(one) not in known and not _looks_for_it(one)]
        if not referrers:
            break
        thing = referrers[0]
        known.add(id(thing))
        chain.append(_said(thing))
    return chain or ["nothing that the collector knows"]


def _looks_for_it(thing: object) -> bool:
    """Whether it is the frame of one who asks here."""
    return isinstance(thing, types.FrameType) and thing.f_code in ASKING


def _said(thing: object) -> str:
    if isinstance(thing, types.FrameType):
        return f"the frame of {thing.f_code.co_qualname}:{thing.f_lineno}"
    if isinstance(thing, types.TracebackType):
        return f"a traceback at {thing.tb_frame.f_code.co_qualname}:{thing.tb_lineno}"
    if isinstance(thing, BaseException):
        return f"a {type(thing).__name__}"
    return f"a {type(thing).__name__}"


ASKING = (keepers.__code__, Witnesses.alive.__code__)
