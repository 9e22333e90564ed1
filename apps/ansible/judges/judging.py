"""One target in one column: run in a sandbox, its result kept as JSON and its output as a log."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from apps.ansible.judges import sandbox

INSIDE = Path(__file__).resolve().parent / "inside.py"
GRACE = 60  # seconds that a sandbox may take beyond its target's time-out, to be made and to say what happened


@dataclass(frozen=True)
class Column:
    """A way to reach the target: the connection plugin, and variables of the inventory."""

    name: str
    connection: str
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def is_stock(self) -> bool:
        """Whether this is core's own plugin, whose result is the measure of the others."""
        return self.connection == "ssh"


COLUMNS = {
    column.name: column
    for column in (
        Column("ssh", "ssh"),
        Column("pipelining", "ssh", {"ansible_pipelining": "yes"}),
        Column("roamlet", "roamlet.remote.ssh"),
    )
}


@dataclass(frozen=True)
class Result:
    """How a target ended: `outcome` is "passed", "failed", "timed out" or "broken" (the sandbox, and not the target)."""

    target: str
    column: str
    outcome: str
    seconds: float
    code: int | None = None
    sessions: int = 0  # ssh sessions that the sandbox's sshd opened for it
    renamed: tuple[str, ...] = ()  # its own files that named core's plugin, and were made to name the column's
    key: str = ""  # what it was measured with; a result of another key is not taken over
    sources: str = ""  # the digest of roamlet's sources; empty for stock

    @property
    def passed(self) -> bool:
        """Whether it passed. All else counts as failed."""
        return self.outcome == "passed"


@dataclass(frozen=True)
class Setup:
    """What all targets of one core line share."""

    source: Path
    venv: Path
    wheels: Path
    version: str
    layer: Path | None
    results: Path
    where: Path  # where sandboxes are mounted
    stock_key: str
    sources: str = ""  # the digest of roamlet's, where it is judged
    adjusted: dict[str, list[list[str]]] = field(default_factory=dict)  # by target: file, text, new text

    def key(self, column: str, target: str) -> str:
        """What a result depends on."""
        changed = self.adjusted.get(target)
        own = "" if COLUMNS[column].is_stock else f" {self.sources}"
        return self.stock_key + own + (f" {json.dumps(changed)}" if changed else "")


# From the description of a target to what is typed for it.
Starter = Callable[[Setup, dict], list[str]]


def in_sandbox(setup: Setup, spec: dict) -> list[str]:
    """`inside.py` in a sandbox."""
    return sandbox.command(setup.where, [sys.executable, "-I", str(INSIDE), json.dumps(spec)], layer=setup.layer)


def paths(setup: Setup, column: str, target: str) -> tuple[Path, Path]:
    """Where a result and its log are kept."""
    folder = setup.results / column
    return folder / f"{target}.json", folder / f"{target}.log"


def kept(setup: Setup, column: str, target: str) -> Result | None:
    """The result of an earlier run with the same key; None without one."""
    try:
        result = Result(**json.loads(paths(setup, column, target)[0].read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return result if result.key == setup.key(column, target) else None


def _answer(process: subprocess.Popen, descriptor: int, seconds: float) -> dict | None:
    """What the sandbox reports; None when it does not in time, and its processes are then ended."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        process.wait()
    with open(descriptor, encoding="utf-8", closefd=False) as stream:
        try:
            found: dict = json.load(stream)
        except ValueError:
            return {}
    return found


def judge(setup: Setup, column: Column, target: str, seconds: float, start: Starter = in_sandbox) -> Result:
    """Run one target in one column, and keep its result and its log."""
    result_path, log_path = paths(setup, column.name, target)
    result_path.parent.mkdir(parents=True, exist_ok=True)
    result_path.unlink(missing_ok=True)
    reading, writing = os.pipe()
    spec = {
        "source": str(setup.source),
        "venv": str(setup.venv),
        "wheels": str(setup.wheels),
        "version": setup.version,
        "target": target,
        "output": "/tmp/judge-output",
        "connection": column.connection,
        "variables": column.variables,
        "timeout": seconds,
        "adjust": setup.adjusted.get(target, []),
        "result": writing,
    }
    started = time.monotonic()
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            start(setup, spec),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[writing],
        )
        os.close(writing)
        answer = _answer(process, reading, seconds + GRACE)
        os.close(reading)
    took = round(time.monotonic() - started, 1)
    if answer is None or "code" not in answer:
        outcome, answer = ("timed out" if answer is None else "broken"), {"seconds": took}
    elif answer["code"] is None:
        outcome = "timed out"
    else:
        outcome = "failed" if answer["code"] else "passed"
    answer["renamed"] = tuple(answer.get("renamed", ()))
    result = Result(
        target=target,
        column=column.name,
        outcome=outcome,
        key=setup.key(column.name, target),
        sources="" if column.is_stock else setup.sources,
        **answer,
    )
    result_path.write_text(json.dumps(asdict(result), indent=1) + "\n", "utf-8")
    return result
