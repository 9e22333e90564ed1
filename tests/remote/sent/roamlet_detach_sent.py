"""Functions for test_detach.py. They run on any target, 2.7 too, so they use what every version knows."""

import os
import signal
import sys
import threading


def open_files():
    """Where the descriptors of this process lead that are neither a file nor what roamlet waits with."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            place = os.readlink("/proc/self/fd/" + number)
        except OSError:
            continue  # that of the folder
        if not place.startswith("/"):
            found.append(place.split(":")[0])
    return sorted(found)


def wait_and_write(fifo, result):
    """Wait until somebody opens the pipe and writes a word; then import what was not imported, and write a file."""
    with open(fifo) as pipe:
        word = pipe.read()
    import roamlet_kinds  # which no one has imported here: it must have come along

    said = [
        word.strip(),
        str(os.getpid()),
        str(os.getsid(0) == os.getpid()),
        threading.current_thread().name,
        " ".join(open_files()),
        roamlet_kinds.__name__,
        str(signal.getsignal(signal.SIGINT) is signal.default_int_handler),
    ]
    with open(result + ".new", "w") as out:
        out.write("\n".join(said))
    os.rename(result + ".new", result)


def write(result, value):
    with open(result, "w") as out:
        out.write(repr(value))


def print_and_raise(text):
    print(text)
    sys.stderr.write("to stderr\n")
    raise ValueError("no good")


def log_and_exit(code):
    import logging

    logging.basicConfig(format="%(levelname)s %(message)s")
    logging.getLogger("roamlet.test").warning("logged")
    os.system("echo by a program")
    sys.exit(code)


def import_by_name(name):
    try:
        __import__(name)
    except ImportError as error:
        print(error)


def fork_twice(result):
    """Let a child of a child write, into a file that was opened between the two."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    files = [open(result + str(number), "w") for number in range(8)]
    grandchild = os.fork()
    if not grandchild:
        for file in files:
            file.write("x")
            file.close()
    else:
        os.waitpid(grandchild, 0)
    os._exit(0)


def outlive_by_thread(result):
    """Return while a thread still works, as a program may, and register an exit handler."""
    import atexit

    atexit.register(write, result + ".exit", "exit")
    threading.Thread(target=write, args=(result, threading.current_thread().name)).start()


def streams_of_router():
    """How many processes and contexts this intermediary knows."""
    import gc

    router = [thing for thing in gc.get_objects() if type(thing).__name__ == "Router"][0]
    return len(router.routes), len(router._streams)


class Point(object):
    def __init__(self, x):
        self.x = x

    def write(self, result):
        write(result, self.x)


def die():
    os._exit(7)


def solve(result):
    import numpy

    solved = numpy.linalg.solve(numpy.array([[3.0, 1], [1, 2]]), numpy.array([9.0, 8])).tolist()
    with open(result, "w") as out:
        out.write("%s %s" % (solved, numpy.__file__))
