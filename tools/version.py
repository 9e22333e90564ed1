"""The version of roamlet and of its apps, which is one: said, or set in all places.

    python -m tools.version            says it, and which places differ from src/roamlet/_version.py
    python -m tools.version 0.2.0      writes it

An app's archive cannot read roamlet's version while it is built, and is pinned to it: so the version is written into each app.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OWN = "src/roamlet/_version.py"

# A release, or what comes before one: 1.2.3, 1.2.3rc1, 1.2.3.dev0.
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?(\.dev\d+)?")
WRITTEN = re.compile(
    r"""(?P<before>^(?:__version__|VERSION) = "|"roamlet(?:\[\w+\])? == )(?P<version>[^"]+)(?=")""", re.MULTILINE
)


def places(root: Path) -> list[str]:
    """The files that have it, roamlet's own first."""
    found = [*root.glob("apps/*/src/*/__init__.py"), *root.glob("apps/*/pyproject.toml")]
    named = sorted(str(path.relative_to(root)) for path in found if WRITTEN.search(path.read_text("utf-8")))
    return [OWN, *named]


def current(root: Path) -> str:
    """What roamlet's own module says."""
    found = WRITTEN.search((root / OWN).read_text("utf-8"))
    assert found is not None
    return found["version"]


def others(root: Path) -> list[tuple[str, str]]:
    """(file, version) of each place that says something else."""
    own = current(root)
    return [
        (name, found["version"])
        for name in places(root)
        for found in WRITTEN.finditer((root / name).read_text("utf-8"))
        if found["version"] != own
    ]


def write(root: Path, version: str) -> None:
    """Set it everywhere."""
    for name in places(root):
        path = root / name
        path.write_text(WRITTEN.sub(lambda found: found["before"] + version, path.read_text("utf-8")), "utf-8")


def main(words: Sequence[str]) -> int:
    """Say the version, or set it. Returns the exit status: 1 when places differ, 64 for a wrong command line."""
    if len(words) > 1 or (words and not VERSION.fullmatch(words[0])):
        print(f"{' '.join(words)} is no version: write one such as 0.2.0 or 0.2.0rc1", file=sys.stderr)
        return 64
    if words:
        write(ROOT, words[0])
    print(current(ROOT))
    for name, version in others(ROOT):
        print(f"{name} says {version}: type python -m tools.version {current(ROOT)}", file=sys.stderr)
    return 1 if others(ROOT) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
