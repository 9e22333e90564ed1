"""The packages of commands beside roamlet, for `roamlet doctor`: their versions, and what they find out themselves.

A command's module may have `examine()`, which returns (about, state, said, mend) for each thing that it looked at.
"""

from collections.abc import Iterator
from importlib.metadata import entry_points, version

from roamlet.cli._apps import GROUP
from roamlet.cli.examining.finding import Finding


def findings() -> Iterator[Finding]:
    """All about them."""
    own = version("roamlet")
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        about = f"roamlet {entry.name}"
        package = entry.dist.name if entry.dist else entry.value
        theirs = entry.dist.version if entry.dist else ""
        try:
            module = entry.load()
        except Exception as error:  # it may raise anything while it is imported
            said = f"{package} {theirs} cannot be loaded: {type(error).__name__}: {error}"
            yield Finding(about, "wrong", said, f"pip install --force-reinstall {package}")
            continue
        if theirs != own:
            said = f"{package} is {theirs}, and roamlet {own}: they go together in the same version"
            yield Finding(about, "wrong", said, f"pip install {package}=={own}")
            continue
        yield Finding(about, "ok", f"{package} {theirs}")
        for found in getattr(module, "examine", lambda: ())():
            yield Finding(*found)
