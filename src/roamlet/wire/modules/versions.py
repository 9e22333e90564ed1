"""Which versions of some top-level packages a target has, from the names of what installers leave beside them.

Imports none of the packages.
"""

import os
import re
import sys

_ENDINGS = (".dist-info", ".egg-info")


def versions(names):
    """Return {top-level name: version} for those of `names` whose version can be told. Reads directories and small files."""
    found = {}
    for place in sys.path:
        try:
            entries = os.listdir(place)
        except EnvironmentError:
            continue
        for entry in entries:
            if not entry.endswith(_ENDINGS) or "-" not in entry:
                continue
            name, _, version = entry.rpartition(".")[0].partition("-")
            version = re.sub(r"-py\d.*$", "", version)
            for top in _tops(os.path.join(place, entry), name):
                if top in names and top not in found:
                    found[top] = version
    return found


def _tops(folder, name):
    tops = _lines(folder, "top_level.txt")
    if tops is None:
        lines = _lines(folder, "RECORD") or ()
        tops = set(re.split(r"[/,]", line, maxsplit=1)[0].partition(".")[0] for line in lines)
    tops = set(tops)
    tops.add(re.sub("[-_.]+", "_", name).lower())
    return tops


def _lines(folder, file):
    try:
        with open(os.path.join(folder, file)) as text:
            return text.read().split("\n")
    except (EnvironmentError, ValueError):
        return None
