"""`python -m roamlet.patch SCRIPT [ARG...]`: run an unchanged program with the standard library made cooperative.

A folder on PYTHONPATH has a sitecustomize, which Python imports when it starts: it calls install() before the program
can import anything, and goes on with the sitecustomize that would have been found. See roamlet._runner.
"""

from pathlib import Path

from roamlet._runner import Runner
from roamlet.patch._start import LOCAL, PIPES, STRICT, THREADS

FOLDER = str(Path(__file__).parent / "_path")

USAGE = """\
usage: python -m roamlet.patch [--strict] [--pipes] [--local] [--threads=tasklets] [PYTHON OPTION...]
                               SCRIPT | -m MODULE | -c CODE [ARG...]
       python -m roamlet.patch --path

Runs a program with the standard library made cooperative, also in Python processes that it starts: sockets, TLS, names of
hosts, select, time.sleep, locks and queues, child processes and waits for signals block one tasklet, not its thread.
Without a program: the interactive interpreter.

--strict ends the program before it begins, with exit status 1, when something was imported too early; it is a warning otherwise.
--pipes lets os.read, os.write and their kin wait as tasklets do.
--local makes the attributes of a threading.local belong to the tasklet, not to its thread.
--threads=tasklets makes each thread that the program starts a tasklet of its main thread, which implies --local and --pipes.

--path prints the folder that does it, for any other way to start Python:
    PYTHONPATH=$(python -m roamlet.patch --path) pytest"""

SITE_IGNORED = """\
python -m roamlet.patch: the standard library is patched by a sitecustomize that is found through PYTHONPATH, which -E, -I and -S
make Python ignore. Leave the option out, or let the program do it itself, before it imports anything else:
    import roamlet.patch; roamlet.patch.install()"""

RUNNER = Runner(
    "roamlet.patch",
    FOLDER,
    USAGE,
    "EIS",
    SITE_IGNORED,
    {
        "--strict": (STRICT, ()),
        "--pipes": (PIPES, ()),
        "--local": (LOCAL, ()),
        "--threads": (THREADS, ("os", "tasklets")),
    },
)


if __name__ == "__main__":
    RUNNER.main()
