"""`python -m weft.stackless SCRIPT [ARG...]`: run an old program, which says `import stackless`, unchanged.

A folder on PYTHONPATH has the module `stackless`, which is weft.stackless: see weft._runner.
"""

from pathlib import Path

from weft._runner import Runner

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

RUNNER = Runner("weft.stackless", FOLDER, USAGE, "EI", ENVIRONMENT_IGNORED)

if __name__ == "__main__":
    RUNNER.main()
