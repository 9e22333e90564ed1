"""What importlib.metadata tells about distributions whose modules come from the parent.

"@name/file" is a file of the distribution's metadata, "@name/" the listing of them (see roamlet.wire.modules.resources),
"@name/@" the folder at the parent that it is installed in, and "@" all distributions that the parent would send modules of: a
list of tuples (name, version, its entry_points.txt). `name` is in its normal form: lower case, with single dashes. Each is
asked for once, if it is not here.
"""

import re
import sys

from roamlet.wire import codec
from roamlet.wire.modules import importer

_classes = {}  # module of importlib.metadata, or its backport -> our class of distributions for it


def find(finder, context):
    """Return the distributions that fit the context of a search. Raises nothing: what cannot be had is not there."""
    if "path" in vars(context):
        return []  # somebody looks in certain places, and the parent's are not among them
    name = getattr(context, "name", None)
    try:
        if name is not None:
            name = normal(name)
            return [] if finder.fetch("@%s/METADATA" % name) is None else [_made(finder, context, name, {})]
        body = finder.fetch("@")
    except EnvironmentError:
        return []
    found = []
    for said, version, entry_points in codec.loads(body) if body is not None else ():
        said, version = importer.native(said), importer.native(version)
        known = {"name": said, "version": version, "_normalized_name": normal(said).replace("-", "_")}
        found.append(_made(finder, context, normal(said), known, entry_points))
    return found


def normal(name):
    """Return the name of a distribution in the form that questions use."""
    return re.sub("[-_.]+", "-", name).lower()


def _made(finder, context, name, known, entry_points=None):
    module = sys.modules[type(context).__module__]
    if module not in _classes:
        base = module.Distribution
        _classes[module] = type("Distribution", (base,), {"read_text": _read_text, "locate_file": _locate_file})
    made = type("Distribution", (_classes[module],), known) if known else _classes[module]
    distribution = made()
    distribution._finder = finder
    distribution._key = name
    distribution._entry_points = entry_points
    return distribution


def _read_text(self, filename):
    if filename == "entry_points.txt" and self._entry_points is not None:
        return self._entry_points or None
    data = self._finder.fetch("@%s/%s" % (self._key, filename)) if filename else None
    return None if data is None else data.decode("utf-8")


def _locate_file(self, path):
    """See importlib.metadata.Distribution: a path that Python's own functions can read over here."""
    # Imported here because only the files of a distribution need it.
    import pathlib

    __import__("roamlet.wire.modules.paths")
    sys.modules["roamlet.wire.modules.paths"].install(self._finder)
    place, folder = codec.loads(self._finder.fetch("@%s/@" % self._key))
    self._finder.paths[importer.PREFIX + importer.native(folder)] = "@" + self._key
    return pathlib.Path(importer.PREFIX + importer.native(place)) / path
