"""What a function on the target learns about the distributions that its modules came from."""

import sys

from roamlet_dist_one import value  # noqa: F401 - whose distribution the tests ask for


def version(name):
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError as error:
        return repr(error)


def entry_points(group):
    from importlib import metadata

    found = metadata.entry_points()
    found = found.select(group=group) if hasattr(found, "select") else found.get(group, ())
    return sorted((one.name, one.value, one.load()()) for one in found)


def files(name):
    from importlib import metadata

    distribution = metadata.distribution(name)
    listed = {str(file): file.locate() for file in distribution.files}
    return sorted(listed), listed["roamlet_dist_one/data.txt"].read_text(), distribution.metadata["Summary"]


def names():
    from importlib import metadata

    return sorted({one.metadata["Name"] for one in metadata.distributions()} - {None})


def modules_here():
    return sorted(sys.modules)
