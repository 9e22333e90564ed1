"""A Python prompt's far end: statements that run one after the other in one namespace, as at an interpreter's own prompt.

What it prints goes the way of all output.
"""

import code
import sys
import threading

_lock = threading.Lock()
_shells = {}


class _Interpreter(code.InteractiveInterpreter):
    """Knows whether the last statement has raised, or was none."""

    failed = False

    def showtraceback(self):
        self.failed = True
        code.InteractiveInterpreter.showtraceback(self)

    def showsyntaxerror(self, *args, **kwargs):
        self.failed = True
        code.InteractiveInterpreter.showsyntaxerror(self, *args, **kwargs)


class _Shell(object):
    def __init__(self):
        self.namespace = {"__name__": "__console__", "__doc__": None}
        self.interpreter = _Interpreter(self.namespace)
        self.thread = None  # in which a statement runs
        self.number = 0  # of the statement that was begun last
        self.unwanted = 0  # of one that is to be interrupted and has not begun


def start(token):
    """Begin; return (version, prompt, prompt of further lines)."""
    _shells[token] = _Shell()
    version = "%s %s" % ("Python", sys.version.replace("\n", ""))
    return version + " on " + sys.platform, getattr(sys, "ps1", ">>> "), getattr(sys, "ps2", "... ")


def enter(token, source, last, number):
    """Run `source` if it is a whole statement. Return "more" when lines are missing, "done", "failed", or ["exit", code].

    With `last` no more lines can come: that some are missing is an error then. `number` is larger each time.
    """
    shell = _shells[token]
    shell.interpreter.failed = False
    try:
        with _lock:
            shell.number = number
            if shell.unwanted == number:
                raise KeyboardInterrupt
            shell.thread = threading.current_thread().ident
        try:
            if shell.interpreter.runsource(source, "<stdin>", "single"):
                if not last:
                    return "more"
                try:
                    compile(source, "<stdin>", "single")
                except SyntaxError:
                    shell.interpreter.showsyntaxerror("<stdin>")
                return "failed"
            return "failed" if shell.interpreter.failed else "done"
        except SystemExit as error:
            status = error.code
            return ["exit", status if status is None or type(status) is int else str(status)]
        finally:
            _leave(shell)
    except KeyboardInterrupt:  # it came before the statement had begun, or when it had just ended
        _leave(shell)
        sys.stderr.write("KeyboardInterrupt\n")
        return "failed"


def _leave(shell):
    with _lock:
        thread, shell.thread = shell.thread, None
        if thread is not None:
            _raise_in(thread, None)  # what was asked for too late must not strike whatever this thread does next


def interrupt(token, number):
    """Raise KeyboardInterrupt in the statement of this number, at its next step. False when that cannot be done here.

    It may not have begun, as calls run in threads of their own, or have ended, and then this does nothing to the others.
    """
    shell = _shells.get(token)
    with _lock:
        if shell is None:
            return False
        if shell.number < number:
            shell.unwanted = number
        elif shell.number == number and shell.thread is not None:
            return _raise_in(shell.thread, KeyboardInterrupt)
        return True


def _raise_in(thread, kind):
    try:
        import ctypes
    except ImportError:
        return False
    number = ctypes.c_long if sys.version_info < (3, 7) else ctypes.c_ulong
    return ctypes.pythonapi.PyThreadState_SetAsyncExc(number(thread), kind and ctypes.py_object(kind)) == 1


def complete(token, text):
    """Return what the last word of a line may become."""
    import keyword
    import rlcompleter

    completer = rlcompleter.Completer(_shells[token].namespace)
    try:
        found = completer.attr_matches(text) if "." in text else completer.global_matches(text)
    except Exception:  # of the objects' own code
        found = []
    return sorted(set(word.rstrip() + " " * (word.rstrip() in keyword.kwlist) for word in found))[:1000]
