"""The standard library made cooperative: what would block a thread blocks one tasklet.

`python -m roamlet.patch SCRIPT` runs an unchanged program so; `install()` does it from within. Libraries that stand on `socket`,
`ssl`, `select`, `time`, `threading` and `subprocess` then wait as roamlet.io and roamlet.sync do: requests, database drivers,
http.client, smtplib. What was replaced is put back by uninstall().
"""

from roamlet.patch._install import Options, OtherPatch, Status, install, installed, patched, status, uninstall
from roamlet.patch.areas.libraries import BlockingLibraryWarning
from roamlet.patch.early import Early, EarlyImport, EarlyImportWarning

__all__ = [
    "BlockingLibraryWarning",
    "Early",
    "EarlyImport",
    "EarlyImportWarning",
    "Options",
    "OtherPatch",
    "Status",
    "install",
    "installed",
    "patched",
    "status",
    "uninstall",
]
