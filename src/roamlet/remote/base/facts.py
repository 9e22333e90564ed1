"""What a context's HELLO says about its Python, checked, because the context is not trusted."""

import functools
from dataclasses import dataclass, field

from roamlet.remote.modules import Platform
from roamlet.wire import codec, protocol

NUMBERS = ("protocol", "pid")
TEXTS = ("implementation", "platform", "machine", "executable", "packages", "namespaces")
FOR_EXTENSIONS = {"libc": "", "suffixes": ""}  # without these a context gets no extension modules


@dataclass(frozen=True, slots=True)
class Facts:
    """The Python on the target. `python` is its version, `pid` its process, `packages` the top-level names that it can import.

    `libc` is "glibc 2.36", or empty for another C library; `suffixes` are the endings of extension modules, its own
    first (".cpython-312-x86_64-linux-gnu.so"). `magic` is that of its bytecode.
    """

    python: tuple[int, int, int]
    implementation: str
    platform: str
    machine: str
    pid: int
    executable: str
    packages: frozenset[str] = field(repr=False)
    libc: str = ""
    suffixes: tuple[str, ...] = field(default=(), repr=False)
    magic: bytes = field(default=b"", repr=False)

    @property
    def for_extensions(self) -> Platform:
        """What an extension module has to agree on with this Python."""
        return Platform(self.platform, self.machine, self.libc, self.implementation, self.python[:2], self.suffixes)

    @property
    def version(self) -> str:
        return ".".join(map(str, self.python))

    def __str__(self) -> str:
        return f"{self.implementation} {self.version} on {self.platform} {self.machine}, pid {self.pid}"


def facts_of(hello: bytes) -> Facts:
    """Decode HELLO. Raises ValueError (CodecError is one) when it is malformed."""
    said = codec.loads(hello)
    if not isinstance(said, dict):
        raise ValueError("HELLO is no dict")
    said = {**FOR_EXTENSIONS, **said}
    for kind, names in ((int, NUMBERS), (str, (*TEXTS, *FOR_EXTENSIONS))):
        for name in names:
            if type(said.get(name)) is not kind:
                raise ValueError(f"HELLO says {name}={said.get(name)!r:.80}")
    if said["protocol"] != protocol.PROTOCOL:
        raise ValueError(f"HELLO speaks protocol {said['protocol']}, this is {protocol.PROTOCOL}")
    python = said.get("python")
    if not isinstance(python, tuple) or [type(part) for part in python] != [int, int, int]:
        raise ValueError(f"HELLO says python={python!r:.80}")
    return Facts(
        python=(python[0], python[1], python[2]),
        packages=_set_of(said["packages"]),
        suffixes=tuple(said["suffixes"].split()),
        magic=said["magic"] if isinstance(said.get("magic"), bytes) else b"",
        **{name: said[name] for name in ("implementation", "platform", "machine", "pid", "executable", "libc")},
    )


@functools.lru_cache(maxsize=32)
def _set_of(names: str) -> frozenset[str]:
    """One set for all targets that have the same packages: it takes 50 kB, and there may be a thousand contexts."""
    return frozenset(names.split(" "))
