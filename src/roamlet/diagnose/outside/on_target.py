"""The part of a look at a process that runs on another machine. It travels alone, and has the reader's sources as text with it.

roamlet's own modules are not sent to targets, so they are made there under another name. The syntax is that of Python 2.7 too: an
old Python has to be able to say that it is too old.
"""

import os
import sys
import types


def look(sources, request):
    """Read processes of this machine: a list of {"pid", "tree" or "error"}, or what following.look_again() returns.

    `sources`: the text of each module by its name, packages first; those that an earlier call has brought may be left out.
    `request`: {"pid": int or None, "name": str or None, "locals": bool, "again": bool}. Raises RuntimeError where this Python is
    too old.
    """
    if sys.version_info < (3, 11):
        raise RuntimeError(_too_old(request["pid"]))
    for name, text in sources:
        if name not in sys.modules:
            _make(name, text)
    if request.get("again"):
        return sys.modules["roamlet_seen.outside.following"].look_again(request["pid"], request["name"])
    reading = sys.modules["roamlet_seen.outside.reading"]
    finding = sys.modules["roamlet_seen.outside.system.finding"]
    pids = [request["pid"]] if request["pid"] is not None else finding.find_processes(request["name"])
    found = []
    for pid in pids:
        try:
            tree = reading.read_process(pid, with_locals=request["locals"]).to_json()
            found.append({"pid": pid, "tree": tree})
        except RuntimeError as error:
            found.append({"pid": pid, "error": str(error)})
    return found


def _make(name, text):
    module = types.ModuleType(name)
    if text is None:
        module.__path__ = []
    sys.modules[name] = module
    try:
        exec(compile(text or "", "<%s>" % name, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    package, _, last = name.rpartition(".")
    if package:
        setattr(sys.modules[package], last, module)


def _too_old(pid):
    text = "the Python of this context is %d.%d, and reading a process needs 3.11 or later" % sys.version_info[:2]
    try:
        program = os.readlink("/proc/%d/exe" % pid) if pid is not None else None
    except OSError:
        program = None
    return text + (": give --python %s, which process %d runs" % (program, pid) if program else ": give --python")
