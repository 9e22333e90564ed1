"""What a context's HELLO says about its Python, checked: it is somebody else's claim."""

from dataclasses import dataclass, field

from weft.wire import codec, protocol

NUMBERS = ("protocol", "pid")
TEXTS = ("implementation", "platform", "machine", "executable", "packages", "namespaces")


@dataclass(frozen=True)
class Facts:
    """The Python over there. `python` is its version, `pid` its process, `packages` the top-level names that import there."""

    python: tuple[int, int, int]
    implementation: str
    platform: str
    machine: str
    pid: int
    executable: str
    packages: frozenset[str] = field(repr=False)

    @property
    def version(self) -> str:
        return ".".join(map(str, self.python))

    def __str__(self) -> str:
        return f"{self.implementation} {self.version} on {self.platform} {self.machine}, pid {self.pid}"


def facts_of(hello: bytes) -> Facts:
    """Decode HELLO. Raises ValueError (CodecError is one) when it says what no HELLO says."""
    said = codec.loads(hello)
    if not isinstance(said, dict):
        raise ValueError("HELLO is no dict")
    for kind, names in ((int, NUMBERS), (str, TEXTS)):
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
        packages=frozenset(said["packages"].split(" ")),
        **{name: said[name] for name in ("implementation", "platform", "machine", "pid", "executable")},
    )
