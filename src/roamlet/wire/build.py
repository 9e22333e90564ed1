"""The parent's half of a start: makes the payload, the command line that runs it, and reads what comes back first.

Runs on the parent only, on Python 3.11 and later. Starts no process and moves no byte: that is for transports.

How a start goes, without ever waiting for an answer::

    token = build.new_token()
    process = start(build.command("/usr/bin/python3", token))         # or the words of build.shell_command(...) behind ssh
    write(build.preamble({"id": 7, "name": "alpha"}) + whatever_frames)
    scanner = build.StartScanner(token)
    while not scanner.feed(read()): pass
    frames = protocol.FrameReader().feed(scanner.rest)                # HELLO is the first
"""

import functools
import re
import secrets
import zlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from roamlet.wire import codec, protocol
from roamlet.wire.modules import bundle

# Names below roamlet.wire. Folders that the target has from the start, although nothing in them does anything:
FOLDERS = ("link", "values", "modules", "calls", "files", "life")
# In the order in which the target executes them: each after what it imports.
MODULES = (
    "protocol",
    "codec",
    "modules.bundle",
    "link.link",
    "modules.standin",
    "modules.importer",
    "modules.available",
    "life.stdio",
    "life.logs",
    "life.life",
    "calls.calls",
    "life.target",
)
# Pieces that travel when a context needs them, see PART in roamlet.wire.protocol.
PARTS = (
    "modules.extensions",
    "files.folders",
    "files.files",
    "files.trees",
    "files.private",
    "channels",
    "life.heartbeat",
    "calls.chains",
    "life.detached",
    "modules.resources",
    "modules.paths",
    "modules.metadata",
    "modules.versions",
    "modules.children",
    "calls.tasklets",
    "values.large_messages",
    "values.kinds",
    "values.instances",
    "values.values",
    "values.functions",
    "values.kept",
    "link.router",
    "link.sorting",
    "link.bundle_cache",
    "link.streams",
    "link.prompts",
    "calls.shell",
    "calls.programs",
    "calls.timed",
    "calls.executor",
    "calls.main_thread",
    "calls.gateways",
    "calls.commands",
    "calls.traced",
)
# For roamlet.wire.modules.children.
FOR_CHILDREN = ("protocol", "codec", "modules.bundle", "modules.standin", "modules.importer")
_BELOW_VALUES = ("values.kinds", "values.instances")
STANDS_ON = {  # parts that need others, which go ahead of them
    "modules.paths": ("modules.resources",),
    "values.values": _BELOW_VALUES,
    "values.large_messages": (*_BELOW_VALUES, "values.values"),
    "values.functions": (*_BELOW_VALUES, "values.values"),
    "values.kept": (*_BELOW_VALUES, "values.values"),
    "link.router": ("link.sorting", "link.bundle_cache", "link.streams"),
    "files.files": ("files.folders",),
    "calls.gateways": ("calls.main_thread", "files.private"),
}
ASKED = {  # those that a target may ask for, and what comes with them
    "values.large_messages": ("values.large_messages",),  # which it asks for behind values
    "values.values": (*_BELOW_VALUES, "values.values"),
}
# Those whose functions are called: imported by the call, and not before.
CALLED = (
    "files.trees",
    "files.private",
    "modules.versions",
    "link.prompts",
    "calls.shell",
    "calls.executor",
    "calls.gateways",
    "calls.commands",
)
NOISE_LIMIT = 1 << 20  # bytes that may precede the start line
_NOISE_KEPT = 1 << 14

