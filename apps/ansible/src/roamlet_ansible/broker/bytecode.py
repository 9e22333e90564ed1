"""Bytecode of the files that go to targets, made on this machine for Pythons of the same version. Not what is done with it there.

A target compiles what it gets as source, each account of each host for itself. Where this machine has an interpreter whose bytecode
has the target's magic number, that one compiles a file once, for all hosts. What comes from a target is never passed on as code:
all bytecode is made here, by a program of this machine, from sources that ansible-core has packed here.
"""

import hashlib
import importlib.util
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from roamlet import sync
from roamlet.io import subprocess
from roamlet.remote import Facts
from roamlet_ansible.cores import packed

MOST = 32 * 1024 * 1024  # bytes of bytecode in the file of one magic number
MOST_FILES = 4  # one for each magic number
FOLDERS = "/usr/local/bin", "/usr/bin"  # looked at after those of PATH, which may have scripts alone, such as pyenv's

# Reads a number of sources, each after its length; then answers each with the length of its deflated bytecode and that, or with 0.
# What is in a payload gets the name of its file on the target.
PROGRAM = """
import marshal, struct, sys, warnings, zlib
from _frozen_importlib_external import MAGIC_NUMBER
warnings.simplefilter("ignore")
def number():
    head = source.read(4)
    if len(head) < 4:
        sys.exit()
    return struct.unpack(">I", head)[0]
source, answer = sys.stdin.buffer, sys.stdout.buffer
answer.write(MAGIC_NUMBER)
answer.flush()
while True:
    for text in [source.read(number()) for _ in range(number())]:
        try:
            code = zlib.compress(marshal.dumps(compile(text, "<roamlet zygote>", "exec", 0, True)), 1)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            code = b""
        answer.write(struct.pack(">I", len(code)) + code)
    answer.flush()
"""


class Bytecode:
    """What was compiled, in this run and earlier ones. Each call blocks its tasklet only."""

    def __init__(self) -> None:
        self._makers: dict[bytes, _Maker | None] = {}  # by magic number
        self._lock = sync.Lock()

    def of(self, facts: Facts, sources: Mapping[str, bytes]) -> dict[str, bytes]:
        """Deflated, marshalled code by the digests of `sources`: of those that can be compiled, for a Python with these facts.

        Nothing where this machine has no such Python. Raises nothing.
        """
        maker = self._maker(facts)
        return {} if maker is None else maker.of(sources)

    def known(self, facts: Facts, sources: Mapping[str, bytes]) -> dict[str, bytes]:
        """The same of what need not be compiled now. Does not block."""
        maker = self._maker(facts)
        return {} if maker is None else maker.known(sources)

    def _maker(self, facts: Facts) -> "_Maker | None":
        # Python 2 cannot be told the name of the file that code is from.
        if facts.implementation != "cpython" or facts.python[0] != 3 or len(facts.magic) != 4:
            return None
        with self._lock:
            if facts.magic not in self._makers:
                self._makers[facts.magic] = _Maker(facts.magic, facts.python[1])
            return self._makers[facts.magic]

    def close(self) -> None:
        """End the processes that compile, and write what they have made to this user's folder for later runs. Raises nothing."""
        makers, self._makers = self._makers, {}
        for maker in makers.values():
            if maker is not None:
                maker.close()


class _Maker:
    """The bytecode of one magic number."""

    def __init__(self, magic: bytes, minor: int) -> None:
        self._magic = magic
        self._minor = minor
        self._lock = sync.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._useless = False  # no interpreter here has this magic number, or it has failed
        self._folder = packed.place()
        self._known: dict[str, bytes] = {}
        self._used: set[str] = set()
        self._made = False
        with suppress(OSError, ValueError):
            if self._folder is not None and packed.private(self._folder):
                self._known = dict(_entries(packed.whole(self._file(self._folder), MOST) or b""))

    def _file(self, folder: Path) -> Path:
        return folder / f"bytecode-{self._magic.hex()}"

    def of(self, sources: Mapping[str, bytes]) -> dict[str, bytes]:
        with self._lock:
            lacking = [digest for digest in sources if digest not in self._known]
            if lacking and not self._useless:
                try:
                    self._compile({digest: sources[digest] for digest in lacking})
                except (OSError, EOFError):
                    self._useless = True
                    self._end()
        return self.known(sources)

    def known(self, sources: Mapping[str, bytes]) -> dict[str, bytes]:
        found = {digest: self._known[digest] for digest in sources if digest in self._known}
        self._used.update(found)
        return {digest: code for digest, code in found.items() if code}

    def _compile(self, sources: Mapping[str, bytes]) -> None:
        process = self._process or self._started()
        if process is None:
            self._useless = True
            return
        self._process = process
        assert process.stdin is not None  # it is a pipe
        try:
            process.stdin.write(struct.pack(">I", len(sources)))
            for source in sources.values():
                process.stdin.write(struct.pack(">I", len(source)) + source)
            process.stdin.flush()
            for digest in sources:
                (size,) = struct.unpack(">I", _exactly(process, 4))
                self._known[digest] = _exactly(process, size)
        except BaseException:
            self._end()  # what it answers later is for nothing
            raise
        self._made = True

    def _started(self) -> "subprocess.Popen[bytes] | None":
        for python in self._candidates():
            with suppress(OSError):
                process: subprocess.Popen[bytes] = subprocess.Popen(
                    [python, "-I", "-S", "-c", PROGRAM],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                with suppress(EOFError):
                    if _exactly(process, 4) == self._magic:
                        return process
                _end(process)
        return None

    def _candidates(self) -> Iterator[str]:
        """Interpreters of this machine that may have the magic number. No scripts: they may start anything, and take long."""
        if self._magic == importlib.util.MAGIC_NUMBER:
            yield sys.executable
            return
        folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
        for folder in dict.fromkeys((*folders, *FOLDERS)):
            path = os.path.join(folder, f"python3.{self._minor}")
            with suppress(OSError):
                if os.access(path, os.X_OK):
                    with open(path, "rb") as file:
                        if file.read(2) != b"#!":
                            yield path

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def close(self) -> None:
        self._end()
        folder = self._folder
        if not self._made or folder is None:
            return
        with suppress(OSError, ValueError):
            folder.mkdir(0o700, parents=True, exist_ok=True)
            if packed.private(folder):
                every = _written(self._known)
                data = every if len(every) <= MOST else _written({digest: self._known[digest] for digest in self._used})
                if len(data) <= MOST:
                    packed.replace(self._file(folder), hashlib.sha256(data).digest() + data)
                found = sorted(folder.glob("bytecode-*"), key=lambda path: -path.stat().st_mtime)
                for path in found[MOST_FILES:]:
                    path.unlink()


def _exactly(process: "subprocess.Popen[bytes]", size: int) -> bytes:
    assert process.stdout is not None
    data: bytes = process.stdout.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for end in (process.stdin, process.stdout):
        if end is not None:
            with suppress(OSError):
                end.close()


def _written(entries: Mapping[str, bytes]) -> bytes:
    return b"".join(bytes.fromhex(digest) + struct.pack(">I", len(code)) + code for digest, code in entries.items())


def _entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What _written() has made. Raises ValueError."""
    place = 0
    while place < len(data):
        if len(data) < place + 36:
            raise ValueError("it ends in an entry")
        digest = data[place : place + 32].hex()
        (size,) = struct.unpack_from(">I", data, place + 32)
        yield digest, data[place + 36 : place + 36 + size]
        place += 36 + size
