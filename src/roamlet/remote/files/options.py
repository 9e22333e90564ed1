"""What a user says to `put` and `get`, and is told by them."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

Facts = list[Any]  # as roamlet.wire.files.files.facts_of makes them
ProgressFunction = Callable[["Progress"], object]
ALGORITHMS = ("sha256", "blake2b")
SYMLINKS = ("keep", "follow", "skip")


@dataclass(frozen=True)
class Progress:
    """How far a transfer is. `path` is the file that goes on, `done` of its `size` bytes are there; the sums are over all files."""

    path: str
    done: int
    size: int
    files: int
    bytes: int


@dataclass(frozen=True)
class Transferred:
    """What a transfer has done. `path` is where the file or folder stands now.

    `bytes` are those of all files, of which `resumed` were there from an earlier time. `checksum` is the file's, in hexadecimal;
    None for a folder. `skipped` names what was left out: devices, pipes, sockets, and symbolic links when that was asked for.
    """

    path: str
    bytes: int
    files: int
    seconds: float
    checksum: str | None = None
    resumed: int = 0
    skipped: tuple[str, ...] = ()


class TransferOptions(TypedDict, total=False):
    """The keyword arguments of `put` and `get`, described at Context.put. `Options` has the same with their defaults."""

    mode: int | None
    owner: bool
    times: bool
    overwrite: bool
    parents: bool
    resume: bool
    sync: bool
    symlinks: str
    checksum: str
    progress: ProgressFunction | None


@dataclass(frozen=True)
class Options:
    """What `put` and `get` were asked for, checked. `key` is in the names of the files that are not finished."""

    mode: int | None = None
    owner: bool = False
    times: bool = True
    overwrite: bool = True
    parents: bool = False
    resume: bool = False
    sync: bool = True
    symlinks: str = "keep"
    checksum: str = "sha256"
    progress: ProgressFunction | None = None
    key: str = field(default_factory=lambda: secrets.token_hex(4))

    def __post_init__(self) -> None:
        if self.checksum not in ALGORITHMS:
            raise ValueError(f"checksum={self.checksum!r}: say one of {', '.join(map(repr, ALGORITHMS))}")
        if self.symlinks not in SYMLINKS:
            raise ValueError(f"symlinks={self.symlinks!r}: say one of {', '.join(map(repr, SYMLINKS))}")
        if self.mode is not None and (type(self.mode) is not int or not 0 <= self.mode <= 0o7777):
            raise ValueError(
                f"mode={self.mode!r}: give permissions such as 0o644, or None for those of the file itself"
            )
        if self.progress is not None and not callable(self.progress):
            raise TypeError(f"progress must be a function of one Progress, or None, not {self.progress!r}")

    @property
    def keep(self) -> list[str]:
        words = {"owner": self.owner, "time": self.times, "bits": self.mode is not None}
        return [word for word, wanted in words.items() if wanted]

    def how(self, **more: Any) -> dict[str, Any]:
        """What roamlet.wire.files.files.Writer asks for."""
        return {
            "algorithm": self.checksum,
            "overwrite": self.overwrite,
            "parents": self.parents,
            "resume": self.resume,
            "key": "unfinished" if self.resume else self.key,
            "sync": self.sync,
            **more,
        }

    def facts(self, facts: Facts) -> Facts:
        """Those of the source with what was asked for instead."""
        return facts if self.mode is None else [self.mode, *facts[1:]]


def options_of(**given: Unpack[TransferOptions]) -> Options:
    """Raises TypeError and ValueError for what makes no sense."""
    known = TransferOptions.__annotations__
    for name in given:
        if name not in known:
            raise TypeError(f"put() and get() know no option {name!r}; they take {', '.join(known)}")
    return Options(**given)