# -B: compiled modules would be files. -E -s: neither the environment nor the user's own site-packages. The login directory
# leaves sys.path before anything is imported. Together this is -I, which 2.7 does not know.
_LAUNCH = "import sys;sys.path[:]=[p for p in sys.path if p];exec(sys.argv[1].replace(chr(64),chr(10)))"
_CHECK = "import sys;v=sys.version_info;sys.exit(v<(2,7)or(3,)<v<(3,6))"
_UNQUOTABLE = re.compile(r"[\"'$`\\!%@\n\0]")
_LEVEL = 4  # spaces
# What strip() takes out of a source, and strings, in which nothing is to be taken out. A space beside a dot stays: the dot may be
# part of a number.
_REDUCIBLE = re.compile(
    r"""
    (?P<string>
        \"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}
        |'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}
        |"[^"\\\n]*(?:\\.[^"\\\n]*)*"
        |'[^'\\\n]*(?:\\.[^'\\\n]*)*'
    )
    |[ ]*\#[^\n]*
    |(?<=\S)[ ]+(?=[^\s\w."'\#])
    |(?<=[^\s\w."'])[ ]+(?=[^\s.\#])
    """,
    re.VERBOSE | re.DOTALL,
)
_NEXT_LINE = re.compile(r"(?:\n *(?:#[^\n]*)?(?=\n))*\n( *)")


# Where Python is looked for besides, when the login's PATH lacks even the system's own folder.
_PLACES = (
    'case ":$PATH:" in *:/usr/bin:*) ;; *) PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin"; export PATH;; esac; '
)


def new_token() -> str:
    """Return a fresh random token for one start."""
    return secrets.token_hex(12)


def command(python: str, token: str, first: str = "") -> list[str]:
    """Return the argument list that starts a context with the interpreter at `python`, no shell in between.

    `first`: lines of Python to be executed before everything else.
    """
    return [python, "-BEs", "-c", first + _LAUNCH, *_arguments(token)]


def shell_command(pythons: Sequence[str], token: str) -> str:
    """Return one line for the login shell of another machine, be it sh, csh or fish: the first of `pythons` that will do.

    When none does, the first that exists is started anyway and says why it will not (TOO_OLD), or the start line is NO_PYTHON.
    Checking costs about 8 ms there; a single name is not checked. Raises ValueError for a name that cannot be quoted.
    """
    for python in pythons:
        if not python or python.startswith("-") or _UNQUOTABLE.search(python):
            raise ValueError(
                f"{python!r} cannot be the name of an interpreter: it would need quoting that not every shell has"
            )
    names = " ".join(f'"{python}"' for python in pythons)
    first, second, *_ = words = _arguments(token)[1:]
    start = f'exec "$p" -BEs -c "{_LAUNCH}" "{_first_stage()}" {" ".join(words)}'
    script = f'for p in {names}; do command -v "$p" >/dev/null 2>&1 && {start}; done; '
    if len(pythons) > 1:
        check = f'"$p" -BESsc "{_CHECK}" </dev/null >/dev/null 2>&1'
        script = f"for p in {names}; do {check} && {start}; done; " + script
    script += f'echo {first}"{second}{protocol.NO_PYTHON} {" ".join(pythons)}"'
    return f"/bin/sh -c '{_PLACES}{script}'"  # not by PATH, which some login shells are left without


def preamble(config: Mapping[str, Any]) -> bytes:
    """Return what a fresh context reads first: the payload, then CONFIG. `config`: see roamlet.wire.protocol; id is required."""
    return payload() + configuration(config)


def configuration(config: Mapping[str, Any]) -> bytes:
    """Return the CONFIG frame alone: for a context that has the payload already."""
    return protocol.frame(config["id"], 0, 0, protocol.CONFIG, codec.dumps(dict(config), "config"))


def _arguments(token: str) -> list[str]:
    half = len(token) // 2
    return [_first_stage(), token[:half], token[half:]]


@functools.cache
def _first_stage() -> str:
    source = strip(_read("first_stage"), keep_lines=False).strip("\n")
    if found := _UNQUOTABLE.search(source.replace("\n", " ")):
        raise AssertionError(f"the first stage contains {found.group()!r}, which some shell would not leave alone")
    return source.replace("\n", "@")


