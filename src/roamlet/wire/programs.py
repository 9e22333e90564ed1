"""Scripts and shell commands for `roamlet run`: what is run as on the command line of the target, and how it ended.

Runs on the target; a part of the payload that travels when it is first needed, and imports at its top only what a context has: an
import could wait for one that is under way. What is printed goes the way of all output, also that of processes, which have the
descriptors 1 and 2 of this one.
"""

import os
import sys
import threading

SHELL = "/bin/sh"
KILL = 9  # on every system; `signal` need not be imported

_running = []
_ends = []  # not empty once the end of this process kills them


def command(text, args, seconds):
    """Run `text` by the shell, its $1, $2, ... being `args`, and return its exit status, negative for a signal.

    After `seconds`, if not None, it is killed with all that it has started, and "late" returned; also when this process ends.
    """
    import atexit  # in the functions: see above
    import subprocess

    group = {"preexec_fn": os.setsid} if sys.version_info < (3, 2) else {"start_new_session": True}
    process = subprocess.Popen([SHELL, "-c", text, "sh"] + list(args), close_fds=True, **group)
    late = []

    def end():
        late.append(True)
        _kill(process)

    if not _ends:
        _ends.append(atexit.register(_kill_all))
    _running.append(process)
    timer = None
    if seconds is not None:
        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
    try:
        status = process.wait()
    finally:
        _running.remove(process)
        if timer is not None:
            timer.cancel()
    return "late" if late else status


def _kill(process):
    try:
        os.killpg(process.pid, KILL)
    except EnvironmentError:  # it has just ended
        pass


def _kill_all():
    for process in _running[:]:  # others end meanwhile
        _kill(process)


def script(path, source, args):
    """Run the source (bytes) of a script as `__main__` in this process, wait for its threads, and return its exit status."""
    import linecache  # see command()
    import types

    if sys.version_info < (3,):
        path, args = path.encode("utf-8"), [arg.encode("utf-8") for arg in args]
        lines = source.splitlines(True)
    else:
        lines = source.decode("utf-8", "replace").splitlines(True)
    linecache.cache[path] = (len(source), None, lines, path)
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = sys.modules["__builtin__" if sys.version_info < (3,) else "builtins"]
    before = set(threading.enumerate())
    replaced = sys.modules.get("__main__"), sys.argv
    sys.modules["__main__"], sys.argv = main, [path] + list(args)
    try:
        status = _executed(path, source, main.__dict__)
        for thread in set(threading.enumerate()) - before:
            if not thread.daemon:
                thread.join()
        return status
    finally:
        sys.modules["__main__"], sys.argv = replaced


def _executed(path, source, names):
    try:
        exec(compile(source, path, "exec", 0, 1), names)
    except SystemExit as error:
        if error.code is None or type(error.code) in (int, bool):
            return int(error.code or 0) & 0xFF
        sys.stderr.write("%s\n" % (error.code,))
        return 1
    except BaseException:
        import traceback  # see command()

        kind, value, trace = sys.exc_info()
        try:
            traceback.print_exception(kind, value, trace.tb_next)  # from the script on
        finally:
            del value, trace  # they hold this frame
        return 1
    return 0
