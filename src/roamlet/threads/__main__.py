"""`python -m roamlet.threads SCRIPT [ARG...]`: run a program that has threads, unchanged, with roamlet's locks and queues.

A folder on PYTHONPATH has a sitecustomize, which Python imports when it starts: it puts the classes of roamlet.threads into
threading and queue before the program can take theirs, and goes on with the sitecustomize that would have been found. How the
program is started says roamlet._runner.
"""

from pathlib import Path

from roamlet._runner import Runner

FOLDER = str(Path(__file__).parent / "_path")

USAGE = """\
usage: python -m roamlet.threads [PYTHON OPTION...] SCRIPT | -m MODULE | -c CODE [ARG...]
       python -m roamlet.threads --path

Runs a program that has threads with roamlet's Lock, RLock, Condition, Semaphore, BoundedSemaphore, Event, Barrier, Queue,
LifoQueue, PriorityQueue and SimpleQueue in `threading` and `queue`, also in Python processes that it starts. Without a
program: the interactive interpreter.

--path prints the folder that does it, for any other way to start Python:
    PYTHONPATH=$(python -m roamlet.threads --path) pytest"""

SITE_IGNORED = """\
python -m roamlet.threads: the classes are put in place by a sitecustomize that is found through PYTHONPATH, which -E, -I and -S
make Python ignore. Leave the option out, or let the program do it itself, before it imports anything else:
    import roamlet.threads; roamlet.threads.install()"""

RUNNER = Runner("roamlet.threads", FOLDER, USAGE, "EIS", SITE_IGNORED)

if __name__ == "__main__":
    RUNNER.main()
