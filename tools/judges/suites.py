"""Suites of libraries, from their sources: the environment and the server that each wants, and how it is run."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from tools import servers
from tools.judges.judging import Run, run_tests

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("suites.toml")
INSIDE = Path(__file__).with_name("inside_pytest.py")
FOLDER = ROOT / "build" / "judges-suites"
UNPACKED = FOLDER / "servers"

KEYS = {"source", "needs", "arguments", "extras", "repository", "server", "environment"}


@dataclass(frozen=True)
class Suite:
    """One entry of suites.toml."""

    name: str
    source: str
    """The library and its version, as pip takes them."""
    needs: tuple[str, ...]
    """What its tests need besides, as pip takes it."""
    arguments: tuple[str, ...]
    """For pytest, in the folder of the source distribution."""
    extras: str = ""
    """Extras of the library, with commas between."""
    repository: str = ""
    """Where its tests are, if the source distribution lacks them: ADDRESS@TAG, for git."""
    server: str | None = None
    """A key of servers.SERVERS: what listens on its usual port of the loopback device meanwhile."""
    environment: tuple[str, ...] = ()
    """Variables of its processes, NAME=VALUE."""

    @property
    def folder(self) -> Path:
        """Where its environment and its sources are."""
        return FOLDER / self.name

    @property
    def python(self) -> str:
        """The interpreter of its environment."""
        return str(self.folder / "venv" / "bin" / "python")

    @property
    def sources(self) -> Path:
        """The unpacked source distribution."""
        return self.folder / "source"


def suites(path: Path = LIST) -> dict[str, Suite]:
    """The suites by their names. ValueError for an entry with a key that there is not, or without one that must be there."""
    found = {}
    for name, entry in tomllib.loads(path.read_text("utf-8")).items():
        if set(entry) - KEYS or not {"source", "needs", "arguments"} <= set(entry):
            raise ValueError(f"{path}: [{name}] has source, needs, arguments and perhaps {', '.join(sorted(KEYS))}")
        if "server" in entry and entry["server"] not in servers.SERVERS:
            raise ValueError(f"{path}: [{name}] server is one of {', '.join(servers.SERVERS)}, not {entry['server']!r}")
        lists = {key: tuple(entry[key]) for key in ("needs", "arguments", "environment") if key in entry}
        found[name] = Suite(name=name, **{**entry, **lists})
    return found


def prepare(suite: Suite, python: str) -> None:
    """Make its environment with this Python, with roamlet as it is in this clone, and unpack its sources and its server.

    What is there already, for the same entry of the list, stays; roamlet is installed anew. Blocks for minutes, and needs the
    package index and Debian's archives.
    """
    made = suite.folder / "made-from"
    entry = f"{python} {suite}"
    if not made.is_file() or made.read_text("utf-8") != entry:
        shutil.rmtree(suite.folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(suite.folder / "venv")], check=True)
        library = suite.source.replace("==", f"[{suite.extras}]==") if suite.extras else suite.source
        _pip(suite, "install", "-q", "setuptools>=77", "greenlet>=3", "pytest", library, *suite.needs)
        _unpack(suite)
        made.write_text(entry, "utf-8")
    if suite.server is not None:
        servers.program(suite.server, UNPACKED / suite.server)
    configuration = suite.folder / "build.cfg"
    configuration.write_text(f"[build]\nbuild_base = {suite.folder}/built\n", "utf-8")
    _pip(suite, "install", "-q", "--no-deps", "--no-build-isolation", ".", DIST_EXTRA_CONFIG=str(configuration))


def _pip(suite: Suite, *words: str, **environment: str) -> None:
    command = [suite.python, "-m", "pip", "--disable-pip-version-check", *words]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True)


def _unpack(suite: Suite) -> None:
    """Its source distribution, or the repository that has its tests, to its folder."""
    if suite.repository:
        address, _, tag = suite.repository.rpartition("@")
        command = ["git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth=1", f"--branch={tag}"]
        subprocess.run([*command, address, str(suite.sources)], check=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        name = suite.source.partition("==")[0]  # what it takes to read its metadata may come as wheels
        _pip(suite, "download", "-q", "--no-deps", "--no-binary", name, "-d", folder, suite.source)
        (archive,) = Path(folder).glob("*.tar.gz")
        with tarfile.open(archive) as members:
            members.extractall(folder, filter="data")
        (unpacked,) = (path for path in Path(folder).iterdir() if path.is_dir())
        shutil.move(unpacked, suite.sources)


def run_suite(suite: Suite, *, patch: Sequence[str] | None, only: Collection[str] | None = None) -> Run:
    """Run its tests with the stock or with the patched standard library, as judging.run_module does with a module."""
    server = servers.running(suite.server, UNPACKED / suite.server, listens=True) if suite.server else nullcontext()
    with server:
        command = ["env", *suite.environment, suite.python]
        return run_tests(command, [str(INSIDE), *suite.arguments], patch=patch, only=only, cwd=suite.sources)


def chosen(names: Sequence[str]) -> list[Suite]:
    """Those of these names that are suites; all of them without names."""
    known = suites()
    return [known[name] for name in names if name in known] if names else list(known.values())


if __name__ == "__main__":
    for each in chosen(sys.argv[1:]):
        prepare(each, sys.executable)
