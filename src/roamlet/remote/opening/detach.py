"""Functions that continue on the target when their context, its link and this process are gone.

Each gets an interpreter of its own beside the context. The context starts it, as it starts contexts that are opened via it.
The function and all modules that are known to be needed are sent to it; then it sheds its link (roamlet.wire.life.detached).
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roamlet.remote.base.deadlines import remaining
from roamlet.remote.calls.engine import Calls
from roamlet.remote.channels.served import ChannelReferences
from roamlet.remote.errors import CannotTravel, RemoteError
from roamlet.remote.opening.connect import connect
from roamlet.remote.transports.local import Local
from roamlet.wire import build
from roamlet.wire.life import detached

# It forks before it reads anything. The first half is what the context waits for, and what it would end; it ends when the other
# one says that it goes on by itself (detached.WORD), or has ended.
_FORK = """\
import os,sys
r,w=os.pipe()
p=os.fork()
if p:
 for n in(0,1,2,w):os.close(n)
 if os.read(r,1):os._exit(0)
 s=os.waitpid(p,0)[1]
 os._exit(s>>8 or s and 128+s%128)
os.close(r)
os.setsid()
sys.roamlet_waits=w
"""


class Apart(Local):
    """The interpreter of a context, started beside it and two sessions away."""

    @property
    def to(self) -> str:
        return f"interpreter {self.python!r} for what is to be detached"

    def argv(self, token: str) -> list[str]:
        return build.command(self.python, token, first=_FORK)


class NoChannelReferences(ChannelReferences):
    """That of a function which is to be detached: it can take no channel along. `met`: there was one."""

    met: bool = False

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def refer(self, channel: Any) -> int | None:
        self.met = True
        return None

    def announce(self) -> None:
        pass


def detach(
    calls: Calls,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    output: str | os.PathLike[str] | None,
    timeout: float,
) -> int:
    path = None if output is None else os.fspath(output)
    if path is not None and (not isinstance(path, str) or not path or "\0" in path):
        raise ValueError(f"output must be the path of a file on the target, or None, not {output!r:.80}")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    deadline = time.monotonic() + timeout
    text = _checked(calls, function, args, kwargs)
    calls.link.refuse_if_ended(f"detach() of {text}")
    facts = calls.facts
    started = connect(
        Apart(facts.executable or "python3", where=f"on {calls.name!r}"),
        name=f"{calls.name}/detached",
        timeout=timeout,
        output=calls.link.output.function,
        policy=replace(calls.shipping.policy, bytecode=False),  # tracebacks are to have their lines
        via=calls,
    )
    with contextlib.closing(started):
        started.shipping.need("life.detached", deadline)
        through = ("roamlet.wire.life.detached", "load", (None if path is None else os.fsencode(path),))
        request = started.prepare(function, args, kwargs, through=through, references=NoChannelReferences(), lent=True)
        started.run(request, timeout, deadline)
        started.shipping.settle(deadline)
        try:
            started.call(detached.let_go, timeout=remaining(deadline))
        except RemoteError as error:
            if error.sent:
                error.add_note(
                    f"{text} was about to be detached. Whether it goes on there, as process {started.facts.pid}, is not "
                    "known: the order to let go had been sent."
                )
            raise
        return started.facts.pid


def _checked(calls: Calls, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> str:
    """The function's name in messages. Raises for what cannot go there, before anything is started."""
    references = NoChannelReferences()
    try:
        return calls.prepare(function, args, kwargs, references=references, lent=True).text
    except CannotTravel as error:
        if not references.met:
            raise
        path, name = error.path, error.function
    refused = CannotTravel(
        f"{name} was not detached from {calls.name!r}: {path} is a channel, and channels end with their context.\n"
        "    Give it the data itself, and let it write to a file, or to the process that needs it.",
        context=calls.name,
        function=name,
    )
    refused.path = path
    try:
        raise refused
    finally:
        del refused  # its traceback holds this frame
