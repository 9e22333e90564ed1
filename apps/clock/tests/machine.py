"""A machine for the script to run on: folders for /sys, /run and the stamps, and a clock that is a file, never the real one."""

import hashlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from tools import unpack_debian

__all__ = ["SCRIPT", "SHELLS", "Machine", "Ran", "busybox", "line", "tool"]

SCRIPT = Path(str(resources.files("roamlet_clock") / "files" / "roamlet-clock"))
SHELLS = ("dash", "busybox")
UNPACKED = Path(__file__).parents[3] / ".venv" / "clock-tools"

# Its clock: a number in a file, which `set` changes.
SET = '#!/bin/sh\necho "$1" >>"{folder}/sets"\necho "$1" >"{folder}/clock"\n'


def tool(name: str, package: str) -> list[str]:
    """The command that runs a program: the installed one, or one unpacked into a private folder. Raises CannotUnpack."""
    if installed := shutil.which(name):
        return [installed]
    return unpack_debian.command(unpack_debian.unpack(UNPACKED / package, [package]), name)


def busybox(folder: Path) -> Path:
    """A folder in which every program of busybox has its name; made in `folder`. Raises CannotUnpack.

    It is first on PATH later, so nothing in it may look up a program there: `env` in it would find itself.
    """
    command = tool("busybox", "busybox")
    made = folder / "busybox"
    made.mkdir()
    for name in subprocess.run([*command, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if len(command) == 1:
            (made / name).symlink_to(command[0])
        else:
            (made / name).write_text(f'#!/bin/sh\nexec {" ".join(command)} {name} "$@"\n')
            (made / name).chmod(0o755)
    return made


def line(seconds: int, version: int = 1) -> str:
    """A stamp as it should be: what the script writes is compared with this."""
    text = f"roamlet-clock {version} {seconds}"
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()}\n"


@dataclass(frozen=True)
class Ran:
    status: int
    said: str
    """What it said to the journal."""

    printed: str


@dataclass
class Machine:
    """`programs` is searched first: a stand-in put there by `program` is used in place of the real one."""

    folder: Path
    shell: list[str]
    path: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    script: Path = SCRIPT
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.programs.mkdir()
        self.root.mkdir()
        self.program("set-clock", SET.format(folder=self.folder))
        self.program("adjtimex", "#!/bin/sh\nexit 1\n")  # the kernel of the real machine is not asked

    @property
    def programs(self) -> Path:
        return self.folder / "programs"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def stamps(self) -> Path:
        return self.folder / "stamps"

    @property
    def clock(self) -> int:
        return int((self.folder / "clock").read_text())

    @clock.setter
    def clock(self, seconds: int) -> None:
        (self.folder / "clock").write_text(f"{seconds}\n")

    @property
    def sets(self) -> list[int]:
        """What the clock was set to, in order."""
        path = self.folder / "sets"
        return [int(word) for word in path.read_text().split()] if path.exists() else []

    @property
    def around(self) -> dict[str, str]:
        return {
            "PATH": ":".join(map(str, (self.programs, *self.path))),
            "ROAMLET_CLOCK_DIR": str(self.stamps),
            "ROAMLET_CLOCK_ROOT": str(self.root),
            "ROAMLET_CLOCK_NOW": f"cat {self.folder}/clock",
            "ROAMLET_CLOCK_SET": f"{self.programs}/set-clock",
            **self.environment,
        }

    def start(self, *words: str, around: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """Run the script, `around` being what runs the shell."""
        process = subprocess.Popen(
            [*around, *self.shell, str(self.script), *words],
            env=self.around,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            start_new_session=True,  # so that all of it can be ended at once
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """End what a test that failed has left running."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def run(self, *words: str, around: tuple[str, ...] = ()) -> Ran:
        process = self.start(*words, around=around)
        printed, said = process.communicate(timeout=60)
        return Ran(process.returncode, said, printed)

    def fine(self, *words: str) -> str:
        """Run it, see that it ends with 0, and return what it said."""
        ran = self.run(*words)
        assert ran.status == 0, ran
        return ran.said

    def status(self) -> dict[str, str]:
        printed = self.run("status").printed
        return dict(one.split("=", 1) for one in printed.splitlines())

    def program(self, name: str, text: str) -> Path:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def under_root(self, path: str, text: str = "", changed: int | None = None) -> Path:
        """A file below the machine's root; `changed` is when, in seconds since 1970."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if changed is not None:
            os.utime(file, (changed, changed))
        return file

    def stamp(self, name: str, content: int | str | bytes) -> Path:
        """A stamp: a right one with a time, or whatever bytes."""
        self.stamps.mkdir(exist_ok=True)
        path = self.stamps / name
        if isinstance(content, int):
            content = line(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def stamped(self) -> dict[str, str]:
        """What is in the folder of the stamps."""
        return {path.name: path.read_text() for path in sorted(self.stamps.iterdir())}

    def synchronised(self) -> None:
        self.under_root("/run/systemd/timesync/synchronized")
