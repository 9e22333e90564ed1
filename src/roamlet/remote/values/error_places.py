"""What an error on a target has to do with the files that this process has sent: whose code failed, whose file was not opened."""

import os
import re
import sys

from roamlet.remote import modules
from roamlet.remote.base.facts import Facts

_FRAME = re.compile(r'^ *File "roamlet:(/[^"\n]+)", line (\d{1,7})', re.MULTILINE)
_PATH = re.compile(r"roamlet:(/[^\"'\n]+)")
_LOST = re.compile(r"cannot import name '(\w{1,200})' from '([\w.]{1,200})'")
_FAILED_IMPORTS = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError")


def of_failed_import(type_name: str, text: str, traceback: str, name: str, facts: Facts) -> str:
    """What is to be said of the last place of a remote traceback: its file, the distribution and version, and both Pythons.

    `from package import name` forgets why a module cannot be had: of an extension module that cannot run there it is said again.
    Empty for other errors than those of imports, and where nothing of this process is in the traceback. Reads metadata of installed
    distributions. The traceback is the target's claim: nothing of the file that it names is read.
    """
    places = _FRAME.findall(traceback) if type_name in _FAILED_IMPORTS else []
    if not places:
        return ""
    path, line = places[-1]
    file, owner = modules.owner_of(path)
    ours = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    whose = f" of {owner}," if owner else ""
    theirs = f"{facts.implementation} {facts.version}"
    said = f"{file}, line {line},{whose} was sent by this process, which is {ours}; {name!r} is {theirs}."
    lost = _LOST.search(text)
    reason = modules.why_not(f"{lost.group(2)}.{lost.group(1)}", facts.for_extensions) if lost else ""
    return f"{said} {reason}." if reason else said


def of_unopened(text: str, given: str = "") -> str:
    """One sentence about a path of this process in the text of an error: why a library in C does not find such a file.

    `given` is the path that the failed call was given, as the target claims. Empty where neither has a path, where no such file
    exists, and for the errors of roamlet itself, which give the reason.
    """
    found = _PATH.search(text) or _PATH.search(given)
    if found is None or "the parent's" in text or not os.path.isfile(found.group(1)):
        return ""
    file, owner = modules.owner_of(found.group(1))
    package = file.partition("/")[0]
    whose = f" of {owner}" if owner else ""
    return (
        f"{file}{whose} is in memory on the target, where Python's own functions open it by that path and libraries in C do not. "
        f"Give them a real path (importlib.resources.as_file), the bytes or an open file, or install {package} on the target."
    )
