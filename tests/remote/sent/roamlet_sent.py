"""Functions that the tests send to their contexts. The common syntax of 2.7 and 3.6+, standard modules only."""

import atexit
import logging
import os
import signal
import sys
import threading
import time

_lock = threading.Lock()
_arrived = 0
_everybody_is_here = threading.Event()
_released = threading.Event()
_never = threading.Event()
_time_of_day = time.time
_ahead = [0]


class OwnError(Exception):
    pass


def echo(value):
    return value


def type_name(value):
    return type(value).__name__


def add(a, b=0):
    return a + b


def nothing():
    return None


def version():
    return tuple(sys.version_info[:2])


def size_of(data):
    return len(data)


def zeros(count):
    return b"\0" * count


def rows(count):
    return [(number, None) for number in range(count)]


def empty_values(count):
    return [None] * count


def raise_value_error():
    raise ValueError("not good", 17)


def raise_key_error():
    return {}["no such key"]


def raise_own_error():
    raise OwnError("only known on the target")


def raise_interrupt():
    raise KeyboardInterrupt("on the target")


def raise_inside_cause():
    try:
        raise_key_error()
    except KeyError:
        raise ValueError("while looking")


def open_missing_file():
    return open("/no/such/file/anywhere")


def decode_nonsense():
    return b"\xff".decode("utf-8")


def exit_with(code):
    sys.exit(code)


def die_with(code):
    os._exit(code)


def kill_self(number):
    os.kill(os.getpid(), number)
    _never.wait()  # the signal may come to another thread


def meet(number):
    """Return when `number` calls of this are running at the same time."""
    global _arrived
    with _lock:
        _arrived += 1
        if _arrived == number:
            _everybody_is_here.set()
    return bool(_everybody_is_here.wait(30))


def wait_for_release():
    return bool(_released.wait(30))


def release():
    _released.set()


def print_when_released(text):
    threading.Thread(target=lambda: (_released.wait(30), print_lines([text], []))).start()


def never_return():
    _never.wait()


def compute_for_ever():
    while True:
        pass


def print_lines(out, err):
    for line in out:
        sys.stdout.write(line + "\n")
    for line in err:
        sys.stderr.write(line + "\n")


def print_without_line_break(text):
    sys.stdout.write(text)


def print_from_a_program(text):
    os.system("echo " + text)


def print_many(count):
    for number in range(count):
        sys.stdout.write("%07d %s\n" % (number, "x" * 90))
    return count


def print_many_and_say_so(count):
    print_many(count)
    printed.set()
    return count


def wait_until_printed(seconds):
    return printed.wait(seconds) is not False


printed = threading.Event()


def log(name, level, message):
    logging.getLogger(name).log(level, message)


def generator_inside():
    return {"rows": [1, 2, (n for n in ())]}


def opened():
    return open("/dev/null")


def a_lock():
    return threading.Lock()


def parent_pid():
    return os.getppid()


def pid():
    return os.getpid()


def ignore_the_end():
    """Do what a program can do against being ended in order."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


class Shelf(object):
    @staticmethod
    def size():
        return 3

    @classmethod
    def kind(cls):
        return cls.__name__

    def book(self):
        return "a book"


def search_path():
    return list(sys.path)


def ask_on_the_terminal(prompt):
    """What a user types there, without an echo."""
    import termios

    with open("/dev/tty", "r+b", 0) as terminal:
        modes = termios.tcgetattr(terminal)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(terminal, termios.TCSAFLUSH, modes)
        terminal.write(prompt.encode())
        return terminal.read(100).decode()


def say_goodbye_at_the_end():
    atexit.register(print_lines, ["goodbye"], [])


def children():
    """The processes that this one has started and that have not been waited for."""
    with open("/proc/self/task/%d/children" % os.getpid()) as children:
        return children.read().split()


def set_clock(ahead):
    """Set the time of day so many seconds ahead, also for modules that imported the function before."""
    _ahead[0] = ahead
    time.time = _wrong_time_of_day


def _wrong_time_of_day():
    return _time_of_day() + _ahead[0]


def receive_error(channel):
    try:
        channel.receive()
    except Exception as error:
        return str(error)


def lie(module, name, answer):
    """Let a function of that module answer so from now on; an exception is raised."""

    def function(*args):
        if isinstance(answer, Exception):
            raise answer
        return answer

    setattr(sys.modules[module], name, function)
