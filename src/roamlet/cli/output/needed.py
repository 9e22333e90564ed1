"""The package that the command line prints tables and progress with. The library does not need it; the extra `cli` brings it."""

import sys
from importlib.util import find_spec

from roamlet.cli._errors import UsageError


def need_rich(instead: str = "") -> None:
    """Raise UsageError where rich is not installed: before anything is touched, rather than when there is something to print.

    `instead`: what the user could type that needs no rich.
    """
    if find_spec("rich") is not None:
        return
    other = f", or {instead}" if instead else ""
    raise UsageError(
        "it prints tables with the package rich, which is not installed beside roamlet. Type: "
        f"{sys.executable} -m pip install 'roamlet[cli]'{other}"
    )
