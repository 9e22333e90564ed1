"""Which top-level modules a target has, read from the directories of sys.path without importing any."""

import os
import sys


def top_level_names(path=None):
    """Return (packages, namespaces): two sets of str.

    `packages`: what `import name` finds: modules built in, sources, extension modules, directories with an
    __init__, also in zip files. `namespaces`: other directories whose name could be imported (none on 2.7).
    Takes about 2 microseconds an entry. Entries of `path` (sys.path by default) that cannot be read count as empty.
    """
    packages = set(sys.builtin_module_names)
    namespaces = set()
    for directory in sys.path if path is None else path:
        try:
            entries = os.listdir(directory)
        except EnvironmentError:
            if os.path.isfile(directory):
                packages.update(_names_in_zip(directory))
            continue
        for entry in entries:
            name, dot, suffix = entry.partition(".")
            if dot:
                if suffix in ("py", "pyc") or (suffix[-2:] == "so" and suffix[-3:-2] in ("", ".")):
                    packages.add(name)
                    if sys.version_info < (3,) and name.endswith("module"):
                        packages.add(name[:-6])
            elif name in packages or name in namespaces or not _is_name(name):
                continue
            elif _is_package(os.path.join(directory, name)):
                packages.add(name)
            elif sys.version_info >= (3,) and os.path.isdir(os.path.join(directory, name)):
                namespaces.add(name)
    return packages, namespaces - packages


def _is_name(text):
    return text.replace("_", "a").isalnum() and not text[0].isdigit() and text != "__pycache__"


def _is_package(directory):
    # A listing of the directory would cover __init__.so and __init__.pyc as well, at several times the price; the two are
    # looked for only where the usual one is missing.
    return os.path.exists(directory + "/__init__.py") or os.path.exists(directory + "/__init__.pyc")


def _names_in_zip(path):
    # Imported here because most targets have no zip file in sys.path, and zipimport is not free.
    import zipimport

    try:
        # The table of contents, which every import from the archive would read and keep likewise.
        files = zipimport._zip_directory_cache[zipimport.zipimporter(path).archive]
    except (zipimport.ZipImportError, AttributeError, KeyError):
        return set()
    names = set()
    for name in files:
        parts = name.replace(os.sep, "/").split("/")
        stem, dot, suffix = parts[0].partition(".")
        if len(parts) == 1 and dot and suffix in ("py", "pyc"):
            names.add(stem)
        elif len(parts) == 2 and not dot and parts[1] in ("__init__.py", "__init__.pyc"):
            names.add(stem)
    return names
