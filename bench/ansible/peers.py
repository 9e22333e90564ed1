"""Where ansible-core, Mitogen and roamlet's plugin are installed for the benchmark: an environment of its own under build/."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from roamlet_lab.errors import NotPossible
from tools.pythons import candidates

from ..workers import ROOT

CORE, MITOGEN = "ansible-core==2.21.5", "mitogen==0.3.54"
OWN_CALLBACK = "bench_results"
CONNECTIONS = Path(__file__).parent / "connections"
FOLDER = ROOT / "build" / "bench-ansible"
PYTHONS = ("3.12", "3.13", "3.14")  # those of CORE; the first one is what figures are compared on


@dataclass(frozen=True)
class Side:
    """One way to run playbooks, as environment variables, which is how its own documentation switches it on for one run."""

    name: str
    title: str
    environment: dict[str, str]


def _answers(plugin: str) -> dict[str, str]:
    return {"ANSIBLE_CONNECTION_PLUGINS": str(CONNECTIONS), "ANSIBLE_TRANSPORT": plugin, "ANSIBLE_PIPELINING": "1"}


RECORDING = Side("recording", "stock, whose answers are kept", _answers("bench_record"))


def sides(venv: Path) -> dict[str, Side]:
    """All sides that are installed in `venv`, by name. The side "core" takes what RECORDING has kept of the same playbook."""
    (packages,) = venv.glob("lib/python3.*/site-packages")
    strategies = packages / "ansible_mitogen" / "plugins" / "strategy"
    found = [
        Side("plain", "stock, no pipelining", {"ANSIBLE_PIPELINING": "0"}),
        Side("stock", "stock, pipelining", {"ANSIBLE_PIPELINING": "1"}),
        Side("mitogen", "Mitogen", {"ANSIBLE_STRATEGY_PLUGINS": str(strategies), "ANSIBLE_STRATEGY": "mitogen_linear"}),
        Side("core", "core alone, answers replayed", _answers("bench_replay")),
    ]
    if any(packages.glob("roamlet_ansible-*.dist-info")):
        over = {"ANSIBLE_TRANSPORT": "roamlet.remote.ssh"}
        found.append(Side("bare", "roamlet, without the callback", over))
        found.append(
            Side("roamlet", "roamlet", {**over, "ANSIBLE_CALLBACKS_ENABLED": f"{OWN_CALLBACK},roamlet.remote.preload"})
        )
    return {side.name: side for side in found}


def versions(venv: Path) -> dict[str, str]:
    """What is compared, by distribution."""
    code = "import importlib.metadata as m; print(*(n + '=' + m.version(n) for n in ('ansible-core', 'mitogen')))"
    done = subprocess.run([venv / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    python = subprocess.run([venv / "bin" / "python", "-V"], capture_output=True, text=True, check=True).stdout.split()[
        1
    ]
    return {**dict(word.split("=") for word in done.stdout.split()), "ansible's python": python}


def installed(say: Callable[[str], None]) -> Path:
    """The environment; it is made, or made anew after the apps have changed, which takes two minutes and the network.

    Raises NotPossible when there is no Python for ansible-core, or something cannot be installed.
    """
    stamp = FOLDER / "bench.stamp"
    key = _key()
    if stamp.exists() and stamp.read_text() == key:
        return FOLDER
    python = _python()
    say(f"ansible: installing {CORE} and {MITOGEN} into {FOLDER.relative_to(ROOT)}, with {python}")
    commands = (
        [str(ROOT / "tools" / "prepare.sh"), str(FOLDER), ""],
        [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "-q", CORE, MITOGEN],
    )
    for words in commands:
        done = subprocess.run(
            words,
            env={**os.environ, "PYTHON": python},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NotPossible(f"{' '.join(words)} ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}")
    stamp.write_text(key)
    return FOLDER


def _key() -> str:
    """What the environment depends on; the packages of the repository are installed in editable form."""
    projects = sorted(ROOT.glob("apps/*/pyproject.toml"))
    digest = hashlib.sha256(f"{CORE} {MITOGEN}".encode())
    for path in (ROOT / "pyproject.toml", *projects):
        digest.update(str(path).encode() + path.read_bytes())
    for path in sorted(ROOT.glob("src/roamlet/*/c/**/*.[ch]")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _python() -> str:
    for candidate in _candidates():
        code = f"import sys, venv; sys.exit('%d.%d' % sys.version_info[:2] not in {PYTHONS!r})"
        try:
            done = subprocess.run([candidate, "-c", code], stderr=subprocess.DEVNULL, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    raise NotPossible(f"{CORE} takes one of Python {', '.join(PYTHONS)}, and none is here; name one with PYTHON=")


def _candidates() -> Iterator[str]:
    if asked := os.environ.get("PYTHON"):
        yield asked
    yield from map(str, candidates(PYTHONS))
    yield sys.executable
