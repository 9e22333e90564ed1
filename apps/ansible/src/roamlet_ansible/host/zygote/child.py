"""What runs in a child: it leaves the zygote, runs its module as stock's wrapper does, and ends as an interpreter does."""

import gc
import os
import random
import runpy
import signal
import sys
import tempfile
import time

from roamlet_ansible.host.zygote.hooks import HOOKED, REGISTER, UNNEEDED, gc_was_on
from roamlet_ansible.host.zygote.language import FILE, PY3, native

# How stock ends a module that returns: the wrapper's text of 2.16 to 2.18; from 2.19 on core's own loader says it.
UNENDED = '{"msg": "New-style module did not handle its own exit", "failed": true}'

# The end of the wrapper, in frames that a traceback of stock's has too.
WRAPPER = """
def _ansiballz_main():
    def invoke_module():
%s
    invoke_module()
_ansiballz_main()
"""
PLAINLY = """
        from ansible.module_utils import basic
        basic._ANSIBLE_ARGS = params
        names = dict(_module_fqn=fqn, _modlib_path=root)
        runpy.run_module(mod_name=fqn, init_globals=names, run_name="__main__", alter_sys=True)
        print(unended)
        sys.exit(1)
"""
BY_LOADER = """
        from ansible.module_utils._internal._ansiballz import _loader
        _loader.run_module(json_params=params, profile=profile, module_fqn=fqn, modlib_path=root, extensions={})
"""
SHAPES = dict(
    (shape, compile(WRAPPER % body, "<stdin>", "exec", 0, True))
    for shape, body in (("2.16", PLAINLY), ("2.19", BY_LOADER))
)


def limit_files(soft):
    import resource  # only where the user has set a limit

    current, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, soft) if hard != resource.RLIM_INFINITY else soft
    if wanted != current:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except ValueError:
            return


def working_folder():
    """As the wrapper does where the working directory cannot be read."""
    try:
        os.getcwd()
    except OSError:
        try:
            os.chdir(os.path.expanduser("~"))
        except OSError:
            os.chdir("/")


def forget_caches():
    """What standard modules have stored of a state that may have changed since."""
    tempfile.tempdir = None
    platform = sys.modules.get("platform")
    if platform is not None:
        if hasattr(platform, "_uname_cache"):
            platform._uname_cache = None
        if isinstance(getattr(platform, "_platform_cache", None), dict):
            platform._platform_cache.clear()
        if hasattr(platform, "_os_release_cache"):
            platform._os_release_cache = None
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        linecache.clearcache()
    # Python 3.7 seeds it again in every fork, by a hook.
    if REGISTER is None:
        random.seed()
    elif UNNEEDED:
        super(random.Random, random._inst).seed()


def settle_threads():
    """What Python does after a fork where threads may have been, if it was not left out, and what it forgets to do."""
    threading = sys.modules.get("threading")
    if UNNEEDED and threading is not None and len(threading._active) != 1:  # a module that was loaded has started one
        for hooks in UNNEEDED:
            if "after_in_child" in hooks:
                hooks["after_in_child"]()
    if REGISTER is not None:
        os.register_at_fork = REGISTER
        for hooks in UNNEEDED:
            REGISTER(**hooks)
    main = getattr(threading, "_main_thread", None)
    if hasattr(main, "_native_id"):
        main._native_id = os.getpid()


def temporary_folder():
    tempfile.tempdir = None
    try:
        return os.path.realpath(tempfile.gettempdir())
    except (IOError, OSError):
        return "/tmp"  # none can be written: only a respawn needs one, and says so
    finally:
        tempfile.tempdir = None


def empty_main():
    """Leave in `__main__` what the wrapper has there when it starts the module."""
    main = sys.modules["__main__"].__dict__
    main.clear()
    main.update(
        __name__="__main__",
        __doc__=None,
        __package__=None,
        __builtins__=sys.modules["builtins" if PY3 else "__builtin__"],
        __file__="<stdin>",
        _ANSIBALLZ_WRAPPER=True,
    )


KEPT = []  # modules that were taken away: Python 2 would clear the globals of functions that others may refer to


def choose(zygote, payload, archive, root):
    """Leave of the modules that were loaded before the fork those that this payload has."""
    archive.root = root
    KEPT.append((archive.files, archive.folders))  # to free them would copy the pages of all that they have
    drop, conflict = zygote.stock.plan_for(payload)
    if conflict:
        drop = [name for name in list(sys.modules) if name.partition(".")[0] in ("ansible", "ansible_collections")]
    for name in drop:
        module = sys.modules.pop(name, None)
        KEPT.append(module)
        above, _, leaf = name.rpartition(".")
        above = sys.modules.get(above)
        # Python 2 has None for names that it has looked for in a package in vain.
        if module is not None and above is not None and above.__dict__.get(leaf) is module:
            delattr(above, leaf)
    archive.show(payload)
    if conflict:
        archive.loaded.clear()
        PRELOADED.clear()
        return


def run_module(request, archive):
    """Run the module as stock's wrapper of that shape does. Returns its exit code."""
    scope = {
        "__name__": "__main__",
        "runpy": runpy,
        "sys": sys,
        "unended": UNENDED,
        "fqn": native(request["fqn"]),
        "params": request["params"],
        "profile": request.get("profile"),
        "root": archive.root,
    }
    try:
        try:
            exec(SHAPES[request["shape"]], scope)
        finally:
            archive.remove()  # before the end is reported, as stock's does
    except SystemExit as end:
        status = status_of(end)
        wait_for_threads()  # while what was raised still refers to the module, whose names Python 2 would clear
    except BaseException as error:
        status = show(error)
        wait_for_threads()
    else:
        status = 0
        wait_for_threads()
    sys.last_type = sys.last_value = sys.last_traceback = None
    return status


