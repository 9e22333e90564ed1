"""A context that lets go of its parent and goes on by itself, as one function in a process of its own session.

For a context that was opened for this alone; its functions are called.

Until it lets go it is a context like any other, and dies with its link. What starts it has forked once before all this (see
roamlet.remote.opening.detach): the half that its intermediary knows waits for the word, and ends with it, so that
no other process has to know this one, to wait for it, or to end it.
"""

import errno
import os
import sys
import threading

from roamlet.wire import codec, protocol
from roamlet.wire.calls import calls
from roamlet.wire.link import link
from roamlet.wire.modules import bundle

REASON = (
    "this process was detached, and only what had come by then is here: import it at the top of the function's module"
)
WORD = b"D"
_REST = 1.0  # seconds

_child = None
_job = []  # function, args, kwargs, and descriptors that lead nowhere, and to the output


def install(child):
    global _child  # noqa: PLW0603 - the process is the context
    _child = child
    if hasattr(sys, "roamlet_waits"):
        link._close_on_exec(sys.roamlet_waits)  # which 2.7 does not do by itself


def load(output, module, name, args, kwargs):
    """Make ready to run a function: find it with all that its module imports, open the file for what it prints."""
    function = calls._module(str(module))
    for part in str(name).split("."):
        function = getattr(function, part)
    nothing = os.open(os.devnull, os.O_RDWR)
    _job[:] = function, args, kwargs or {}, nothing, nothing if output is None else _opened(bytes(output))


def _opened(path):
    if not codec.PY2:
        path = path.decode(sys.getfilesystemencoding(), "surrogateescape")  # which is how an error should name it
    path = os.path.expanduser(path)
    # A pipe without a reader is refused at once, and a terminal does not become that of the session.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    link._close_on_exec(fd)
    import fcntl  # here, because whoever installs a part is not to wait for an import

    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
    return fd


def let_go():
    """Answer with the number of this process and let go of the link; the main thread runs the function next.

    Where what comes is recorded, return its size instead.

    Raises what keeps it from that; then nothing has changed. What it returns goes nowhere.
    """
    child = _child
    _fetch_extensions(child.importer)
    recorded = getattr(sys, "roamlet_recorded", None)
    if recorded is not None:  # see roamlet.remote.opening.recording: all has come, and another interpreter will let go
        return os.fstat(recorded).st_size
    with child.life._lock:
        if child.life._ends:
            raise EnvironmentError(errno.EPIPE, "the link to the parent is lost")
        child.life._ends = True  # from here on, nothing that happens to the link ends this process
    for function in child.life.on_loss:
        function(REASON)
    try:
        child._streams.flush()
        child._link.send(protocol.RESULT, child.pool.here.number, codec.dumps(os.getpid()))
    except EnvironmentError:
        os._exit(1)  # the parent has not been told that it goes on, so it does not
    pool = child.pool
    pool._try = _try
    pool._handle = _end_of_link
    pool._turns = _Turns()  # all threads come by there: those that wait now, once they are woken
    return None


def recording(begin, size):
    """A piece of the recording. Its descriptor is another process's, too: it has one place for both."""
    with open("/proc/self/fd/%d" % sys.roamlet_recorded, "rb") as file:
        file.seek(begin)
        return bytearray(file.read(size))


def _fetch_extensions(importer):
    """Have the shared objects of all modules that were announced come now. Raises ImportError for what cannot."""
    for name, found in list(importer._modules.items()):
        if found[0] == bundle.EXTENSION:
            files = codec.loads(found[1])[1]
            for number, _, _, _ in files:
                importer.extensions._ask(number)
            for number, label, size, _ in files:
                importer.extensions._wait(name, number, label, size)


def _shed(child):
    """Let what is written lead to the output, or to nothing; then the half that was known may end.

    What is read from stays: others may be about to wait for it. Its other end closes with the context, and they wait for ever.
    """
    ends = list(child._streams._ends)
    nothing, output = _job[3:]
    for number in (1, 2, child._errors):
        os.dup2(output, number)
    os.dup2(nothing, child._link.target)
    for number in (child._errors, child._link.target):
        link._close_on_exec(number)
    for number in set((nothing, output)):
        os.close(number)
    _close_pipes(ends)
    _stop_forwarding(child)
    try:
        os.write(sys.roamlet_waits, WORD)
    except EnvironmentError:
        pass  # it was killed
    os.close(sys.roamlet_waits)


def _close_pipes(ends):
    """Close those through which output went to the parent, unless a program that was started before still holds one."""
    for thread in threading.enumerate():
        if thread.name == "roamlet-stdio":
            thread.join(_REST)
            if thread.is_alive():
                return
    for end in ends:
        os.close(end)


def _stop_forwarding(child):
    """Let what is logged go where it goes without a parent."""
    child.importer._watched.pop("logging", None)
    logging = sys.modules.get("logging")
    if logging is not None:
        for handler in list(logging.root.handlers):
            if type(handler).__module__ == "roamlet.wire.life.logs":
                logging.root.removeHandler(handler)
                logging.root.setLevel(logging.WARNING)


def _try(function, *args):
    """In place of Pool._try: errors of the link do not matter any more."""
    try:
        function(*args)
    except EnvironmentError:
        pass


def _end_of_link(frame):
    """In place of Child.handle: what still comes is dropped."""
    if frame is None:
        _child.pool._turns.give_back()  # somebody may wait for this turn, and be the one that is wanted
        _child.pool._turns.wait()


class _Turns(object):
    """In place of link.turns: the main thread runs the function; any other one wakes the next, and waits for ever."""

    def wait(self):
        if type(threading.current_thread()).__name__ == "_MainThread":
            _shed(_child)  # here, because another thread could not know what this one is about to do with the link
            _run()
        _child._turns.wake()
        threading.Event().wait()

    def give_back(self):
        _child._turns.give_back()

    def wake(self):
        _child._turns.wake()


def _run():
    """Signals, exit handlers and threads are as in any program from here on; so is the end."""
    import signal

    signal.signal(signal.SIGINT, signal.default_int_handler)
    function, args, kwargs = _job[:3]
    del _job[:]
    code = 0
    try:
        try:
            function(*args, **kwargs)
        except SystemExit:
            raise
        except BaseException:
            _show(*sys.exc_info())
            code = 1
        sys.exit(code)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # noqa: S112 - it is the function's own, or closed, or its disk is full
                continue


def _show(kind, error, trace):
    """Print an error as the interpreter does, without our own frame, and with the lines of modules from memory."""
    trace = trace.tb_next
    if not codec.PY2:
        error.__traceback__ = trace
    if sys.excepthook is sys.__excepthook__:
        import traceback

        traceback.print_exception(kind, error, trace)
    else:
        sys.excepthook(kind, error, trace)
