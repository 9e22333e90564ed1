"""The packages of commands beside roamlet, for `roamlet doctor`: their versions, and what they find out themselves.

A command's module may have `examine()`, which returns (about, state, said, mend) for each thing that it looked at.
"""

import shlex
import sys
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
            yield Finding(about, "wrong", said, _pip("--force-reinstall", package))
            continue
        if theirs != own:
            said = f"{package} is {theirs}, and roamlet {own}: they go together in the same version"
            yield Finding(about, "wrong", said, _pip(f"{package}=={own}"))
            continue
        yield Finding(about, "ok", f"{package} {theirs}")
        try:
            found = [Finding(*each) for each in getattr(module, "examine", tuple)()]
        except Exception as error:  # as above
            found = [Finding(about, "wrong", f"its examine() has failed: {type(error).__name__}: {error}")]
        yield from found


def _pip(*words: str) -> str:
    """The line that has pip install it for this Python."""
    return shlex.join([sys.executable, "-m", "pip", "install", *words])