def wait_for_threads():
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            threading._shutdown()
        except BaseException:
            sys.excepthook(*sys.exc_info())


def status_of(end):
    """The exit status that Python gives a process which ends by this SystemExit."""
    code = end.code
    if code is None:
        return 0
    if isinstance(code, int) or (not PY3 and isinstance(code, long)):  # noqa: F821 - Python 2
        return int(code) & 255
    try:
        sys.stderr.write("%s\n" % (code,))
    except Exception:
        return 1
    return 1


def show(error):
    """Print the traceback without the zygote's frames, as an interpreter does. Returns the exit status."""
    kind, value, trace = sys.exc_info()
    while trace is not None and trace.tb_frame.f_code.co_filename == FILE:
        trace = trace.tb_next
    if hasattr(value, "with_traceback"):
        value = value.with_traceback(trace)
    sys.last_type, sys.last_value, sys.last_traceback = kind, value, trace
    try:
        sys.excepthook(kind, value, trace)
    except SystemExit as end:
        return status_of(end)
    except BaseException:
        sys.__excepthook__(kind, value, trace)
    if isinstance(error, KeyboardInterrupt) and sys.version_info >= (3, 8):
        return -signal.SIGINT
    return 1


def finish(status, archive):
    """What an interpreter does at its end, as far as others can see it. Returns the exit status."""
    atexit = sys.modules.get("atexit")
    if atexit is not None:
        try:
            atexit._run_exitfuncs()
        except SystemExit as end:
            if not PY3:
                status = status_of(end)
        except BaseException:
            if not PY3:  # Python 3 has said it
                kind, value, trace = sys.exc_info()
                sys.stderr.write("Error in sys.exitfunc:\n")
                sys.excepthook(kind, value, trace.tb_next)
                sys.exc_clear()
    if not flushed():
        status = 120 if PY3 else status
    # Objects whose end writes or removes something: open files, temporary folders. Modules die with their dicts.
    sys.modules.pop("__main__", None)
    for name in list(archive.loaded):
        if name not in PRELOADED:
            sys.modules.pop(name, None)
    # Only what is younger than the zygote. The oldest generation is empty as long as no other one has been looked through.
    gc.collect() if gc.get_count()[2] or sys.version_info >= (3, 14) else gc.collect(1)
    flushed()
    return status


def flushed():
    fine = True
    for stream in (sys.stdout, sys.stderr):
        if stream is None or getattr(stream, "closed", False):
            continue
        try:
            stream.flush()
        except Exception as error:
            fine = False
            if PY3 and stream is sys.stdout:
                try:
                    sys.stderr.write("Exception ignored in: %r\n%s: %s\n" % (stream, type(error).__name__, error))
                except Exception:
                    return False
    return fine


PRELOADED = set()


def fresh_streams():
    """Standard streams for pipes, where the zygote's own were opened on a terminal."""
    if PY3:
        import io  # loaded anyway

        def stream(number, mode, model):
            return io.TextIOWrapper(
                io.open(number, mode, closefd=False), model.encoding, model.errors, newline="\n" if number else None,
                line_buffering=number == 2,
            )  # fmt: skip

        sys.stdin = sys.__stdin__ = stream(0, "rb", sys.__stdin__)
        sys.stdout = sys.__stdout__ = stream(1, "wb", sys.__stdout__)
        sys.stderr = sys.__stderr__ = stream(2, "wb", sys.__stderr__)
    else:
        sys.stdin = sys.__stdin__ = os.fdopen(0, "r")
        sys.stdout = sys.__stdout__ = os.fdopen(1, "w")
        sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 0)


def leave_zygote(zygote, out, err, kept=()):
    """The first steps of a forked process, which are the same for all modules. Of its other descriptors `kept` become 3 and 4."""
    settle_threads()
    os.setsid()
    signal.set_wakeup_fd(-1)
    set_handler(signal.SIGCHLD, DEFAULT_ACTION)
    reading, writing = os.pipe()
    os.close(writing)  # standard input is a pipe at its end, as stock's is after the script
    os.dup2(reading, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    highest = max(reading, writing, zygote.highest)
    if kept:
        os.dup2(kept[0], 3)  # what is there now is the zygote's
        os.dup2(kept[1], 4)
    os.closerange(3 + len(kept), highest + 1)
    os.umask(zygote.umask)
    if zygote.terminal:
        fresh_streams()


def child(zygote, request, payload, root):
    """The forked process after leave_zygote(), to its exit status."""
    if zygote.cwd is not None:
        os.chdir(zygote.cwd)
    environment = request.get("environment")
    if environment:
        for name, value in environment.items():
            os.environ[native(name)] = native(value)
        if "TZ" in environment:
            time.tzset()
    working_folder()
    if request.get("rlimit_nofile"):
        limit_files(request["rlimit_nofile"])
    forget_caches()
    archive = zygote.stock.archive
    if environment and "TMPDIR" in environment:
        root = os.path.join(temporary_folder(), root[len(zygote.base) :])
    if request.get("hooks"):
        HOOKED.append(request["fqn"])
    archive.date_time = tuple(request.get("date_time") or archive.date_time)[:6]
    choose(zygote, payload, archive, root)
    excluded = ("", ".", os.getcwd())
    sys.path[:] = [root] + [path for path in zygote.path if path not in excluded]
    sys.argv[:] = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[1:] = []
    if gc_was_on:
        gc.enable()
    status = run_module(request, archive)
    if not PY3:
        sys.exc_clear()
    return finish(status, archive)


try:
    # Without the enumerations that are made of what it returns.
    from _signal import SIG_DFL as DEFAULT_ACTION
    from _signal import signal as set_handler
except ImportError:
    DEFAULT_ACTION, set_handler = signal.SIG_DFL, signal.signal