@functools.cache
def payload() -> bytes:
    """Return the payload: its size in eight digits, and that many bytes. Made once in a process, in about 15 ms."""
    parts = [strip(_read("second_stage")), "roamlet\n", "roamlet.wire\n"]
    parts.extend(f"roamlet.wire.{name}\n" for name in FOLDERS)
    parts.extend(f"roamlet.wire.{name}\n" + strip(_read(name)) for name in MODULES)
    compressed = zlib.compress("\0".join(parts).encode("ascii"), 9)
    return b"%08d" % len(compressed) + compressed


@functools.cache
def part(name: str) -> tuple[str, int, bytes, str]:
    """Return the module roamlet.wire.`name` in the form that a bundle has: a part of the package that travels when it is needed."""
    return f"roamlet.wire.{name}", bundle.MODULE, strip(_read(name)).encode("ascii"), f"roamlet/wire/{_path(name)}"


def _read(name: str) -> str:
    return resources.files("roamlet.wire").joinpath(_path(name)).read_text("utf-8")


def _path(name: str) -> str:
    return name.replace(".", "/") + ".py"


def strip(source: str, keep_lines: bool = True) -> str:
    """Return `source` without comments, docstrings and most spaces that nothing needs, indented by single spaces.

    It is code of this package, as `ruff format` writes it. `keep_lines`: every statement stays in its line, so that tracebacks from
    targets point into the real file. Otherwise empty lines go.
    """
    lines = _REDUCIBLE.sub(_reduced, source).split("\n")
    result = []
    for line in lines:
        text = line.lstrip(" ")
        if text or keep_lines:
            result.append(" " * ((len(line) - len(text)) // _LEVEL if text else 0) + text)
    return "\n".join(result).replace("\0", "\n").rstrip() + "\n"


def _reduced(found: re.Match[str]) -> str:
    """What takes the place of a piece of source. A NUL is the end of a line that is not to be indented again."""
    text = found.group()
    if found.lastgroup != "string":
        return ""
    source, begins = found.string, found.start()
    line = source.rfind("\n", 0, begins) + 1
    before = source[source.rfind("\n", 0, max(0, line - 1)) + 1 : line].partition("#")[0].rstrip()
    begins_block = not source[line:begins].strip() and (line == 0 or before.endswith(":"))
    if not begins_block or not source.startswith("\n", found.end()):
        return text.replace("\n", "\0")
    following = _NEXT_LINE.match(source, found.end())
    alone = line > 0 and (following is None or len(following.group(1)) < begins - line)
    return ("pass" if alone else "") + "\n" * text.count("\n")


class StartScanner:
    """Find the start line in what a target prints, behind whatever its login shell printed before.

    Attributes, once `feed` has returned True: `status` (protocol.STARTED and so on), `text` of the start line, `rest`: the bytes
    after it, frames if the status is STARTED. `noise`: what came before, its end if it is long; also while the line has not come.
    """

    def __init__(self, token: str) -> None:
        self.status: int | None = None
        self.text = ""
        self.noise = b""
        self.rest = b""
        self._token = token.encode()
        self._data = b""
        self._seen = 0

    def feed(self, data: bytes) -> bool:
        """Take what was read; return whether the start line is complete.

        Raises ProtocolError when NOISE_LIMIT bytes have come without one.
        """
        self._data += data
        self._seen += len(data)
        self.noise, token, behind = self._data.partition(self._token)
        self.noise = self.noise[-_NOISE_KEPT:]
        line, newline, rest = behind.partition(b"\n")
        if not newline:
            self._data = self.noise + token + behind
            if self._seen > NOISE_LIMIT:
                raise protocol.ProtocolError(
                    f"the other side printed {self._seen} bytes, and no context started; a login shell there prints "
                    f"without end. It ends with: {self._data[-200:]!r}"
                )
            return False
        status, _, text = line.partition(b" ")
        if not status.isdigit():
            raise protocol.ProtocolError(f"the start line cannot be read: {line[:200]!r}")
        self.status = int(status)
        self.text = text.decode("utf-8", "replace")
        self.rest = rest
        return True
