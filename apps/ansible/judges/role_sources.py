"""Where the roles that are judged come from: git repositories at one commit, and collections out of the package `ansible`.

All of it stays in `build/ansible-judges/roles`. git is asked as the user has set it up: `url.X.insteadOf` names a mirror.
"""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.ansible.judges.prepare import BUILD, NotPrepared

DATA = Path(__file__).with_name("roles.toml")
FOLDER = BUILD / "roles"


@dataclass(frozen=True)
class Role:
    """One role of the data file. `vars`, `before` and `check` are YAML."""

    name: str
    subject: str
    repository: str
    commit: str
    collection: str = ""
    vars: str = ""
    before: str = ""
    check: str = ""

    @property
    def title(self) -> str:
        """As in a playbook: its name in its collection, or that of its repository."""
        if self.collection:
            return f"{self.collection}.{self.name}"
        owner, repository = self.repository.split("/")[-2:]
        return f"{owner}.{repository.removeprefix('ansible-').removeprefix('role-')}"


def read() -> tuple[dict[str, Role], dict[str, Any]]:
    """The roles by name, and the table `collections`."""
    data = tomllib.loads(DATA.read_text("utf-8"))
    return {name: Role(name, **values) for name, values in data["role"].items()}, data["collections"]


def fetched(role: Role) -> str:
    """The role, below FOLDER: fetched if it is not there. Returns the word for `roles:` of a play. Raises NotPrepared."""
    if role.collection:
        namespace, name = role.collection.split(".")
        checkout(role, FOLDER / "collections" / "ansible_collections" / namespace / name)
    else:
        checkout(role, FOLDER / "roles" / role.title)
    return role.title


def checkout(role: Role, folder: Path) -> Path:
    """The repository of `role` at its commit, in `folder`, which is returned. Raises NotPrepared."""
    stamp = folder / ".judges-commit"
    if stamp.exists() and stamp.read_text("utf-8") == role.commit:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for words in (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth", "1", role.repository, role.commit],
        ["checkout", "--quiet", role.commit],
    ):
        _run(["git", "-C", str(folder), *words], f"fetching {role.repository}")
    stamp.write_text(role.commit, "utf-8")
    return folder


def collections(table: dict[str, Any]) -> None:
    """The collections that roles use, in FOLDER; 50 MB are downloaded by pip if they are not there. Raises NotPrepared."""
    folder = FOLDER / "collections"
    stamp = folder / "judges.stamp"
    wanted = f"{table['package']} {' '.join(table['names'])}"
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--python-version",
        "3.12",
    ]
    _run([*pip, "--dest", str(FOLDER), table["package"]], f"downloading {table['package']}")
    (wheel,) = FOLDER.glob("ansible-*.whl")
    prefixes = tuple(f"ansible_collections/{name.replace('.', '/')}/" for name in table["names"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(prefixes)])
    wheel.unlink()
    stamp.write_text(wanted, "utf-8")


def _run(words: list[str], what: str) -> None:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-500:]
        raise NotPrepared(f"{what} failed with {done.returncode}: {said}")
