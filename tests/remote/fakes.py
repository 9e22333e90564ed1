"""Programs in place of an interpreter: `python=` names them, and they answer as no good context does."""

import sys
import textwrap
from pathlib import Path

import roamlet

INSTALLED = str(Path(roamlet.__file__).parents[1])  # built for this Python, which the sources need not be

# argv of a target's Python: -BEs -c LAUNCH FIRST_STAGE HALF HALF (roamlet.wire.build)
HOSTILE = """\
#!{python}
import os, pickle, struct, sys, time, zlib
sys.path.insert(0, {src!r})
from roamlet.wire import codec, protocol
token = sys.argv[-2] + sys.argv[-1]

def read(count):
    data = b""
    while len(data) < count:
        more = os.read(0, count - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data

def receive():
    header = protocol.HEADER.unpack(read(protocol.HEADER_SIZE))
    return header[2], header[4], read(header[3])

def write(data):
    while data:
        data = data[os.write(1, data):]

def send(kind, body, number=0, source=None, destination=0):
    write(protocol.frame(destination, me if source is None else source, number, kind, body))

def hello(**different):
    said = dict(protocol=protocol.PROTOCOL, python=(3, 11, 2), implementation="cpython", platform="linux", machine="x86_64",
                pid=os.getpid(), executable="/usr/bin/python3", magic=b"1234", packages="os sys json platform", namespaces="")
    said.update(different)
    write(protocol.start_line(token, protocol.STARTED))
    send(protocol.HELLO, codec.dumps(said))

def receive_call():
    while True:
        number, kind, body = receive()
        if kind == protocol.CALL:
            return number
        if kind == protocol.GOODBYE:
            sys.exit(0)

read(int(read(8)))
me = codec.loads(receive()[2])["id"]
{body}
while True:
    receive_call()
"""


def script(folder: Path, text: str, name: str = "python") -> str:
    """A file of this text that can be executed; its path."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def hostile(folder: Path, body: str) -> str:
    """A child that starts as it should and then runs `body`, with send(), hello() and receive_call() at hand."""
    return script(folder, HOSTILE.format(python=sys.executable, src=INSTALLED, body=textwrap.dedent(body).strip()))
