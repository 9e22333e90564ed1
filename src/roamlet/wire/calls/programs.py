"""Scripts and shell commands for `roamlet run`: what is run as on the command line of the target, and how it ended.

Imports at its top only what a context has: an import could wait for one that is under way. What is printed goes the way of all
output, also that of processes, which have the descriptors 1 and 2 of this one.
"""

import os
import sys
import threading

from roamlet.wire.link import link

SHELL = "/bin/sh"
KILL = 9  # on every system; `signal` need not be imported

# The guard reads the number of the command's process group, waits for the end of its pipe, and kills the group. Only this process
# holds the write end, so the kernel ends the pipe whatever kills this process: exit handlers do not run on SIGKILL. On 2.7 and 3.6
# a process that it forks without exec holds it too; the command is then killed when both have ended.
_GUARD = "exec >/dev/null 2>&1; read group && { read end; kill -9 -$group; }"
# The command itself tells the guard its number, before it runs: there is no moment at which it runs unguarded.
_GUARDED = 'echo $$ >&0; exec %s -c "$@" </dev/null' % SHELL

_running = []
_pipes = []  # the write ends of those that guards read
_lock = threading.RLock()  # held during a fork, and while a pipe is opened or closed: a child closes those that it got
_hooks = []  # not empty once exit and fork handlers are registered


def command(text, args, seconds):
    """Run `text` by the shell, its $1, $2, ... being `args`, and return its exit status, negative for a signal.

    After `seconds`, if not None, it is killed with all that it has started, and "late" returned. It is also killed when this
    process ends in any way. Processes that it has left running when it ends by itself are not killed.
    """
    import subprocess  # in the functions: see above
    from functools import partial

    start = partial(subprocess.Popen, close_fds=True, **_own_session())
    _register()
    with _lock:
        source, target = os.pipe()
        _pipes.append(target)
    try:
        link._close_on_exec(target)  # 2.7 lets every program that this process starts inherit it
        try:
            guard = start([SHELL, "-c", _GUARD], stdin=source)
        finally:
            os.close(source)
        try:
            return _wait(start([SHELL, "-c", _GUARDED, "sh", text, "sh"] + list(args), stdin=target), seconds)
        finally:
            guard.kill()
            guard.wait()
    finally:
        with _lock:
            _pipes.remove(target)
            os.close(target)


def _wait(process, seconds):
    late = []

    def end():
        late.append(True)
        _kill(process)

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


def _own_session():
    return {"preexec_fn": os.setsid} if sys.version_info < (3, 2) else {"start_new_session": True}


def _register():
    import atexit

    if not _hooks:
        _hooks.append(atexit.register(_kill_all))
        at_fork = getattr(os, "register_at_fork", None)  # 3.7 and later
        if at_fork is not None:
            at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget)


def _kill(process):
    try:
        os.killpg(process.pid, KILL)
    except EnvironmentError:  # it has just ended
        pass


def _kill_all():
    for process in _running[:]:  # others end meanwhile
        _kill(process)


def _forget():
    """Let go of the commands in a process that was forked off: they end with its parent."""
    for target in _pipes:
        os.close(target)
    del _pipes[:], _running[:]
    _lock.release()  # it belongs to this thread, which has forked


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
