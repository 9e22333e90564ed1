"""`python -m weft.threads SCRIPT [ARG...]`: run a program that has threads, unchanged, with weft's locks and queues.

A folder on PYTHONPATH has a sitecustomize, which Python imports when it starts: it puts the classes of weft.threads into
threading and queue before the program can take theirs, and goes on with the sitecustomize that would have been found. How the
program is started says weft._runner.
"""

from pathlib import Path

from weft._runner import Runner

FOLDER = str(Path(__file__).parent / "_path")

USAGE = """\
usage: python -m weft.threads [PYTHON OPTION...] SCRIPT | -m MODULE | -c CODE [ARG...]
       python -m weft.threads --path

Runs a program that has threads with weft's Lock, RLock, Condition, Semaphore, BoundedSemaphore, Event, Barrier, Queue,
LifoQueue, PriorityQueue and SimpleQueue in `threading` and `queue`, also in Python processes that it starts. Without a
program: the interactive interpreter.

--path prints the folder that does it, for any other way to start Python:
    PYTHONPATH=$(python -m weft.threads --path) pytest"""

SITE_IGNORED = """\
python -m weft.threads: the classes are put in place by a sitecustomize that is found through PYTHONPATH, which -E, -I and -S make
Python ignore. Leave the option out, or let the program do it itself, before it imports anything else:
    import weft.threads; weft.threads.install()"""

RUNNER = Runner("weft.threads", FOLDER, USAGE, "EIS", SITE_IGNORED)

if __name__ == "__main__":
    RUNNER.main()
