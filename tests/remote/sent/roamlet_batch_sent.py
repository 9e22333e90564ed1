"""What the tests of batch jobs submit."""

import os
import sys


def work(number, path=None):
    import roamlet_kinds  # which no one has imported here: it must have come along

    print("worked on %r in task %s with %s" % (number, os.environ.get("SLURM_ARRAY_TASK_ID"), roamlet_kinds.__name__))
    sys.stderr.write("and said so\n")
    if path is not None:
        with open(path, "w") as file:
            file.write(str(number))


def fail(text):
    raise ValueError(text)


def leave(code):
    sys.exit(code)


def size_of(data):
    print(len(data))


def read_all():
    print(repr(sys.stdin.read()))
