"""Where the code that failed on a target came from: the file and the distribution that this process has sent."""

import re
import sys

from roamlet.remote import modules
from roamlet.remote._facts import Facts

_FRAME = re.compile(r'^ *File "roamlet:(/[^"\n]+)", line (\d{1,7})', re.MULTILINE)
_FAILED_IMPORTS = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError")


def of_failed_import(type_name: str, traceback: str, name: str, facts: Facts) -> str:
    """One sentence about the last place of a remote traceback: its file, the distribution and version, and both Pythons.

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
    return f"{file}, line {line},{whose} was sent by this process, which is {ours}; {name!r} is {theirs}."
