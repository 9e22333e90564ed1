"""Which targets are run for which line of ansible-core, and why the others are not: `targets.toml`, read and checked."""

import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
DATA = FOLDER / "targets.toml"


@dataclass(frozen=True)
class Core:
    """A line of ansible-core: the release that is judged, and the Python that its controller runs on."""

    line: str
    version: str
    python: str


@dataclass(frozen=True)
class Targets:
    """The contents of `targets.toml`."""

    cores: dict[str, Core]
    run: tuple[str, ...]
    left_out: dict[str, str]  # a name or a pattern of names: the reason
    seconds: dict[str, float] = field(default_factory=dict)  # time-outs of those that need more than the usual one
    adjusted: dict[str, list[list[str]]] = field(default_factory=dict)  # texts that are replaced: file, text, new text
    adjusted_why: dict[str, str] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)  # those that are run and fail with stock, too: the reason

    def chosen(self, present: Collection[str]) -> list[str]:
        """Those that are run, of the targets that a core has, in the order of the file."""
        return [name for name in self.run if name in present]

    def reason(self, name: str) -> str | None:
        """Why a target is left out; None for one that is not."""
        if name in self.run:
            return None
        for pattern, reason in self.left_out.items():
            if fnmatchcase(name, pattern):
                return reason
        return None

    def unknown(self, present: Collection[str]) -> list[str]:
        """The targets of a core that the file says nothing about."""
        return sorted(name for name in present if name not in self.run and self.reason(name) is None)


def read(path: Path = DATA) -> Targets:
    """The data file, checked: a target is named once, and each one that is left out has a reason."""
    data = tomllib.loads(path.read_text("utf-8"))
    cores = {line: Core(line, **values) for line, values in data["core"].items()}
    run = tuple(name for group in data["run"].values() for name in group)
    left_out: dict[str, str] = {}
    for group in data["left-out"].values():
        for name in group["targets"]:
            if name in left_out:
                raise ValueError(f"{path.name}: {name} is left out twice")
            left_out[name] = group["reason"]
    twice = {name for name in run if run.count(name) > 1} | (set(run) & set(left_out))
    if twice:
        raise ValueError(f"{path.name}: named twice: {', '.join(sorted(twice))}")
    adjusted = {name: change["texts"] for name, change in data.get("adjusted", {}).items()}
    reasons = {name: change["reason"] for name, change in data.get("adjusted", {}).items()}
    fails = data.get("fails-with-stock", {})
    if strange := set(fails) - set(run):
        raise ValueError(f"{path.name}: not run, so that they cannot fail with stock: {', '.join(sorted(strange))}")
    return Targets(cores, run, left_out, data.get("seconds", {}), adjusted, reasons, fails)


def present(source: Path) -> list[str]:
    """The targets that a core's sdist holds."""
    return sorted(path.name for path in (source / "test/integration/targets").iterdir() if path.is_dir())
