"""What a newcomer does with a wheel of roamlet, in order and timed: install it, type in the tutorial, and start `roamlet demo`.

    python3 tools/newcomer.py collect FOLDER                     the programs of README.md and of the tutorial, from a clone
    python3 newcomer.py play WHEEL PROGRAMS [--within SECONDS]   the rest, with the Python that runs this, and nothing of the clone

Each program must print what the page says. The status is 1 when a step fails, or when all take longer than `--within`. Needs the
standard library alone: tools/newcomer.sh runs it in systems that have nothing else.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

COMPILERS = ("cc", "gcc", "clang", "c99", "tcc")


class Stuck(Exception):
    """A step did not do what it should; the message has what was seen."""


def collect(folder: Path) -> int:
    """Write the programs, and what each prints, into a folder. Returns how many there are."""
    root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root))  # started by its path
    from tests.docs.blocks import scripts

    folder.mkdir(parents=True, exist_ok=True)
    found = scripts(
        root / "README.md", *(root / "docs/tutorial" / name for name in ("tasklets.md", "network.md", "hosts.md"))
    )
    told = [{"name": each.name, "text": each.text, "prints": each.prints} for each in found]
    (folder / "programs.json").write_text(json.dumps(told), "utf-8")
    return len(told)


class Newcomer:
    """An environment of this Python in a folder of its own, and how long each step took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "venv/bin"
        self.seconds: dict[str, float] = {}
        self.environment = {**os.environ, "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}

    def run(self, words: Sequence[object], prints: str | None = None) -> str:
        """Run it to its end. Returns its output; Stuck when it fails, says something on stderr, or does not print `prints`."""
        command = [str(word) for word in words]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode or (prints is not None and (done.stdout != prints or done.stderr)):
            raise Stuck(f"$ {' '.join(command)}\nstatus {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def install(self, wheel: str) -> str:
        """A virtual environment with the wheel, its command line, and what the demo sends."""
        self.run([sys.executable, "-m", "venv", "venv"])
        pip = ["venv/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
        self.run([*pip, f"roamlet[cli,demo] @ file://{wheel}"])
        version = self.run(["roamlet", "--version"]).strip()
        return f"{version}, {self.run(['venv/bin/python', '-c', 'import roamlet.core; print(roamlet.core.backend)']).strip()}"

    def type_in(self, programs: Sequence[dict[str, str]]) -> str:
        """Each program, as a script of its own."""
        for program in programs:
            (self.folder / "script.py").write_text(program["text"], "utf-8")
            try:
                self.run(["venv/bin/python", "script.py"], program["prints"] or "")
            except Stuck as stuck:
                raise Stuck(f"{program['name']}: {stuck}\nthe page says:\n{program['prints']}") from None
        return f"{len(programs)} programs"

    def demo(self) -> str:
        """`roamlet demo`; its last line."""
        return self.run(["roamlet", "demo"]).strip().splitlines()[-1]


def play(wheel: Path, programs: Path, within: float) -> int:
    """Take all steps and print a line for each. Returns the exit status."""
    python = platform.python_version()
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    print(f"Python {python}; {compiler or 'no compiler'}; {wheel.name}", flush=True)
    told = json.loads((programs / "programs.json").read_text("utf-8"))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="newcomer-") as scratch:
        newcomer = Newcomer(Path(scratch))
        for name, step in (
            ("install", lambda: newcomer.install(str(wheel.resolve()))),
            ("tutorial", lambda: newcomer.type_in(told)),
            ("demo", newcomer.demo),
        ):
            started = time.monotonic()
            try:
                said = step()
            except Stuck as stuck:
                print(f"{name}: FAILED\n{stuck}", flush=True)
                return 1
            print(f"{name:9} {time.monotonic() - started:5.1f} s  {said}", flush=True)
        # Without what removes the folder again. The processors' time says what a machine that does nothing else would take.
        taken = time.monotonic() - begun
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    late = "" if taken <= within else f", more than {within:g} s: FAILED"
    processors = used.ru_utime + used.ru_stime
    print(f"Python {python}: {taken:.0f} s in all, {processors:.0f} s of processors{late}", flush=True)
    return 0 if taken <= within else 1


def main(words: Sequence[str]) -> int:
    """Collect or play. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="newcomer.py", description=(__doc__ or "").partition("\n")[0])
    steps = parser.add_subparsers(dest="step", required=True)
    collecting = steps.add_parser("collect")
    collecting.add_argument("folder", type=Path)
    playing = steps.add_parser("play")
    playing.add_argument("wheel", type=Path)
    playing.add_argument("programs", type=Path)
    playing.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    options = parser.parse_args(words)
    if options.step == "collect":
        print(f"{collect(options.folder)} programs")
        return 0
    return play(options.wheel, options.programs, options.within)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
