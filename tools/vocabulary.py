"""One word for one thing, in plain English: finds words that the glossary replaces, and habits that make text hard to read.

The words come from docs/design/glossary.md, column "Not"; the habits are in HABITS below. Every text file of the
repository is read, except those in EXEMPT. Where a word is right as it is, the comment `words: ok` on its line keeps it.

    python -m tools.vocabulary            fails if a folder has more places than MOST allows
    python -m tools.vocabulary --list     prints every place
    python -m tools.vocabulary --lower    writes the numbers of today into MOST; none rises
"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = "docs/design/glossary.md"
PROSE = (".py", ".pyi", ".c", ".h", ".md", ".toml", ".sh")
KEPT = "words: ok"
MADE = re.compile(r"<!-- \w+: \S+ -->")

# What makes a sentence hard to read, and what to write instead. docs: CONTRIBUTING.md, "Plain English".
HABITS = {
    r"\b[Oo]ver (t)?here\b": "on the target, remotely; in this process, locally",
    r"\b[Ww]ho(ever)? (is|has|was|waits|wakes|takes|calls|keeps|sends|reads|makes|kills|changes|wants|uses|asks)\b": (
        "name the thing that acts: the caller, the sender, the waiting tasklet"
    ),
    r"\b[Ff]or who(ever)?\b": "name the reader: 'for contributors', 'for callers that ...'",
    r"\b(is|are|than) none\b|\bnone any more\b": "say what is absent: 'has no ...'",
    r"\bbehind (it|them|that|the)\b": "'after', unless it is a place or a hop",
    r"\bstands? in\b": "'is in'",
    r"\bso many at once\b|\bas many as there are\b": "'at most N at a time'",
    r"\b[Nn]obody\b": "'no tasklet', 'no thread', 'no caller'",
    r"\b(says?|tells?) of\b": "'describes', 'reports'",
    r"\bof its own kind\b|\bof theirs\b|\bof its\.": "rewrite the sentence",
}

# Files whose words are not prose, or which have to show the words that this tool refuses. Each with its reason.
EXEMPT = {
    "tools/vocabulary.py": "the patterns",
    GLOSSARY: "the words that are replaced",
    "tests/docs/test_vocabulary.py": "tries the patterns",
    "CONTRIBUTING.md": "shows what not to write",
}

# The places that each folder still has, at most. A number never rises: `--lower` writes the smaller ones.
MOST: dict[str, int] = {
    "docs": 3,
    "src": 6,
    "tests": 52,
}


@dataclass(frozen=True)
class Place:
    file: str
    line: int
    found: str
    better: str

    @property
    def folder(self) -> str:
        return self.file.split("/")[0] if "/" in self.file else "."

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.found!r}: {self.better}"


def retired(glossary: str) -> dict[str, str]:
    """Patterns of the words in the column "Not" of the glossary's tables, and the word that replaces each.

    A word in backticks is a name in code, and matches as a whole word; any other matches with either case at its start.
    """
    words = {}
    for row in glossary.splitlines():
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        if not row.startswith("|") or len(cells) != 4 or cells[3] in ("Not", "", "---"):
            continue
        for old in cells[3].split(", "):
            name = old.strip("`")
            if old.startswith("`"):
                pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
            else:
                pattern = rf"\b[{name[0].upper()}{name[0].lower()}]{re.escape(name[1:])}\b"
            words[pattern] = f"the glossary's word is '{cells[0]}'"
    return words


def places(texts: Iterable[tuple[str, str]], words: dict[str, str]) -> Iterator[Place]:
    """Every place in `texts`, pairs of a file's name and its text, that one of `words` matches."""
    patterns = [(re.compile(pattern), better) for pattern, better in words.items()]
    for file, text in texts:
        if any(fnmatch(file, exempt) for exempt in EXEMPT):
            continue
        made = False  # inside of a piece that is made from the code, whose words are counted there
        for number, line in enumerate(text.splitlines(), 1):
            if file.endswith(".md") and line.startswith("<!-- "):
                made = bool(MADE.match(line))
            if made or KEPT in line:
                continue
            for pattern, better in patterns:
                if found := pattern.search(line):
                    yield Place(file, number, found[0], better)


def tracked() -> Iterator[tuple[str, str]]:
    """The text files of the repository, those included that are not committed yet."""
    words = ["git", "-c", "core.quotepath=off", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in sorted(set(listed)):
        path = ROOT / name
        if name.endswith(PROSE) and path.is_file():
            yield name, path.read_text(encoding="utf-8", errors="replace")


def added() -> set[tuple[str, str]]:
    """(file, line) of what was added since the last commit that the origin has, or since the last one."""
    base = "HEAD"
    for name in ("origin/main", "origin/HEAD"):
        done = _git("merge-base", "HEAD", name)
        if done.returncode == 0:
            base = done.stdout.strip()
            break
    lines, file = set(), ""
    for line in _git("diff", "-U0", base).stdout.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif line.startswith("+"):
            lines.add((file, line[1:]))
    return lines


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)


def counted(found: Iterable[Place]) -> dict[str, int]:
    return dict(sorted(Counter(place.folder for place in found).items()))


def main(arguments: list[str]) -> int:
    glossary = (ROOT / GLOSSARY).read_text(encoding="utf-8")
    found = list(places(tracked(), HABITS | retired(glossary)))
    counts = counted(found)
    if "--list" in arguments:
        print("\n".join(map(str, found)))
        return 0
    if "--lower" in arguments:
        lowered = {folder: min(count, MOST.get(folder, count)) for folder, count in counts.items()}
        tool = Path(__file__)
        rows = "".join(f"    {json.dumps(folder)}: {count},\n" for folder, count in lowered.items())
        text = re.sub(r"(?m)^(MOST: .*{\n)[^}]*}", rf"\1{rows}}}", tool.read_text(encoding="utf-8"))
        tool.write_text(text, encoding="utf-8")
        return 0
    more = {folder for folder, count in counts.items() if count > MOST.get(folder, 0)}
    for folder in sorted(more):
        print(f"{folder}: {counts[folder]} places, and at most {MOST.get(folder, 0)} are allowed.")
    if more:
        new = added()
        lines = {name: text.splitlines() for name, text in tracked()}
        print("Those on lines that this change has added; --list prints all:")
        for place in found:
            if place.folder in more and (place.file, lines[place.file][place.line - 1]) in new:
                print(f"  {place}")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
