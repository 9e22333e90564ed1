"""A call as a script of its own: all that a context would be sent for it, recorded, to be replayed where no parent is.

What is recorded is what detach() sends to a context that sheds its link (roamlet.wire.life.detached). An interpreter of the kind
that will run it takes part, so that modules are chosen for it, and goes no further than the moment at which it would let go.
"""

import base64
import contextlib
import shlex
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roamlet.remote.base.deadlines import remaining
from roamlet.remote.calls.engine import Calls
from roamlet.remote.errors import CannotTravel, ConnectError
from roamlet.remote.modules import Modules
from roamlet.remote.opening.connect import connect
from roamlet.remote.opening.detach import NoChannelReferences
from roamlet.remote.transports.command import Command
from roamlet.wire import build
from roamlet.wire.life import detached

PIECE = 1 << 20  # bytes of a recording that are read at once
OUTPUT = b"/proc/self/fd/3"  # where what the function prints goes, in the script; nowhere while it is recorded
RECORDED = 4  # the descriptor of the recording

# Writes down what it reads before it hands that on: by the time that the interpreter answers, all that led to the answer is there.
# It keeps no descriptor that the interpreter answers on: that one's end is to be seen at once.
_RECORD = """\
import fcntl,os,sys,tempfile
f=tempfile.TemporaryFile()
r,w=os.pipe()
p=os.fork()
if not p:
 os.close(w)
 n=os.open(os.devnull,os.O_RDWR)
 for a,b in[(fcntl.fcntl(x,fcntl.F_DUPFD,9),y)for x,y in((r,0),(n,3),(f.fileno(),4))]:
  os.dup2(a,b);os.close(a)
 os.execvp(sys.argv[1],sys.argv[1:])
os.close(r)
os.close(1)
def put(n,d):
 while d:d=d[os.write(n,d):]
while 1:
 d=os.read(0,65536)
 if not d:break
 put(f.fileno(),d)
 put(w,d)
os.close(w)
s=os.waitpid(p,0)[1]
os._exit(s>>8 or s and 128+s%128)
"""
_IS_RECORDED = f"import sys;sys.roamlet_recorded={RECORDED}\n"
# The link stays open while the function runs: another process holds its other end, and ends with this one.
_REPLAY = """\
import os,sys,base64
r,w=os.pipe()
x,y=os.pipe()
if not os.fork():
 os.close(r);os.close(y)
 d=open(sys.argv.pop(),"rb").read()
 d=base64.b64decode(d[d.index(b"\\n#DATA\\n")+7:])
 try:
  while d:d=d[os.write(w,d):]
 except OSError:pass
 os.read(x,1)
 os._exit(0)
sys.argv.pop()
os.close(w);os.close(x)
os.dup2(r,0);os.close(r)
sys.roamlet_waits=os.open(os.devnull,os.O_WRONLY)
"""


class Recorded(Command):
    """The interpreter that takes part: the first of `pythons` that is there, started by a shell."""

    program = "interpreter"
    comes_with = "Python"

    def __init__(self, python: str | None) -> None:
        super().__init__("recording", python)

    @property
    def to(self) -> str:
        return "interpreter that takes part in the recording"

    def words(self) -> list[str]:
        return ["/bin/sh", "-c"]

    def argv(self, token: str) -> list[str]:
        inner = build.command("python", token, first=_IS_RECORDED)[1:]
        words = shlex.join(["-BEs", "-c", _RECORD])
        return [*self.words(), _search(self.pythons, f'"$p" {words} "$p" {shlex.join(inner)}')]


def script(
    place: Calls | None,
    python: str | None,
    policy: Modules,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    timeout: float,
) -> bytes:
    """The text of a script for /bin/sh that runs the call, with all that it needs.

    `place`: where the interpreter is that takes part, in this process's place if None. Blocks this tasklet. Raises ConnectError,
    CannotTravel, and what Context.call does before it sends; nothing is left.
    """
    deadline = time.monotonic() + timeout
    transport = Recorded(python)
    started = connect(
        transport,
        name="recording",
        timeout=timeout,
        output=None,
        policy=replace(policy, bytecode=False),  # tracebacks are to have their lines
        via=place,
    )
    with contextlib.closing(started):
        started.shipping.need("life.detached", deadline)
        through = ("roamlet.wire.life.detached", "load", (OUTPUT,))
        references = NoChannelReferences()
        try:
            request = started.prepare(function, args, kwargs, through=through, references=references, lent=True)
        except CannotTravel as error:
            if references.met:
                error.args = (f"{error}\n    A channel ends with the process that has made it: give the data itself.",)
            raise
        started.run(request, timeout, deadline)
        started.shipping.settle(deadline)
        size: Any = started.call(detached.let_go, timeout=remaining(deadline))
        if not isinstance(size, int) or not 0 < size < 1 << 32:
            raise ConnectError(f"the recording of {request.text} has no size: {size!r:.80}")
        pieces = [
            started.call(detached.recording, (begin, min(PIECE, size - begin)), timeout=remaining(deadline))
            for begin in range(0, size, PIECE)
        ]
    return _script(transport.pythons, b"".join(pieces))


def _script(pythons: Sequence[str], data: bytes) -> bytes:
    words = build.command("python", build.new_token(), first=_REPLAY)[1:]
    search = _search(pythons, f'"$p" {shlex.join(words)} "$0" 3>&1 >/dev/null')
    lines = "\n#".join(textwrap.wrap(base64.b64encode(data).decode(), 120, break_on_hyphens=False))
    return f"#!/bin/sh\n{search}\nexit 127\n#DATA\n#{lines}\n".encode()


def _search(pythons: Sequence[str], start: str) -> str:
    names = " ".join(shlex.quote(python) for python in pythons)
    return (
        f'for p in {names}; do command -v "$p" >/dev/null 2>&1 && exec {start}; done; '
        f'echo "no Python of these names is here: "{shlex.quote(" ".join(pythons))} >&2; exit 127'
    )
