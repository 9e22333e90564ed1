"""`python -m weft.stackless SCRIPT [ARG...]`: run an old program, which says `import stackless`, unchanged.

The arguments are Python's own, options, -m and -c among them: it starts Python once more, with a folder on PYTHONPATH in
which `import stackless` finds weft.stackless. So the program's __main__, sys.argv, tracebacks and exit status are what they
always are, and Python processes that it starts find the module as well. Running the program in this process instead would
show our frames to it, and its children would need the folder all the same.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

FOLDER = str(Path(__file__).parent / "_path")

USAGE = """\
usage: python -m weft.stackless [PYTHON OPTION...] SCRIPT | -m MODULE | -c CODE [ARG...]
       python -m weft.stackless --path

Runs a program written for Stackless Python: `import stackless` finds weft.stackless, also in Python processes that the
program starts. Without a program: the interactive interpreter.

--path prints the folder that does it, for any other way to start Python:
    PYTHONPATH=$(python -m weft.stackless --path) pytest"""

ENVIRONMENT_IGNORED = """\
python -m weft.stackless: `import stackless` is found through PYTHONPATH, which -E and -I make Python ignore.
Leave the option out, or let the whole environment find the module, once:
    python -m weft.stackless --path > FOLDER-OF-SITE-PACKAGES/stackless.pth"""


def _options(words: Sequence[str]) -> Iterator[str]:
    """The letters of Python's own options in front of the program's name."""
    words = list(words)
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        word = words.pop(0)
        if word == "--check-hash-based-pycs" and words:
            words.pop(0)
        if word.startswith("--"):
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "cm":  # what follows is the program
                return
            yield letter
            if letter in "WX":  # the rest of the word is its value, or the next word
                if at == len(word) and words:
                    words.pop(0)
                break


def _before(module: str, original: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """What stood between python and `-m module` in its command line: its options, and pdb or coverage where they run us."""
    words = list(original[1 : len(original) - len(arguments)])
    if words and words[-1] == module and len(words) > 1 and words[-2].endswith("m"):
        words[-2:] = [words[-2][:-1]]
    elif words and words[-1].endswith(f"m{module}"):
        words[-1] = words[-1].removesuffix(f"m{module}")
    return words[:-1] if words and words[-1] == "-" else words


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    folders = [folder for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if FOLDER not in folders:
        folders.insert(0, FOLDER)
    return {**environment, "PYTHONPATH": os.pathsep.join(folders)}


def main() -> NoReturn:
    """Become the program, or end with an exit status when there is nothing to run."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        sys.exit(0)
    if arguments == ["--path"]:
        print(FOLDER)
        sys.exit(0)
    if sys.flags.ignore_environment or not {"E", "I"}.isdisjoint(_options(arguments)):
        print(ENVIRONMENT_IGNORED, file=sys.stderr)
        sys.exit(2)
    words = [sys.executable, *_before("weft.stackless", sys.orig_argv, arguments), *arguments]
    os.execve(sys.executable, words, _environment(os.environ))


if __name__ == "__main__":
    main()
