"""`python -m roamlet.stackless SCRIPT [ARG...]`: run an old program, which says `import stackless`, unchanged.

A folder on PYTHONPATH has the module `stackless`, which is roamlet.stackless: see roamlet._runner.
"""

from pathlib import Path

from roamlet._runner import Runner

FOLDER = str(Path(__file__).parent / "_path")

USAGE = """\
usage: python -m roamlet.stackless [--deadlock MODE] [PYTHON OPTION...] SCRIPT | -m MODULE | -c CODE [ARG...]
       python -m roamlet.stackless --path

Runs a program written for Stackless Python: `import stackless` finds roamlet.stackless, also in Python processes that the
program starts. Without a program: the interactive interpreter.

--deadlock auto|raise|warn|off says what happens when the main tasklet waits and nothing can wake it; see
roamlet.set_deadlock_mode. auto, the default, raises the error unless the process has threads that are not Python's.

--path prints the folder that does it, for any other way to start Python:
    PYTHONPATH=$(python -m roamlet.stackless --path) pytest"""

ENVIRONMENT_IGNORED = """\
python -m roamlet.stackless: `import stackless` is found through PYTHONPATH, which -E and -I make Python ignore.
Leave the option out, or let the whole environment find the module, once:
    python -m roamlet.stackless --path > FOLDER-OF-SITE-PACKAGES/stackless.pth"""

DEADLOCK_MODES = ("auto", "raise", "warn", "off")

RUNNER = Runner(
    "roamlet.stackless", FOLDER, USAGE, "EI", ENVIRONMENT_IGNORED, {"--deadlock": ("ROAMLET_DEADLOCK", DEADLOCK_MODES)}
)

if __name__ == "__main__":
    RUNNER.main()
