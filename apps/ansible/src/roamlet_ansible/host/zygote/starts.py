"""Programs that modules start: by vfork(), where core's own code asks for nothing that needs a fork."""

import sys

from roamlet_ansible.host.zygote.hooks import HOOKED
from roamlet_ansible.host.zygote.language import FILE, native

# What core's run_command() has done in each process that it starts, in its versions. Without a umask it is nothing.
PREPARATIONS = """
import os, signal, sys  # compilers call functions of modules in a way of their own

def of_2_19(umask):
    def preexec():
        if umask:
            os.umask(umask)
    return preexec

def of_2_16(self, umask):
    def preexec():
        self._restore_signal_handlers()
        if umask:
            os.umask(umask)
    return preexec

def restoring(self):
    if PY2 and sys.platform != 'win32':
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
"""
# In a dict of its own, as a module can reach it. `raise` adds no line to the traceback, which is that of stock.
START_PROCESS = """
def fork_exec(*args):
    try:
        return original(*shortened(args))
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise
"""
FUNCTION = type(native)


def text_of(code):
    """What a function does, as far as its variables do not tell."""
    takes = code.co_argcount, getattr(code, "co_kwonlyargcount", 0), code.co_flags & 0x3FF  # not what futures set
    return code.co_code, code.co_consts, code.co_names, code.co_freevars, takes


class Nothing(object):
    """Knows the functions that do nothing in a process which is being started: proven by their code, not by a name."""

    def __init__(self):
        made = {}
        exec(compile(PREPARATIONS, FILE, "exec", 0, True), made)
        self.newer = text_of(made["of_2_19"](None).__code__)
        self.older = text_of(made["of_2_16"](None, None).__code__)
        self.restoring = text_of(made["restoring"].__code__)

    def is_done_by(self, function):
        if type(function) is not FUNCTION:
            return False
        text = text_of(function.__code__)
        if text not in (self.newer, self.older):
            return False
        try:
            values = [cell.cell_contents for cell in function.__closure__]  # of the variables `self` and `umask`
        except ValueError:  # one that was not set: stock says so
            return False
        return values[-1] is None and (text == self.newer or self.restores_nothing(values[0]))

    def restores_nothing(self, owner):
        kind = type(owner)
        method = getattr(kind, "_restore_signal_handlers", None)
        if type(method) is not FUNCTION or kind.__getattribute__ is not object.__getattribute__:
            return False
        if "_restore_signal_handlers" in getattr(owner, "__dict__", ()):
            return False
        return text_of(method.__code__) == self.restoring and method.__globals__.get("PY2") is False


def shorten_starts():
    """Have processes started by vfork() where stock's Python forks for a function that does nothing.

    A fork copies the page tables, and afterwards each page that the module uses. Python calls vfork() where nothing is to
    be done in between.
    """
    import subprocess  # loaded by what core's own files import
    import threading  # by that

    at_once = hasattr(subprocess, "_fork_exec")
    place, name = (subprocess, "_fork_exec") if at_once else (subprocess._posixsubprocess, "fork_exec")
    nothing = Nothing()

    def alone():
        # A module may have put another one in its place.
        return len(getattr(sys.modules.get("threading", threading), "_active", ())) == 1

    def shortened(args):
        for index in (len(args) - 1, len(args) - 2):
            if nothing.is_done_by(args[index]) and not HOOKED and alone():
                return args[:index] + (None,) + args[index + 1 :]
        return args

    scope = {"original": getattr(place, name), "shortened": shortened, "__name__": subprocess.__name__}
    exec(compile(START_PROCESS, FILE, "exec", 0, True), scope)
    setattr(place, name, scope["fork_exec"])
