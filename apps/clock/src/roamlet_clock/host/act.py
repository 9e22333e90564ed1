"""Carries out the actions of a plan on this host, but for the files, which roamlet itself has put there. Decides nothing.

Runs on the host: standard library, Python 2.7, or 3.6 and later. roamlet_clock.actions describes each action.
"""

from __future__ import unicode_literals

import errno
import os
import re

from roamlet_clock.host import commands

# What the script writes into its folder.
OURS = re.compile(b"(stamp|stamp[.]1|installed|[.]new[.][0-9]+)$")


def act(actions):
    """Do `actions` in their order: {"done": how many were done, "error": None or why the next one failed, "said": lines}.

    `said` is what the script said of itself. Blocks until all is done, seconds at the most. Raises ValueError for what is no action
    before anything is changed.
    """
    steps = [(_DO[_what(action)], action) for action in actions]
    said = []
    done = 0
    try:
        for function, action in steps:
            said += function(action) or []
            done += 1
    except (commands.CannotDo, OSError) as error:
        return {"done": done, "error": commands.told(error), "said": said}
    return {"done": done, "error": None, "said": said}


def _what(action):
    if not isinstance(action, dict) or action.get("do") not in _DO:
        raise ValueError("{!r} is no action; is it of another version of roamlet?".format(action))
    return action["do"]


def _remove(action):
    path = action["path"]
    try:
        if action["folder"]:
            _empty(path)
            # Where somebody has put a link in place of the folder, what it leads to was there before us.
            (os.unlink if os.path.islink(path) else os.rmdir)(path)
        else:
            os.unlink(path)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return
        raise
    # What has gone does not come back with the power.
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _empty(path):
    """Remove our stamps from a folder. Raises CannotDo, with everything as it was, if there is more in it than these."""
    folder = path.encode("utf-8")  # bytes, because names in it may be no text
    names = os.listdir(folder) if os.path.exists(folder) or not os.path.islink(folder) else []  # a link to nowhere
    ours = [name for name in names if OURS.match(name) and not os.path.isdir(os.path.join(folder, name))]
    if len(ours) < len(names) and not os.path.islink(folder):
        foreign = commands.shown(b", ".join(sorted(set(names).difference(ours))[:5]))
        raise commands.CannotDo("{} holds what is not of roamlet clock: {}".format(path, foreign))
    for name in ours:
        try:
            os.unlink(os.path.join(folder, name))
        except OSError as error:
            if error.errno != errno.ENOENT:  # by the end of a save
                raise


def _systemctl(action):
    commands.must("systemctl", *action["words"])


def _run(action):
    """Run the script by its own first line, as systemd will."""
    status, output, said = commands.run(action["program"], action["command"])
    lines = [line for line in (output + said).splitlines() if line.strip()]
    if status:
        raise commands.CannotDo("{}: {}".format(action["command"], " ".join(lines) or "ended with status %d" % status))
    return lines


_DO = {"remove": _remove, "systemctl": _systemctl, "run": _run}
